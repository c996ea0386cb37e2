"""``python -m tests.census.methods``: writes the table of methods in docs/EXPLAIN.md."""

from pathlib import Path

from numeric.methods.catalogue import table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "EXPLAIN.md"
START, END = "<!-- methods: python -m tests.census.methods -->\n", "\n<!-- /methods -->"


def filled(page: str) -> str:
    """The page with the table of the records."""
    head, rest = page.split(START)
    return head + START + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
    print(PAGE)
