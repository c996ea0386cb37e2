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

from axioms import kinds
from axioms.composites import ATTNLRP
from axioms.rules import norms as symbolic_norms
from axioms.rules.activations import identity as identity_rule
from axioms.rules.attention import softmax, taylor, value_only
from axioms.rules.linear import add as add_rule
from axioms.rules.linear import epsilon, epsilon_without_bias, linear_map
from axioms.rules.products import bilinear_epsilon, equal_split
from numeric.engine import at_output, norms
from numeric.engine import rules as fast
from numeric.engine.engine import Propagation
from numeric.reference import rules as reference

EPS = 0.25
SCALE = 0.5  # 1 / sqrt(d) for d = 4
DEVIATION = 4  # of every row of the norms, or its rms, so that all their values are rational


@dataclass(frozen=True)
class Case:
    """One rule; ``shapes`` are those of its operands and of c, the first ``receivers`` get R.

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
    gradients = torch.autograd.grad(fast_text(*tensors), leaves, c, allow_unused=True)
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
    exact = case.exact(*map(to_sympy, (*operands, c)))
    got = by_autograd(fast_text or case.fast, operands, c, receivers=case.receivers)
    for w, e, g in zip(want, exact, got, strict=True):
        np.testing.assert_allclose(to_numpy(e, w.shape), w, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)


# SymPy: each output z, then the rule at R = c * z.

E = sp.Rational(1, 4)
times = sp.Matrix.multiply_elementwise


def exact_linear(rule, x, w, b, c):
    return rule(x, w, times(c, linear_map(x, w, b)), eps=E, bias=b)


def exact_sum(x, y, u, c):
    return add_rule((x, y, u), times(c, x + y + u), eps=E)


def exact_product(rule, a, b, c, scale=1):
    options = {} if scale == 1 else {"scale": scale}
    return rule(a, b, times(c, scale * a * b), eps=E, **options)


def exact_scores(q, k, c):
    r_q, r_k = exact_product(bilinear_epsilon, q, k.T, c, sp.Rational(1, 2))
    return r_q, r_k.T


def exact_softmax(z, c):
    return taylor(z, times(c, softmax(z)))


def exact_layer_norm(rule, x, w, b, c):
    mean = sum(x) / sp.Integer(x.cols)
    norm_eps = DEVIATION**2 - sum((v - mean) ** 2 for v in x) / sp.Integer(x.cols)
    return rule(x, w, b, times(c, symbolic_norms.layer_norm(x, w, b, norm_eps=norm_eps)), norm_eps)


def exact_held(x, w, b, r, norm_eps):
    return symbolic_norms.held_deviation(x, w, b, r, eps=E, norm_eps=norm_eps)


def exact_held_rms(x, w, c):
    norm_eps = DEVIATION**2 - sum(v**2 for v in x) / sp.Integer(x.cols)
    r = times(c, symbolic_norms.rms_norm(x, w, norm_eps=norm_eps))
    return symbolic_norms.held_root_mean_square(x, w, r, eps=E, norm_eps=norm_eps)


# NumPy: the same in float64.


def dense_linear(x, w, b, c):
    return [reference.epsilon(x, w, b, c * (x @ w + b), eps=EPS)]


def dense_linear_without_bias(x, w, b, c):
    return [reference.epsilon_without_bias(x, w, c * (x @ w + b), eps=EPS)]


def norm_eps(x):
    return DEVIATION**2 - x.var()


def dense_norm(x, w, b):
    return (x - x.mean()) / np.sqrt(x.var() + norm_eps(x)) * w + b


def dense_held(x, w, b, c):
    r = c * dense_norm(x, w, b)
    return [reference.held_deviation(x, w, b, r, layer_norm_eps=norm_eps(x), eps=EPS)]


def dense_held_rms(x, w, c):
    small = DEVIATION**2 - (x**2).mean()
    r = c * x / np.sqrt((x**2).mean() + small) * w
    return [reference.held_root_mean_square(x, w, r, rms_norm_eps=small, eps=EPS)]


# PyTorch: outputs whose backward pass is the rule.


def layer_norm(rule, x, w, b, *, eps=EPS):
    small = norm_eps(x.detach().numpy())
    y = norms.LAYER_NORM[rule](x, x.shape, w, b, small)
    return at_output.AT_OUTPUT[kinds.LAYER_NORM, rule](y, eps, None)


def rms_norm(x, w, *, composite=ATTNLRP, eps=EPS):
    """What stock models spell out, under the rules."""
    small = DEVIATION**2 - x.detach().pow(2).mean()
    x, w = x.clone(), nn.Parameter(w)  # relevance comes to results, not to leaves
    with Propagation(nn.Module(), composite, eps=eps):
        return w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + small))


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


LINEAR = (3, (3, 2), 2, 2)
PRODUCT = ((2, 3), (3, 2), (2, 2))
NORM = (4, 4, 4, 4)
CASES = {
    "linear": Case(
        LINEAR,
        partial(exact_linear, epsilon),
        dense_linear,
        lambda x, w, b: fast.epsilon(x @ w + b, eps=EPS),
    ),
    "linear, bias not in the denominator": Case(
        LINEAR,
        partial(exact_linear, epsilon_without_bias),
        dense_linear_without_bias,
        lambda x, w, b: fast.epsilon(x @ w + b, eps=EPS, bias=b),
    ),
    "add": Case(
        (4, 4, 4, 4),
        exact_sum,
        lambda x, y, u, c: reference.add((x, y, u), c * (x + y + u), eps=EPS),
        lambda x, y, u: fast.epsilon(x + y + u, eps=EPS),
        receivers=3,
    ),
    "readout, Eq. 3": Case(
        PRODUCT,
        partial(exact_product, bilinear_epsilon),
        lambda a, v, c: reference.bilinear_epsilon(a, v, c * (a @ v), eps=EPS),
        lambda a, v: fast.bilinear_epsilon(a @ v, eps=EPS),
        receivers=2,
    ),
    "scores, Eq. 4": Case(
        ((2, 4), (3, 4), (2, 3)),
        exact_scores,
        lambda q, k, c: reference.scores_epsilon(q, k, c * SCALE * (q @ k.T), eps=EPS, scale=SCALE),
        lambda q, k: fast.bilinear_epsilon(q @ k.mT * SCALE, eps=EPS),
        receivers=2,
    ),
    "value only": Case(
        PRODUCT,
        partial(exact_product, value_only),
        lambda a, v, c: (0 * a, reference.value_only(a, v, c * (a @ v), eps=EPS)),
        lambda a, v: fast.epsilon(a.detach() @ v, eps=EPS),
        receivers=2,
    ),
    "softmax, Eq. 5": Case(
        ((2, 3), (2, 3)),
        exact_softmax,
        lambda z, c: [reference.softmax_taylor(z, c * reference.softmax(z))],
        lambda z: z.softmax(-1),
    ),
    "LayerNorm, deviation held": Case(
        NORM,
        partial(exact_layer_norm, exact_held),
        dense_held,
        partial(layer_norm, kinds.HELD_DEVIATION),
    ),
    "LayerNorm, identity": Case(
        NORM,
        partial(exact_layer_norm, lambda x, w, b, r, _: identity_rule(r)),
        lambda x, w, b, c: [reference.identity_layer_norm(c * dense_norm(x, w, b))],
        partial(layer_norm, kinds.IDENTITY),
        nonzero=True,
    ),
    "RMSNorm, rms held": Case(
        (4, 4, 4),
        exact_held_rms,
        dense_held_rms,
        rms_norm,
    ),
    "activation": Case(
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
