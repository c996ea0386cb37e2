"""Long formulas as LaTeX that fits a page, in rows."""

import re
from collections.abc import Sequence

import sympy as sp

from lrp_axioms.axioms.pages.notation import Notation

WIDTH = 58  # of a row, in letters
SHORT = 14  # of a left side that stands in one row with the right one
BELOW = r" \\ \noalign{\vskip 1ex} "  # between two rows, however tall they are


def displayed(
    notation: Notation, relation: sp.Basic, after: str = "", values: Sequence[sp.Expr] = ()
) -> list[str]:
    """A relation for a displayed formula, over several rows where one is not enough.

    The ``values`` of both sides stand between them.
    """
    left, right = relation.args
    sign = r"\neq" if isinstance(relation, sp.Ne) else "="
    one, other = values or (left, right)
    before = "" if left == one else f" = {notation.latex(one)}"
    last = "" if right == other else f"{notation.latex(other)} = "
    middle = f"{before} {sign} {last}"
    whole = f"{notation.latex(left)}{middle}{notation.latex(right)}{after}"
    if width(whole) <= WIDTH:
        return [whole]
    rows = broken(notation, left)
    if len(rows) == 1 and width(rows[0] + middle) <= SHORT:
        rows = broken(notation, right, rows[0] + middle)
    else:
        rows += broken(notation, right, middle.strip() + " ")
    rows[-1] += after
    return rows


def array(rows: Sequence[str]) -> str:
    """Rows of a displayed formula, below each other."""
    if len(rows) == 1:
        return rows[0]
    body = BELOW.join(rf"\displaystyle {row}" for row in rows)
    return rf"\begin{{array}}{{@{{}}l@{{}}}} {body} \end{{array}}"


def broken(notation: Notation, side: sp.Expr, start: str = "") -> list[str]:
    """A side in rows, broken between its terms."""
    rows, used = [start], width(start)
    for n, term in enumerate(side.as_ordered_terms()):
        printed = notation.latex(term)
        if n and used + width(printed) > WIDTH:
            rows.append(r"\quad ")
            used = 2.0
        rows[-1] += (" + " if n and not printed.startswith("-") else " ") + printed
        used += width(printed) + 3 * bool(n)
    return rows


TOKEN = re.compile(r"\\frac|\\[a-zA-Z]+|\\.|[_^]|[{}]|[^\s]")
WIDTHS = {r"\,": 0.4, r"\ ": 0.6, r"\quad": 2.0, r"\log": 3.0, r"\exp": 3.5, r"\lim": 3.0} | {
    **dict.fromkeys((r"\left", r"\right", r"\mathrm", r"\displaystyle"), 0.0),
    **dict.fromkeys(("+", "-", "=", r"\neq", r"\leftarrow", r"\to"), 2.4),
    **dict.fromkeys("(),.|", 0.8),
}
"""About how wide a token of LaTeX is, where it is not one letter."""
BELOW_OR_ABOVE = 0.75  # the size of an index, and of a fraction in a fraction


def width(latex: str) -> float:
    """About how many letters wide a formula is when it is printed."""
    tokens = TOKEN.findall(latex)
    return _run(tokens, 0, end="")[0]


def _run(tokens: list[str], at: int, *, end: str) -> tuple[float, int]:
    """The width of tokens up to ``end``, and where that ends."""
    total, last = 0.0, 0.0
    while at < len(tokens) and tokens[at] != end:
        token = tokens[at]
        if token == r"\frac":
            above, at = _group(tokens, at + 1)
            below, at = _group(tokens, at)
            total += max(above, below) + 0.5
        elif token in "_^":
            inner, at = _group(tokens, at + 1)
            index = BELOW_OR_ABOVE * inner
            beside = at < len(tokens) and tokens[at] in "_^"
            total, last = (total, index) if beside else (total + max(index, last), 0.0)
        elif token == "{":
            inner, at = _group(tokens, at)
            total += inner
        else:
            total, at = total + WIDTHS.get(token, 1.0), at + 1
    return total, at


def _group(tokens: list[str], at: int) -> tuple[float, int]:
    """The width of one token or of one group in braces, and the place behind it."""
    if tokens[at] != "{":
        return WIDTHS.get(tokens[at], 1.0), at + 1
    total, at = _run(tokens, at + 1, end="}")
    return total, at + 1
