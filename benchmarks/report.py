"""All results as one self-contained HTML page."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmarks import tables
from benchmarks.experiment import Result, provenance

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "assets"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(results: Sequence[Result]) -> str:
    """The page: summary, then every table and figure with what determined it."""
    sections = []
    for result in results:
        headers, rows = tables.cells(result)
        image = _image(result) if result.figure else None
        columns = list(zip(headers, tables.numeric(rows), strict=True))
        sections.append({"result": result, "columns": columns, "rows": rows, "image": image})
    template = TEMPLATES.get_template("report.html.j2")
    return template.render(sections=sections, summary=_summary(results), provenance=provenance())


def _image(result):
    png = io.BytesIO()
    result.figure(result).savefig(png, dpi=150)
    return base64.b64encode(png.getvalue()).decode()


def _summary(results):
    """The answers to the two questions that most readers come with."""
    found = {result.name: result for result in results}
    lines = []
    if "theorems" in found:
        lines += found["theorems"].notes
    if "table2" in found:
        for method, everything, content, *_ in tables.cells(found["table2"])[1]:
            if method in ("AttnLRP", "CP-LRP"):
                lines.append(
                    f"{method}: r with Leave-One-Out is {everything} over all tokens, {content} "
                    "over content tokens."
                )
        lines += found["table2"].notes
    if "time" in found:
        last = found["time"].rows[-1]
        lines.append(
            f"Leave-One-Out takes {last['LOO / AttnLRP']:.1f} times as long as AttnLRP at "
            f"{last['tokens']} tokens."
        )
    return lines
