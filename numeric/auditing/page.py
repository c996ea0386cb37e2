"""An audit as one HTML page that loads nothing: the flow of relevance, every line, every verdict.

Geometry and rounding are here, markup is in ``page.html.j2``, and the flow is in ``flow``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from lrp_axioms.numeric.auditing.flow import flow
from lrp_axioms.numeric.auditing.meanings import MEANINGS
from lrp_axioms.numeric.auditing.rounding import accounts, balance, by_kind, signed
from lrp_axioms.numeric.auditing.terminal import section, span
from lrp_axioms.numeric.results import render

TEMPLATES = Environment(
    autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
TEMPLATES.filters["signed"] = signed
SOURCE = Path(__file__).with_name("page.html.j2").read_text("utf-8")


def page(facts: Mapping[str, Any]) -> str:
    """Writes the page of ``plain`` data; words of the input and of the model are escaped."""
    rows = {op["number"]: _row(op) for op in facts["operations"]}
    drawn, shown = flow(facts), section(facts)
    stages = zip(facts["stages"], drawn["rows"], strict=True)
    return TEMPLATES.from_string(SOURCE).render(
        facts=facts,
        tokens=[x | cell for x, cell in zip(facts["tokens"], shown.cells(), strict=True)],
        legend=shown.legend,
        **render.fixed(SOURCE),
        causes=_causes(facts),
        kinds=by_kind(facts),
        columns=[c for c in facts["causes"] if any(c in row["seen"] for row in rows.values())],
        flow=drawn,
        stages=[row | {"operations": [rows[n] for n in x["operations"]]} for x, row in stages],
        rows=rows,
        worst=[rows[number] for number in facts["worst"]],
        depths={leaf: span(depths) for leaf, depths in facts["structure"]["depths"].items()},
    )


def _causes(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "meaning": MEANINGS[name], "shown": shown, "exact": facts["causes"][name]}
        for name, shown in accounts(facts)[0].items()
    ]


def _row(op: dict[str, Any]) -> dict[str, Any]:
    arrived, shown, passed = balance(op["arrived"], op["absorbed"])
    seen = {cause: number for cause, number in shown.items() if number != signed(0)}
    return op | {"seen": seen, "arrives": arrived, "passes": passed}
