"""Rules of one's own: `lrp-axioms prove docs/my_rules.py` decides what holds for each of them.

A rule takes the operands, the output, the relevance R of the output and the stabiliser eps, and
returns the relevance that each operand receives from that output; all other operations follow
AttnLRP.  All arguments are exact:
symbols in a proof, numbers in a witness.  Use + - * / and powers, `sign`, `abs` and SymPy's `Max`.
A rule is one formula: a comparison such as `z == 0` is refused, because no symbol equals a number.
"""

from sympy import Rational

from axioms.own_rules import rule, sign


@rule("product")
def half_each(x, y, z, R, eps):
    """The paper's equal split (Sec. 3.1): it conserves, and depends on the brackets."""
    return R / 2, R / 2


@rule("add")
def by_magnitude(x, y, z, R, eps):
    """Shares by absolute value: it conserves, and depends on the brackets too."""
    total = abs(x) + abs(y)
    return R * abs(x) / total, R * abs(y) / total


@rule("linear")
def epsilon(x, w, b, z, R, eps):
    """Eq. 1: x and w are lists; bias and stabiliser absorb their shares."""
    return [xi * wi * R / (z + eps * sign(z)) for xi, wi in zip(x, w, strict=True)]


@rule("bilinear")
def one_third(a, v, o, R, eps):
    """A third to the first factor of every matrix product: conserves, sees which is first."""
    share = R / (o + eps * sign(o))
    to_a = [Rational(1, 3) * ai * vi * share for ai, vi in zip(a, v, strict=True)]
    return to_a, [2 * r for r in to_a]
