"""``python -m tests.census.operations``: writes docs/OPERATIONS.md."""

from collections.abc import Iterator
from pathlib import Path

from axioms.kinds import RULES
from numeric.engine.operations import TABLE, Case, Role
from numeric.engine.refusals import REASONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "OPERATIONS.md"
HEAD = """\
# Operations

While a model runs, every torch function that an activation reaches is looked up by its name in
`numeric/engine/operations.py`. From this file `python -m tests.census.operations` makes this page:
the effect of each function on relevance, and why. `x + y`, `torch.add`, `Tensor.add` and `add_`
have one name. An unlisted function that meets an activation is refused; there is no default rule.

Where a row names a kind, the composite chooses one of the kind's rules, and the row describes
AttnLRP's choice. A table below lists the rules, and `axioms/kinds.py` describes them. The numbers
are theorems: `lrp-axioms prove --show 6` prints theorem 6.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, *("\n".join(_section(role)) for role in TABLE.values())]
    rules = ((f"`{kind}`", ", ".join(map(_code, names))) for kind, names in RULES.items())
    refused = ((_said(what), why) for what, why in REASONS.items())
    parts += ["\n".join(["## Kinds and their rules", "", *_table(("kind", "rules"), rules)])]
    parts += ["\n".join(["## Refused by name", "", *_table(("what", "why"), refused)])]
    return "\n".join(parts)


def _section(role: Role) -> Iterator[str]:
    yield from (f"## {role.about}", "", " ".join(map(_code, sorted(role.functions.split()))), "")
    heads = "when", "relevance", "because", "kind", "theorems"
    yield from _table(heads, map(_row, role.cases))


def _row(case: Case):
    kind = _code(case.kind) if case.kind else "–"
    return case.when, case.relevance, case.reason, kind, ", ".join(map(str, case.theorems)) or "–"


def _table(heads, rows) -> Iterator[str]:
    yield from ("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows))
    yield ""


def _code(name):
    return f"`{name}`"


def _said(what):
    return what.format("…", "…") if "{" in what or " " in what else _code(what)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
