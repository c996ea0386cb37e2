"""Long formulas as LaTeX that fits a page: rows, and names for what is too wide to be broken."""

from collections.abc import Sequence

import sympy as sp

from axioms.proofs.notation import Notation

WIDTH = 62  # of a row, in letters
SHORT = 14  # of a left side that stands in one row with the right one
WIDE = 30  # of a sum that gets a name where it is repeated, or in too wide a fraction


def displayed(
    notation: Notation, relation: sp.Basic, after: str = "", values: Sequence[sp.Expr] = ()
) -> str:
    """A relation for a displayed formula, over several rows where one is not enough.

    The ``values`` of both sides stand between them.  A sum too wide for its fraction is named
    D_1, D_2, ..., and given at the end.
    """
    named: dict[sp.Expr, sp.Symbol] = {}
    left, right = (_named(side, named) for side in relation.args)
    sign = r"\neq" if isinstance(relation, sp.Ne) else "="
    one, other = values or (left, right)
    before = "" if left == one else f" = {notation.latex(one)}"
    last = "" if right == other else f"{notation.latex(other)} = "
    middle = f"{before} {sign} {last}"
    if _width(left) + _width(right) + 2 * len(values) <= WIDTH and not named:
        return f"{notation.latex(left)}{middle}{notation.latex(right)}{after}"
    rows = _rows(notation, left)
    if len(rows) == 1 and _width(left) <= SHORT:
        rows = _rows(notation, right, rows[0] + middle)
    else:
        rows += _rows(notation, right, middle.strip() + " ")
    rows[-1] += after
    for whole, symbol in named.items():
        rows += _rows(notation, whole, f"{notation.latex(symbol)} = ")
    return array(rows)


def array(rows: list[str]) -> str:
    """Rows of a displayed formula, below each other."""
    body = r" \\[2ex] ".join(rf"\displaystyle {row}" for row in rows)
    return rf"\begin{{array}}{{@{{}}l@{{}}}} {body} \end{{array}}"


def _rows(notation: Notation, side: sp.Expr, start: str = "") -> list[str]:
    """A side, broken between its terms."""
    rows, width = [start], 0
    for term in side.as_ordered_terms():
        printed = notation.latex(term)
        if width and width + _width(term) > WIDTH:
            rows.append(r"\quad ")
            width = 0
        joined = width or len(rows) > 1
        rows[-1] += (" + " if joined and not printed.startswith("-") else " ") + printed
        width += int(_width(term)) + 3
    return rows


def _named(side: sp.Expr, named: dict[sp.Expr, sp.Symbol]) -> sp.Expr:
    """The side with symbols for wide sums in terms that fit no row."""
    terms = [_narrow(term, named) for term in side.as_ordered_terms()]
    return sp.Add(*terms, evaluate=False) if len(terms) > 1 else terms[0]


def _narrow(term: sp.Expr, named: dict[sp.Expr, sp.Symbol]) -> sp.Expr:
    if _width(term) <= WIDTH:
        return term
    wide = [x for x in sp.preorder_traversal(term) if x.is_Add and _width(x) > WIDE]
    inner = [x for x in wide if not any(x != y and x.has(y) for y in wide)]
    for whole in inner:
        named.setdefault(whole, sp.Symbol(f"D{len(named) + 1}"))
    return term.xreplace(named)


def _width(part: sp.Expr) -> float:
    """About how many letters wide a formula is when it is printed."""
    if part.is_Symbol:
        name = str(part)
        return 3.5 if name.startswith("entry") else 1 + 0.6 * (len(name) - 1)
    if part.is_Number:
        return len(str(part)) if part.is_Integer else 2
    above, below = sp.fraction(part) if part.is_Mul or part.is_Pow else (part, 1)
    if below != 1:
        return max(_width(above), _width(below))
    gaps = {True: 3.0, False: 0.5}[bool(part.is_Add)]
    if part.is_Pow:
        return _width(part.base) + 0.7 + 2 * bool(part.base.is_Add)
    brackets = 2 * sum(bool(x.is_Add) for x in part.args) if part.is_Mul else 0
    return sum(map(_width, part.args)) + gaps * (len(part.args) - 1) + brackets
