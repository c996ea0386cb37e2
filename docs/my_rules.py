"""Rules of one's own: `lrp-axioms prove docs/my_rules.py` decides the claims on each of them.

A rule takes the operands, the output, the relevance R of the output and the stabiliser eps, and
returns the relevance that each operand receives from that output; all other operations follow
AttnLRP.  All arguments are exact:
symbols in a proof, numbers in a witness.  Use + - * / and powers, `sign`, `abs` and SymPy's `Max`,
`Min` and `Piecewise`.  A rule is one formula: a comparison such as `z == 0` is refused, because no
symbol equals a number.

Some of these rules keep their promise, and some make a common mistake; the docstring of each says
so.
"""

from sympy import Rational

from lrp_axioms import rule, sign


def products(a, b):
    return [x * y for x, y in zip(a, b, strict=True)]


@rule("product")
def half_each(x, y, z, R, eps):
    """The paper's equal split (Sec. 3.1): it conserves, and depends on the brackets."""
    return R / 2, R / 2


@rule("product")
def by_factor(x, y, z, R, eps):
    """Shares by the size of the factors: it conserves, and depends on their units."""
    total = abs(x) + abs(y)
    return R * abs(x) / total, R * abs(y) / total


@rule("product")
def whole_each(x, y, z, R, eps):
    """Gradient times input gives all of R to both factors: as many times R as there are factors."""
    return R, R


@rule("add")
def by_magnitude(x, y, z, R, eps):
    """Shares by absolute value: it conserves, and depends on the brackets too."""
    total = abs(x) + abs(y)
    return R * abs(x) / total, R * abs(y) / total


@rule("linear")
def epsilon(x, w, b, z, R, eps):
    """Eq. 1: x and w are lists; bias and stabiliser absorb their shares."""
    return [c * R / (z + eps * sign(z)) for c in products(x, w)]


@rule("linear")
def alike(x, w, b, z, R, eps):
    """As much to every input: it conserves, and a neuron that is written twice counts twice."""
    return [R / len(x) for _ in x]


@rule("bilinear")
def one_third(a, v, o, R, eps):
    """A third to the first factor of every matrix product: conserves, sees which is first."""
    to_a = [Rational(1, 3) * c * R / (o + eps * sign(o)) for c in products(a, v)]
    return to_a, [2 * r for r in to_a]


@rule("scores")
def undivided(q, k, z, R, eps):
    """Eq. 3 without its 2: queries and keys receive all of R each, twice as much as there is."""
    each = [c * R / (z + eps * sign(z)) for c in products(q, k)]
    return each, each


@rule("readout")
def values_alone(a, v, o, R, eps):
    """CP-LRP's (Sec. 2): the attention weights receive nothing, and the values conserve."""
    return [0] * len(a), [c * R / (o + eps * sign(o)) for c in products(a, v)]


@rule("softmax")
def diagonal(z, a, R, eps):
    """Only the diagonal of the softmax's Jacobian: a constant added to all logits changes it."""
    return [zi * (1 - ai) * r for zi, ai, r in zip(z, a, R, strict=True)]
