"""One decision as data: both sides, the symbols in them, the sign case, and the verdict.

``axioms.decide.identity`` adds each decision to the open record, if there is one::

    from lrp_axioms.axioms.decide.records import recording

    with recording() as record:
        identical(lhs, rhs)
    for decision in record.decisions:
        print(decision.kind, decision.assumptions, decision.signs, decision.verdict)

``axioms.evidence.prove.prove(..., decisions={})`` collects the decisions of every theorem.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import sympy as sp

IDENTICAL, DIFFER_AT = "identical", "differ_at"  # kinds, by the functions that decide them
WORDS = ("positive", "negative", "nonnegative", "nonpositive", "nonzero", "real")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether two expressions are the same rational function, or differ at an exact point."""

    kind: str  # IDENTICAL or DIFFER_AT
    left: sp.Expr
    right: sp.Expr
    verdict: bool  # of IDENTICAL that the sides are the same, of DIFFER_AT that they differ
    point: Mapping[sp.Symbol, sp.Expr] = field(default_factory=dict)  # of DIFFER_AT
    signs: tuple[tuple[int, ...], ...] = ()  # the cases of every `sign_cases` that was under way

    @property
    def is_trivial(self) -> bool:
        """Whether both sides are the same expression as written."""
        return bool(self.left == self.right)

    @cached_property
    def symbols(self) -> tuple[sp.Symbol, ...]:
        """All symbols of both sides, by name."""
        return tuple(sorted(self.left.free_symbols | self.right.free_symbols, key=str))

    @property
    def assumptions(self) -> dict[str, str]:
        """The assumption on each symbol, by name: the strongest of WORDS, or ''."""
        return {str(x): assumption(x) for x in self.symbols}


def assumption(symbol: sp.Symbol) -> str:
    """The strongest of WORDS that is assumed of a symbol; '' if it is any complex number."""
    return next((word for word in WORDS if getattr(symbol, f"is_{word}")), "")
