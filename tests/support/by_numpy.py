"""Computes a certificate in float64, by the NumPy reference, with the names of the checker."""

from fractions import Fraction
from functools import reduce
from math import exp, prod

import numpy as np

from axioms import check
from numeric.reference import rules


def parts(text, separator):
    """The text between separators that are in no brackets."""
    found, depth = [""], 0
    for x in text:
        depth += {"[": 1, "]": -1}.get(x, 0)
        found = [*found, ""] if x == separator and not depth else [*found[:-1], found[-1] + x]
    return found


def symbol(name, point):
    """The value of a symbol at a point; signs and exponentials name their argument."""
    if name.startswith("exp["):
        return exp(prod(symbol(s, point) for s in parts(name[4:-1], "*") if s))
    if name.startswith("sign["):
        return 1.0 if polynomial(name[5:-1], point) >= 0 else -1.0
    return float(point[name])


def polynomial(text, point):
    def factor(x):
        return float(Fraction(x)) if x.lstrip("-")[:1].isdigit() else symbol(x, point)

    return sum(prod(factor(x.strip()) for x in parts(term, "*")) for term in parts(text, "+"))


def of_value(value, point):
    """A value of the checker at a point, from its printed polynomials."""
    found = float(value.number)
    for terms, n in value.powers.items():
        found *= sum(float(a) * prod(symbol(s, point) for s in t) for t, a in terms) ** n
    return found


def linear(xs):
    return xs[0] @ xs[1] + sum(xs[2:])


def chain(m, xs, r):
    """Eq. 3 for a product of matrices, one factor at a time."""
    z = m["scale"] * reduce(np.matmul, xs)
    part = m["scale"] * rules.share(r, len(xs) * z, m["eps"])
    found = []
    for k, x in enumerate(xs):
        before = reduce(np.matmul, xs[:k], np.eye(z.shape[0]))
        behind = reduce(np.matmul, [*xs[k + 1 :], np.eye(z.shape[1])])
        found.append(x * (before.T @ part @ behind.T))
    return found


VALUES = {
    "linear": lambda m, xs: linear(xs),
    "add": lambda m, xs: sum(xs),
    "product": lambda m, xs: prod(xs),
    "bilinear": lambda m, xs: m["scale"] * reduce(np.matmul, xs),
    "softmax": lambda m, xs: rules.softmax(xs[0]),
    "relu": lambda m, xs: np.maximum(xs[0], 0),
    "transpose": lambda m, xs: xs[0].T,
}
MESSAGES = {
    ("linear", "epsilon"): lambda m, xs, r: [rules.epsilon(*xs[:2], sum(xs[2:]), r, eps=m["eps"])],
    ("linear", "epsilon-without-bias"):
        lambda m, xs, r: [rules.epsilon_without_bias(*xs[:2], r, eps=m["eps"])],
    ("linear", "gradient"): lambda m, xs, r: [rules.epsilon(*xs[:2], sum(xs[2:]), r, eps=0.0)],
    ("add", "epsilon"): lambda m, xs, r: rules.add(xs, r, eps=m["eps"]),
    ("add", "gradient"): lambda m, xs, r: rules.add(xs, r, eps=0.0),
    ("product", "equal-split"): lambda m, xs, r: rules.equal_split(xs, r),
    ("bilinear", "bilinear-epsilon"): lambda m, xs, r: (
        rules.bilinear_epsilon(*xs, r, eps=m["eps"], scale=m["scale"])
        if len(xs) == 2 else chain(m, xs, r)
    ),
    ("bilinear", "value-only"): lambda m, xs, r: [
        0 * xs[0], rules.value_only(m["scale"] * xs[0], xs[1], r, eps=m["eps"]),
    ],
    ("bilinear", "gradient"):
        lambda m, xs, r: [len(xs) * x for x in chain(m | {"eps": 0.0}, xs, r)],
    ("softmax", "taylor"): lambda m, xs, r: [rules.softmax_taylor(xs[0], r)],
    ("transpose", "transpose"): lambda m, xs, r: [r.T],
    **{
        (op, "identity"): lambda m, xs, r: [rules.identity(r)]
        for op, names in check.RULES.items()
        if "identity" in names.split()
    },
    **{(op, "constant"): lambda m, xs, r: [] for op in ("softmax", "bilinear")},
    **{(op, "none"): lambda m, xs, r: [] for op in ("input", "parameter")},
}  # fmt: skip


class Numbers:
    """Evaluates the formulas and graphs of one run of a certificate at one point."""

    def __init__(self, run, point):
        self.run, self.point, self.swept = run, point, {}

    def value(self, e):
        if isinstance(e, list):
            return np.array([[self.value(x) for x in row] for row in e], dtype=float)
        if isinstance(e, str):
            digits = e.lstrip("-")[:1].isdigit()
            return float(Fraction(e)) if digits else symbol(e, self.point)
        op, *xs = self.run["shared"][e]
        if op in ("value", "relevance"):
            return float(self.sweep(xs[0])[op == "relevance"][xs[1]][xs[2], xs[3]])
        first, *rest = [self.value(x) for x in (xs[:1] if op == "^" else xs)]
        if op == "^":
            return first ** xs[1]
        of_one = {"abs": abs, "exp": exp}
        return of_one[op](first) if op in of_one else {"+": sum, "*": prod}[op]([first, *rest])

    def sweep(self, graph):
        if graph not in self.swept:
            self.swept[graph] = self._sweep(self.run["graphs"][graph])
        return self.swept[graph]

    def _sweep(self, steps):
        values, given = [], []
        for op, _, args, more in steps:
            m = {name: self.value(x) for name, x in more.items()}
            values.append(VALUES[op](m, [values[a] for a in args]) if op in VALUES else m["value"])
            given.append(m)
        found = [np.zeros_like(z) for z in values]
        found[-1] = given[-1].get("relevance", values[-1])
        for n in reversed(range(len(steps))):
            op, rule, args, _ = steps[n]
            sent = MESSAGES[op, rule](given[n], [values[a] for a in args], found[n])
            for a, part in zip(args, sent, strict=False):
                found[a] = found[a] + part
        return values, found
