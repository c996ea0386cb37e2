"""Compares every method with every axiom, and lists sets of axioms that exclude each other.

``python -m website.axiom_table`` writes docs/AXIOMS.md.  Verdicts about rewrites of the
methods of docs/SCOREBOARD.md are read there, where a test compares them with a computation; all
other verdicts are computed here, as epsilon -> 0.
"""

import itertools
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TypeAlias

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.pages import markdown
from lrp_axioms.axioms.pages.scoreboard import PAGE as SCOREBOARD
from lrp_axioms.axioms.pages.scoreboard import SHORT
from lrp_axioms.axioms.rewrites.rewrites import ATTENTION, REWRITES
from lrp_axioms.axioms.scoreboard.axiom_cells import AXIOMS as NO_REWRITES
from lrp_axioms.axioms.scoreboard.axiom_cells import (
    CONSERVATION,
    FUNCTIONALS,
    LOO_OF_PRODUCTS,
    SYMMETRY,
    UNITS,
    Decided,
    by_rules,
    decide_axiom,
)
from lrp_axioms.axioms.scoreboard.rule_sets import MASK_RELEVANCE, ON_ATTENTION, RULE_SETS
from lrp_axioms.axioms.scoreboard.scoreboard import AT_EXPONENTIALS, LIMIT, PROVED, scoreboard
from lrp_axioms.axioms.search import words
from lrp_axioms.axioms.search.solve import search
from lrp_axioms.axioms.search.templates import AXIOMS as SEARCHED
from lrp_axioms.axioms.search.templates import Template
from lrp_axioms.axioms.theorems.axiom_rules import AXIOM_RULES
from lrp_axioms.axioms.theorems.axiom_sets import Axioms, largest, smallest_not_had
from lrp_axioms.axioms.theorems.excluded import BRACKETS, EXCLUDED, ONE, ORDER

PAGE = SCOREBOARD.with_name("AXIOMS.md")
OF_REWRITES = (*REWRITES, *ATTENTION)
AXIOMS = (*NO_REWRITES, *OF_REWRITES)
METHODS = (*(x.name for x in RULE_SETS), MASK_RELEVANCE.name, *(x.name for x in AXIOM_RULES))
Cells: TypeAlias = Mapping[tuple[str, str], Decided]  # by axiom and method


def no_rewrites() -> Cells:
    """Verdicts on axioms that are no rewrites, for every method."""
    rules = {x.name: by_rules(x) for x in (*RULE_SETS, *AXIOM_RULES) if x.composite}
    methods = rules | FUNCTIONALS
    return {(axiom, x): decide_axiom(axiom, methods[x]) for axiom in NO_REWRITES for x in METHODS}


def computed_rewrites() -> Cells:
    """Verdicts on rewrites that the scoreboard lacks: of the new rules, and of whole heads."""
    known = {x.name for x in ON_ATTENTION}
    others = tuple(x for x in RULE_SETS if x.name not in known)
    limit, whole = (LIMIT,), {"first": AT_EXPONENTIALS, "attacks": 0}
    cells = (
        *scoreboard(AXIOM_RULES, regimes=limit),
        *scoreboard((*AXIOM_RULES, *others), tuple(ATTENTION), regimes=limit, **whole),
    )
    return {
        (cell.rewrite, cell.rule_set): Decided(verdict=cell.verdict, witness=cell.witness)
        for cell in cells
    }


def from_scoreboard(page: str) -> Cells:
    """The first mark of every cell of the scoreboard's tables, which is about epsilon -> 0."""
    marks = {mark: verdict for verdict, mark in SHORT.items()}
    found: dict[tuple[str, str], Decided] = {}
    for name in ("scoreboard", "attention scoreboard"):
        _, _, rest = page.partition(f"<!-- {name} -->\n")
        head, _, *rows = rest.partition("\n<!-- /")[0].splitlines()
        columns = _cells(head)[1:]
        for rewrite, *row in map(_cells, rows):
            for column, mark in zip(columns, row, strict=True):
                first = mark.split(" / ")[0].split(" (")[0]  # without its theorem
                found[rewrite, column] = Decided(verdict=marks[first])
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table(page: str) -> dict[tuple[str, str], Decided]:
    """All cells; mask relevance is gradient x input where the scoreboard has no cell for it."""
    of_rewrites = {**from_scoreboard(page), **computed_rewrites()}
    found = dict(no_rewrites())
    for rewrite, method in itertools.product(OF_REWRITES, METHODS):
        known = (rewrite, method) in of_rewrites or method != MASK_RELEVANCE.name
        found[rewrite, method] = of_rewrites[rewrite, method if known else "gradient x input"]
    return found


def obeyed(cells: Cells) -> dict[str, Axioms]:
    """By method: the axioms that it obeys for certain."""
    methods = dict.fromkeys(method for _, method in cells)
    return {
        method: frozenset(a for a in AXIOMS if cells[a, method].verdict == PROVED)
        for method in methods
    }


def as_markdown(cells: Cells) -> str:
    """The table: a row per axiom, a column per method."""
    rows = [[axiom, *(SHORT[cells[axiom, x].verdict] for x in METHODS)] for axiom in AXIOMS]
    return markdown.table(["Axiom", *METHODS], rows)


def _names(axioms: Iterable[str]) -> str:
    return ", ".join(sorted(axioms, key=AXIOMS.index))


def excluded_as_markdown(cells: Cells) -> str:
    """The smallest sets that no method of the table obeys, each with a reason.

    Raises ValueError for a set without a theorem.
    """
    found = smallest_not_had(obeyed(cells).values(), frozenset(AXIOMS))
    if unknown := sorted(_names(axioms) for axioms in found - set(EXCLUDED)):
        raise ValueError(f"no theorem excludes {'; '.join(unknown)}; find a rule, or a proof")
    chosen = [axioms for axioms in EXCLUDED if axioms in found]
    return "\n".join(f"- {_names(axioms)}: {EXCLUDED[axioms]}." for axioms in chosen)


def largest_as_markdown(cells: Cells) -> str:
    """Lists the methods that obey a largest set of axioms, and the axioms that each gives up."""
    holds = obeyed(cells)
    best = largest(holds.values())
    given_up = {x: _names(frozenset(AXIOMS) - holds[x]) for x in METHODS if holds[x] in best}
    return "\n".join(f"- {method} gives up: {axioms}." for method, axioms in given_up.items())


def witnesses_as_markdown(cells: Cells) -> str:
    """Refutations that are not in docs/SCOREBOARD.md, one entry for all methods that share one."""
    shared: dict[tuple[str, str], list[str]] = {}
    for axiom, method in itertools.product(AXIOMS, METHODS):
        if witness := cells[axiom, method].witness:
            shared.setdefault((axiom, witness), []).append(method)
    lines = [f"- {axiom}; {'; '.join(who)}: {text}." for (axiom, text), who in shared.items()]
    return "\n".join(lines)


FOUND = (  # operation, degree of the template, axioms
    (kinds.PRODUCT, 2, (CONSERVATION, SYMMETRY)),
    (kinds.PRODUCT, 2, (CONSERVATION, ORDER, BRACKETS)),
    (kinds.PRODUCT, 2, (CONSERVATION, BRACKETS)),
    (kinds.PRODUCT, 2, (CONSERVATION, BRACKETS, ONE)),
    (kinds.PRODUCT, 2, (CONSERVATION, UNITS)),
    (kinds.PRODUCT, 2, (CONSERVATION, "distribute products")),
    (kinds.PRODUCT, 2, (CONSERVATION, UNITS, ORDER)),
    (kinds.PRODUCT, 2, (CONSERVATION, UNITS, BRACKETS)),
    (kinds.PRODUCT, 2, (UNITS, ORDER, BRACKETS)),
    (kinds.PRODUCT, 2, (LOO_OF_PRODUCTS,)),
    (kinds.ADD, 1, (CONSERVATION, "re-associate sums")),
    (kinds.ADD, 2, (CONSERVATION, "commute sums", "re-associate sums")),
)
"""Sets of axioms whose rules the page lists, after the sets in EXCLUDED about products alone."""


@cache
def found_as_markdown() -> str:
    """The rules that `lrp-axioms search` finds for sets of axioms."""
    sets = [x for x in EXCLUDED if x <= SEARCHED[kinds.PRODUCT].keys()]
    excluded = [(kinds.PRODUCT, 2, sorted(x, key=AXIOMS.index)) for x in sets]
    rows = []
    for operation, degree, axioms in (*excluded, *FOUND):
        found = words.in_table(search(Template(operation, degree), axioms, seconds=600))
        name = "sum" if operation == kinds.ADD else operation
        rows.append([", ".join(axioms), name, str(degree), found])
    head = ["axioms", "operation", "degree", "rules"]
    return markdown.table(head, rows, ["---", "---", "--:", "---"])


PARTS = {
    "axioms": as_markdown,
    "excluded": excluded_as_markdown,
    "largest": largest_as_markdown,
    "found": lambda _: found_as_markdown(),
    "witnesses": witnesses_as_markdown,
}


def filled(page: str, cells: Cells) -> str:
    """``page`` with all that is made of ``cells``."""
    return markdown.fill(page, {name: part(cells) for name, part in PARTS.items()})


if __name__ == "__main__":
    found = table(SCOREBOARD.read_text("utf-8"))
    PAGE.write_text(filled(PAGE.read_text("utf-8"), found), "utf-8")
    print(PAGE)
