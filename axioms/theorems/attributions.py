"""Attributions of polynomials, and five axioms that an attribution may obey.

A polynomial is a dict from exponents to coefficients; an attribution gives a list of parts.
"""

import itertools

import sympy as sp

from lrp_axioms.axioms.decide.identity import identical

X = sp.symbols("x1:4", real=True)
C = sp.symbols("c1:5", real=True)
EXAMPLES = (
    {(1, 0, 0): C[0], (1, 2, 0): C[1]},
    {(0, 1, 0): C[2], (1, 1, 2): C[3]},
)


def monomial(d, point=X):
    return sp.prod(x**n for x, n in zip(point, d, strict=True))


def value(polynomial, x):
    return sum(c * monomial(d, x) for d, c in polynomial.items())


def of_monomials(share):
    """The linear attribution that gives input i the part ``share(d, x)[i]`` of every x^d."""

    def attribution(polynomial, x):
        parts = [(share(d, x), c * monomial(d, x)) for d, c in polynomial.items()]
        return [sum(s[i] * term for s, term in parts) for i in range(len(x))]

    return attribution


def by(method):
    """An attribution of axioms.rules.effects."""

    def attribution(polynomial, x):
        inputs = sp.symbols(f"input1:{len(x) + 1}", positive=True)
        found = method(value(polynomial, inputs), dict(zip(inputs, x, strict=True)))
        return [found[symbol] for symbol in inputs]

    return attribution


def slopes(d, x):
    return list(d)


def by_pace(d, x):
    """The path (x_i t^x_i): of x^d input i gets the integral of d_i x_i t^(d x - 1) from 0 to 1."""
    total = sum(n * e for n, e in zip(d, x, strict=True))
    return [n * e / total for n, e in zip(d, x, strict=True)]


def first_in_order(d, x):
    first = next(i for i, n in enumerate(d) if n)
    return [int(i == first) for i in range(len(d))]


def rescaled(polynomial, x):
    """Gradient x input times one number, which makes it complete."""
    found = of_monomials(slopes)(polynomial, x)
    return [part * value(polynomial, x) / sum(found) for part in found]


def is_linear(attribution):
    one, other = EXAMPLES
    both = zip(attribution(one, X), attribution(other, X), strict=True)
    return identical(sp.Matrix(attribution(one | other, X)), sp.Matrix([a + b for a, b in both]))


def is_complete(attribution):
    return all(identical(sum(attribution(f, X)), value(f, X)) for f in EXAMPLES)


def is_symmetric(attribution):
    def renamed(order, values):
        return tuple(values[i] for i in order)

    return all(
        identical(
            sp.Matrix(attribution({renamed(o, d): c for d, c in f.items()}, renamed(o, X))),
            sp.Matrix(renamed(o, attribution(f, X))),
        )
        for o in itertools.permutations(range(3))
        for f in EXAMPLES
    )


def is_free_of_units(attribution):
    units = sp.symbols("d1:4", real=True)
    moved = [x * unit for x, unit in zip(X, units, strict=True)]
    return all(
        identical(
            sp.Matrix(attribution({d: c * monomial(d, units) for d, c in f.items()}, X)),
            sp.Matrix(attribution(f, moved)),
        )
        for f in EXAMPLES
    )


def uses_add_up(attribution):
    """Input k in the place of k + 1 as well, for both pairs of neighbours."""
    return all(
        identical(
            sp.Matrix(attribution({joined(d, k): c for d, c in f.items()}, without(X, k))),
            sp.Matrix(joined(attribution(f, (*X[: k + 1], X[k], *X[k + 2 :])), k)),
        )
        for k in (0, 1)
        for f in EXAMPLES
    )


def joined(values, k):
    return (*values[:k], values[k] + values[k + 1], *values[k + 2 :])


def without(values, k):
    return (*values[: k + 1], *values[k + 2 :])


AXIOMS = {
    "linearity": is_linear,
    "completeness": is_complete,
    "symmetry": is_symmetric,
    "freedom of units": is_free_of_units,
    "uses add up": uses_add_up,
}
