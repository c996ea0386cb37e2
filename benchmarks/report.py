"""All results as one self-contained HTML page."""

import base64
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmarks import tables
from benchmarks.errors import RunError
from benchmarks.experiment import Result, provenance, read

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "assets"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def load(folder: Path) -> list[Result]:
    """All results in a folder and the folders in it, in the order of the paper.

    Raises RunError if there is none, and for a file that is broken.
    """
    paths = [path for path in sorted(folder.rglob("*.json")) if path.name != "record.json"]
    if not paths:
        raise RunError(f"{folder} holds no results; run `lrp-axioms reproduce` first")
    order = list(tables.COLUMNS)
    results = [read(path) for path in paths]
    for path, result in zip(paths, results, strict=True):
        if result.table not in order:
            raise RunError(
                f"{path} is no result of this program (table {result.table!r}); remove it, or run "
                "the experiment again"
            )
    return sorted(results, key=lambda result: (order.index(result.table), result.name))


def write(folder: Path) -> list[Path]:
    """report.html and report.md of all results in ``folder``, in it."""
    results = load(folder)
    found = {"report.html": render(results), "report.md": markdown(results)}
    for name, content in found.items():
        (folder / name).write_text(content, encoding="utf-8")
    return [folder / name for name in found]


def markdown(results: Sequence[Result]) -> str:
    """All tables and findings but the list of theorems, for a README."""
    parts = []
    for result in results:
        parts += [
            f"### {tables.escaped(result.title)}",
            *([] if result.table == "theorems" else [tables.markdown(result)]),
        ]
        if result.notes:
            parts.append("\n".join(f"- {tables.escaped(note)}" for note in result.notes))
    return "\n\n".join(parts) + "\n"


def render(results: Sequence[Result]) -> str:
    """The page: summary, then every table and figure with what determined it."""
    from benchmarks import figures  # matplotlib, which those who only measure do without

    sections = []
    for result in results:
        headers, rows = tables.cells(result)
        image = figures.png(result)
        image = image and base64.b64encode(image).decode()
        columns = list(zip(headers, tables.numeric(rows), strict=True))
        sections.append({"result": result, "columns": columns, "rows": rows, "image": image})
    template = TEMPLATES.get_template("report.html.j2")
    return template.render(sections=sections, summary=_summary(results), provenance=provenance())


def _summary(results):
    """The answers to the two questions that most readers come with."""
    lines = []
    for result in results:
        if result.table == "theorems":
            lines += result.notes
        if result.table == "table2":
            for method, everything, content, *_ in tables.cells(result)[1]:
                if method in ("AttnLRP", "CP-LRP"):
                    lines.append(
                        f"{result.settings['dataset']}, {method}: r with Leave-One-Out is "
                        f"{everything} over all tokens, {content} over content tokens."
                    )
            lines += result.notes
    for last in [result.rows[-1] for result in results if result.table == "time"]:
        lines.append(
            f"Leave-One-Out takes {last['LOO / AttnLRP']:.1f} times as long as AttnLRP at "
            f"{last['tokens']} tokens."
        )
    return lines
