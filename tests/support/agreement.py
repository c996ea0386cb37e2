"""Every rule as messages (SymPy), as einsums (NumPy), and as modified gradients (PyTorch).

The PyTorch text carries c = relevance / output, so the three are compared at an integer
cotangent c, that is, at the relevance c * output, where each text computes its own output.
At eps = 1/4 on small integers outputs are 0 or of either sign, and every convention of the
stabiliser gives numbers of its own; at 1e-9 all of them would look alike.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import sympy as sp
import torch
from torch import nn
from torch.nn import functional

from axioms import kinds
from axioms.composites import ATTNLRP, Composite
from axioms.graph import Node, leaf, parameter
from axioms.rules.activations import identity as identity_rule
from axioms.rules.linear import add as add_rule
from axioms.rules.products import equal_split
from axioms.rules.propagate import RULES, propagate
from axioms.rules.propagate import evaluate as values_of
from numeric.engine import at_output
from numeric.engine import rules as fast
from numeric.engine.engine import Propagation
from numeric.reference import evaluate
from numeric.reference import rules as reference
from numeric.reference.dispatch import RULES as IN_NUMPY

EPS = 0.25
SCALE = 0.5  # 1 / sqrt(d) for d = 4
DEVIATION = 4  # of every row of the norms, or its rms, so that all their values are rational


@dataclass(frozen=True)
class Case:
    """One rule with the shapes of its operands and of c; the first ``receivers`` get relevance.

    exact, dense: (operands..., c) -> relevance of the receivers, by SymPy and by NumPy
    fast: (operands...) -> output, whose backward pass is the rule, in PyTorch
    """

    shapes: tuple
    exact: Callable
    dense: Callable
    fast: Callable
    receivers: int = 1
    nonzero: bool = False  # whether the rule needs first operands other than 0


def by_autograd(fast_text, operands, c, *, receivers):
    """Relevance of the receivers: operand times cotangent."""
    tensors = [torch.tensor(x) for x in operands]
    leaves = [x.requires_grad_() for x in tensors[:receivers]]
    c = torch.tensor(c)
    out = fast_text(*tensors)
    if not out.requires_grad:  # all operands are held
        return [np.zeros(x.shape) for x in leaves]
    gradients = torch.autograd.grad(out, leaves, c, allow_unused=True)
    return [
        np.zeros(x.shape) if g is None else (x * g).detach().numpy()
        for x, g in zip(leaves, gradients, strict=True)
    ]


def to_sympy(x):
    x = np.atleast_2d(x)
    return sp.Matrix(*x.shape, [sp.Integer(int(v)) for v in x.ravel()])


def to_numpy(matrix, shape):
    return np.array([float(v) for v in matrix]).reshape(shape)


def check(case, operands, c, *, fast_text=None):
    """Raises AssertionError unless the three implementations agree to 1e-12, entry by entry."""
    want = case.dense(*operands, c)
    got = by_autograd(fast_text or case.fast, operands, c, receivers=case.receivers)
    for w, g in zip(want, got, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)
    for w, e in zip(want, case.exact(*map(to_sympy, (*operands, c))), strict=True):
        np.testing.assert_allclose(to_numpy(e, w.shape), w, rtol=1e-12, atol=1e-12)


E = sp.Rational(1, 4)
times = sp.Matrix.multiply_elementwise


# Every rule of an operation by its records, in a graph of the operation alone.


def variance(x):
    mean = sum(x) / len(x)
    return mean_square([v - mean for v in x])


def mean_square(x):
    return sum(v**2 for v in x) / len(x)


@dataclass(frozen=True)
class Operation:
    """One kind of operation, with the shapes of its operands and, last, of its output.

    fast: its output in PyTorch   inputs: the operands that receive relevance
    attributes: of its node, from the operands
    """

    shapes: tuple
    fast: Callable
    inputs: int = 1
    attributes: Callable = lambda *operands: {}


def norm_eps(spread, x, *_):
    """Makes the deviation of a row DEVIATION."""
    return {"norm_eps": DEVIATION**2 - spread([*x])}


MATRICES = ((2, 3), (3, 2), (2, 2))
OPERATIONS = {
    kinds.LINEAR: Operation((3, (3, 2), 2, 2), lambda x, w, b: x @ w + b),
    kinds.ADD: Operation((4, 4, 4, 4), lambda x, y, u: x + y + u, inputs=3),
    kinds.SCORES: Operation(
        ((2, 4), (3, 4), (2, 3)),
        lambda q, k: q @ k.mT * SCALE,
        inputs=2,
        attributes=lambda q, k: {
            "scale": SCALE if isinstance(q, np.ndarray) else sp.Rational(SCALE)
        },
    ),
    kinds.SOFTMAX: Operation(((2, 3), (2, 3)), lambda z: z.softmax(-1)),
    kinds.READOUT: Operation(MATRICES, lambda a, v: a @ v, inputs=2),
    kinds.BILINEAR: Operation(MATRICES, lambda a, b: a @ b, inputs=2),
    kinds.PRODUCT: Operation((4, 4, 4), lambda x, y: x * y, inputs=2),
    kinds.LAYER_NORM: Operation(
        (4, 4, 4, 4), functional.layer_norm, attributes=partial(norm_eps, variance)
    ),
    kinds.RMS_NORM: Operation((4, 4, 4), torch.mul, attributes=partial(norm_eps, mean_square)),
}


def graph_of(kind, operands):
    """The operation alone, the composite of one rule, and its leaves by name."""
    about = OPERATIONS[kind]
    leaves = [(leaf if n < about.inputs else parameter)(f"x{n}") for n in range(len(operands))]
    return Node(kind, tuple(leaves), attributes=about.attributes(*operands))


def exact(kind, rule, *operands_and_c):
    *operands, c = operands_and_c
    root = graph_of(kind, operands)
    point = {x.name: value for x, value in zip(root.args, operands, strict=True)}
    r = times(c, values_of(root, point)[root])
    found = propagate(root, point, Composite(rule, {kind: rule}), eps=E, relevance=r)
    return [found[x] for x in root.args[: OPERATIONS[kind].inputs]]


def dense(kind, rule, *operands_and_c):
    *operands, c = operands_and_c
    root = graph_of(kind, operands)
    order, leaves = [*root.args, root], dict(zip(root.args, operands, strict=True))
    r = c * evaluate.forward(order, leaves)[root]
    found = evaluate.propagate(order, leaves, Composite(rule, {kind: rule}), r, eps=EPS)
    return [found[x] for x in root.args[: OPERATIONS[kind].inputs]]


def by_engine(kind, rule, *operands, eps=EPS):
    """The output, whose backward pass is the rule; operands that it passes by are held."""
    if kind == kinds.RMS_NORM:
        return rms_norm(*operands, rule=rule, eps=eps)
    record, passed_by = at_output.RULES[kind, rule], RULES[kind, rule].passes_by
    operands = [x.detach() if n in passed_by else x for n, x in enumerate(operands)]
    bias = operands[2] if kind == kinds.LINEAR else None
    if kind == kinds.LAYER_NORM:
        x, w, b = operands
        operands = x, x.shape, w, b, DEVIATION**2 - float(variance([*x.detach()]))
    return record.at_output(record.compute(OPERATIONS[kind].fast, *operands), eps, bias)


def rms_norm(x, w, *, rule=kinds.HELD_DEVIATION, eps=EPS):
    """RMSNorm as stock models spell it out, under the rules."""
    composite = Composite(rule, ATTNLRP.rules | {kinds.RMS_NORM: rule})
    small = DEVIATION**2 - x.detach().pow(2).mean()
    x, w = x.clone(), nn.Parameter(w)  # relevance comes to results, not to leaves
    with Propagation(nn.Module(), composite, eps=eps):
        return w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + small))


def case_of(kind, rule):
    about = OPERATIONS[kind]
    texts = [partial(text, kind, rule) for text in (exact, dense, by_engine)]
    return Case(about.shapes, *texts, receivers=about.inputs, nonzero=rule == kinds.IDENTITY)


# Cases of several operations.


def cubic(x):
    """An activation with f(0) = 0, outputs of either sign and zeros off the origin."""
    return x**3 - x


AT_ZERO = 6  # cubic(-2) + 6 = 0


def above_zero(add, identity, terms, c, eps):
    """Relevance of x if a function is the sum of its value at 0 and the rest."""
    return identity(add(terms, c, eps=eps)[1])


def exact_above_zero(x, c):
    rest, fixed = x.applyfunc(cubic), sp.ones(*x.shape) * AT_ZERO
    relevance = times(c, rest + fixed)
    return above_zero(add_rule, identity_rule, (fixed, rest), relevance, E)


def dense_above_zero(x, c):
    terms = AT_ZERO + 0 * x, cubic(x)
    return [above_zero(reference.add, reference.identity, terms, c * sum(terms), EPS)]


def fast_above_zero(x):
    rest = cubic(x.detach())
    return fast.epsilon(fast.slope(x, rest + AT_ZERO, slope_at_zero=-1.0, above=rest), eps=EPS)


CASES = {
    **{f"{kind} by {rule}": case_of(kind, rule) for kind, rule in IN_NUMPY if kind in OPERATIONS},
    "activation by identity": Case(
        (4, 4),
        lambda x, c: identity_rule(times(c, x.applyfunc(cubic))),
        lambda x, c: [reference.identity(c * cubic(x))],
        lambda x: fast.identity(cubic, x, slope_at_zero=-1.0),
    ),
    "activation that is not 0 at 0": Case(
        (4, 4), exact_above_zero, dense_above_zero, fast_above_zero
    ),
    "product of three": Case(
        (4, 4, 4, 4),
        lambda x, y, u, c: equal_split(3, times(times(times(x, y), u), c)),
        lambda x, y, u, c: reference.equal_split((x, y, u), c * x * y * u),
        lambda x, y, u: fast.scale(x * y * u, 1 / 3),
        receivers=3,
    ),
}
"""By name; together they hold every rule of ``axioms.kinds`` that is one on relevance."""
