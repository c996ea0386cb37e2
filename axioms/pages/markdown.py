"""Tables of Markdown, and parts of a page between two comments, such as <!-- axioms -->."""

from collections.abc import Mapping, Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], align: Sequence[str] = ()) -> str:
    """A table; ``align`` is the line below its head."""
    lines = [head, align or ["---", *[":-:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fill(page: str, parts: Mapping[str, str]) -> str:
    """The page with every part between its comments; ValueError for a page without them."""
    for name, part in parts.items():
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, found, rest = page.partition(f"{start}\n")
        _, closed, after = rest.partition(f"\n{end}")
        if not (found and closed):
            raise ValueError(f"no line between {start} and {end}; add all three to the page")
        page = f"{before}{found}{part}{closed}{after}"
    return page
