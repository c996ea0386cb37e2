"""Every axiom and every method: which obeys which, and which sets of axioms can be had together.

``python -m axioms.invariance.axiom_table`` writes docs/AXIOMS.md.  Verdicts about rewrites of the
methods of docs/SCOREBOARD.md are read there, where a test compares them with what is computed; all
others are computed here, as epsilon -> 0.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from axioms.invariance.attention import ATTENTION
from axioms.invariance.axiom_cells import AXIOMS as NO_REWRITES
from axioms.invariance.axiom_cells import (
    CONSERVATION,
    FUNCTIONALS,
    LOCALITY,
    LOO_OF_ATTENTION,
    LOO_OF_PRODUCTS,
    SYMMETRY,
    UNITS,
    Decided,
    by_rules,
    decide_axiom,
)
from axioms.invariance.axiom_rules import AXIOM_RULES
from axioms.invariance.axiom_sets import Axioms
from axioms.invariance.markdown import PAGE as SCOREBOARD
from axioms.invariance.markdown import SHORT
from axioms.invariance.rewrites import REWRITES
from axioms.invariance.rule_sets import MASK_RELEVANCE, RULE_SETS
from axioms.invariance.scoreboard import (
    AT_EXPONENTIALS,
    LIMIT,
    ON_TEMPLATES,
    OPEN,
    PROVED,
    scoreboard,
)

PAGE = SCOREBOARD.with_name("AXIOMS.md")
OF_REWRITES = (*REWRITES, *ATTENTION)
AXIOMS = (*NO_REWRITES, *OF_REWRITES)
METHODS = (*(x.name for x in RULE_SETS), MASK_RELEVANCE.name, *(x.name for x in AXIOM_RULES))
Cells: TypeAlias = Mapping[tuple[str, str], Decided]  # by axiom and method

ONE_SHARE = (UNITS, "distribute products", "factor sums")
"""Each makes the share of a local rule that conserves one number."""
EXCLUDED: tuple[Axioms, ...] = (
    frozenset({CONSERVATION, LOO_OF_PRODUCTS}),
    frozenset({CONSERVATION, LOO_OF_ATTENTION}),
    frozenset({LOCALITY, LOO_OF_ATTENTION, "duplicate keys"}),
    *(
        frozenset({CONSERVATION, LOCALITY, same, *others})
        for others in (
            ("commute products", "re-associate products"),
            ("commute products", "multiply by one"),
            (SYMMETRY,),
        )
        for same in ONE_SHARE
    ),
    *(
        frozenset({CONSERVATION, LOCALITY, order, "fold batch norm"})
        for order in ("commute products", SYMMETRY)
    ),
)
"""What no method obeys, by theorems 60, 63 and 67."""


def no_rewrites() -> Cells:
    """The axioms that are no rewrites, for every method."""
    rules = {x.name: by_rules(x) for x in (*RULE_SETS, *AXIOM_RULES) if x.composite}
    methods = rules | FUNCTIONALS
    return {(axiom, x): decide_axiom(axiom, methods[x]) for axiom in NO_REWRITES for x in METHODS}


def rewrites_of_new_rules() -> Cells:
    """The rewrites of the scoreboard, for the rules that it does not have."""
    cells = (
        *scoreboard(AXIOM_RULES),
        *scoreboard(AXIOM_RULES, tuple(ATTENTION), first=AT_EXPONENTIALS, attacks=0),
    )
    return {
        (cell.rewrite, cell.rule_set): Decided(verdict=cell.verdict, witness=cell.witness)
        for cell in cells
        if cell.eps == LIMIT
    }


def from_scoreboard(page: str) -> Cells:
    """The first mark of every cell of the scoreboard's tables, which is that of epsilon -> 0."""
    marks = {mark: verdict for verdict, mark in SHORT.items()}
    found: dict[tuple[str, str], Decided] = {}
    for name in ("scoreboard", "attention scoreboard"):
        _, _, rest = page.partition(f"<!-- {name} -->\n")
        head, _, *rows = rest.partition("\n<!-- /")[0].splitlines()
        columns = _cells(head)[1:]
        for rewrite, *row in map(_cells, rows):
            for column, mark in zip(columns, row, strict=True):
                found[rewrite, column] = Decided(verdict=marks[mark.split(" / ")[0]])
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table(page: str) -> dict[tuple[str, str], Decided]:
    """All cells; mask relevance is gradient x input where the scoreboard has no cell for it."""
    of_rewrites = {**from_scoreboard(page), **rewrites_of_new_rules()}
    found = dict(no_rewrites())
    for rewrite in OF_REWRITES:
        for method in METHODS:
            known = of_rewrites.get((rewrite, method))
            if method == MASK_RELEVANCE.name and known is None:
                known = of_rewrites[rewrite, "gradient x input"]
            found[rewrite, method] = known or Decided(verdict=OPEN)
    return found


def obeyed(cells: Cells, axioms: Iterable[str] = AXIOMS) -> dict[str, Axioms]:
    """By method: the axioms that it obeys for certain, on all templates at least."""
    holds = (PROVED, ON_TEMPLATES)
    methods = dict.fromkeys(method for _, method in cells)
    return {
        method: frozenset(a for a in axioms if cells[a, method].verdict in holds)
        for method in methods
    }
