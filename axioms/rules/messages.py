"""Propagation rules in message form: R[i <- j], the relevance input i gets from output j.

Values are SymPy matrices of exact rationals or symbols, one token per row.  Every rule returns
one matrix of relevance per operand that receives some.  Axis letters are the paper's: j query
row, i key row, p value channel, r query or key channel; n is a token of a linear layer.

``eps`` is the stabiliser, 0 for the limit.  ``sign`` is a matrix of +1 and -1 in the shape of
the output, for callers who split cases; without it the sign must be decidable.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import sympy as sp
from sympy import Matrix

from axioms.decide.identity import Number, lowest_terms
from axioms.decide.records import noted

Messages: TypeAlias = tuple[Matrix, ...]  # the relevance of every operand that receives some


def sign_of(z: Number) -> int:
    """+1 where z >= 0 and -1 where z < 0, so sign(0) = +1.  Raises ValueError if undecided."""
    z = sp.sympify(z)
    if z.is_extended_nonnegative:
        return 1
    if z.is_extended_negative:
        return -1
    raise ValueError(f"the sign of {z} is undecided; pass sign=, one case at a time")


def stabilize(z: Number, *, eps: Number, sign: Number | None = None) -> sp.Expr:
    """``z + eps * sign(z)``, the denominator of Eqs. 1, 3 and 4.

    Raises ValueError for a negative ``eps`` and ZeroDivisionError where the result is 0.
    """
    eps = sp.sympify(eps)
    if eps.is_extended_negative:
        raise ValueError(f"eps={eps}: the stabiliser must be >= 0; pass eps=0 for the limit")
    pushed = 0 if eps == 0 else eps * (sign_of(z) if sign is None else sign)
    denominator = sp.sympify(z) + pushed
    if denominator == 0:
        raise ZeroDivisionError("z = 0 at eps = 0, where the rule is undefined; pass eps > 0")
    return denominator


def shares(relevance: Matrix, z: Matrix, *, eps: Number, sign: Matrix | None = None) -> Matrix:
    """R_j / (z_j + eps * sign(z_j)) for every output j: relevance per unit of contribution.

    In lowest terms, since one division here is far cheaper than a sum of fractions later.
    """

    def share(j: int, p: int) -> sp.Expr:
        s = None if sign is None else sign[j, p]
        return lowest_terms(relevance[j, p] / stabilize(z[j, p], eps=eps, sign=s))

    return Matrix(*z.shape, share)


def linear_map(x: Matrix, w: Matrix, bias: Matrix | None = None) -> Matrix:
    """z[n, j] = sum_i x[n, i] w[i, j] + bias[j]."""
    z = x * w
    return z if bias is None else z + Matrix.vstack(*[bias] * x.rows)


def through(x: Matrix, w: Matrix, share: Matrix) -> Matrix:
    """R[n, i] = sum_j x[n, i] w[i, j] share[n, j]: messages through a linear map."""

    def received(n: int, i: int) -> sp.Expr:
        return sum(x[n, i] * w[i, j] * share[n, j] for j in range(w.cols))

    return Matrix(x.rows, x.cols, received)


@noted
def epsilon(
    x: Matrix,
    w: Matrix,
    relevance: Matrix,
    *,
    eps: Number,
    bias: Matrix | None = None,
    sign: Matrix | None = None,
) -> Messages:
    """Eq. 1 with the bias in the denominator, which absorbs R_j b_j / (z_j + eps s_j)."""
    return (through(x, w, shares(relevance, linear_map(x, w, bias), eps=eps, sign=sign)),)


@noted
def epsilon_without_bias(
    x: Matrix,
    w: Matrix,
    relevance: Matrix,
    *,
    eps: Number,
    bias: Matrix | None = None,
    sign: Matrix | None = None,
) -> Messages:
    """Eq. 1 with z = x W in the denominator: the inputs share what the bias contributed too."""
    return epsilon(x, w, relevance, eps=eps, sign=sign)


def contributions(x: Matrix, w: Matrix, bias: Matrix | None = None) -> Matrix:
    """What every input, and last the bias, adds to each output of a layer of one token."""
    parts = Matrix(x.cols, w.cols, lambda i, j: x[i] * w[i, j])
    return parts if bias is None else parts.col_join(bias)


def positive_part(c: sp.Expr) -> sp.Expr:
    """max(c, 0), as ``c`` itself or 0.  Raises ValueError where the sign is undecided."""
    return c if sign_of(c) > 0 else sp.Integer(0)


def _shared(
    parts: Matrix, inputs: int, relevance: Matrix, *, eps: Number, sign: Matrix | None = None
) -> Matrix:
    """R[i] = sum_j parts[i, j] R_j / (z_j + eps s_j) with z_j the sum of all of ``parts[:, j]``."""
    share = shares(relevance, sp.ones(1, parts.rows) * parts, eps=eps, sign=sign)
    return (parts[:inputs, :] * share.T).T


@noted
def z_plus(
    x: Matrix,
    w: Matrix,
    relevance: Matrix,
    *,
    eps: Number,
    bias: Matrix | None = None,
    part: Callable[[sp.Expr], sp.Expr] = positive_part,
) -> Messages:
    """Eq. 1 over the positive contributions alone, the bias among them, for one token.

    ``part`` takes the positive part, for callers who name it by a symbol.
    """
    parts = contributions(x, w, bias).applyfunc(part)
    return (_shared(parts, x.cols, relevance, eps=eps),)


@noted
def gamma(
    x: Matrix,
    w: Matrix,
    relevance: Matrix,
    *,
    eps: Number,
    strength: Number,
    bias: Matrix | None = None,
    sign: Matrix | None = None,
) -> Messages:
    """Eq. 1 with ``strength`` times its positive part added to every contribution, for one token.

    For inputs >= 0 this is the weight w + strength max(w, 0).  ``sign`` is that of the new sums.
    """
    parts = contributions(x, w, bias)
    favoured = parts + strength * parts.applyfunc(positive_part)
    return (_shared(favoured, x.cols, relevance, eps=eps, sign=sign),)


@noted
def alpha_beta(
    x: Matrix,
    w: Matrix,
    relevance: Matrix,
    *,
    eps: Number,
    alpha: Number,
    beta: Number,
    bias: Matrix | None = None,
) -> Messages:
    """alpha times Eq. 1 on the positive contributions less beta times on the negative ones.

    For one token.  Usually alpha - beta = 1; an output without negative contributions of its own
    then hands out alpha R: relevance is created.
    """
    (above,) = z_plus(x, w, relevance, eps=eps, bias=bias)
    (below,) = z_plus(-x, w, relevance, eps=eps, bias=None if bias is None else -bias)
    return (alpha * above - beta * below,)


@noted
def add(
    operands: Sequence[Matrix], relevance: Matrix, *, eps: Number, sign: Matrix | None = None
) -> Messages:
    """Eq. 1 on a sum: every operand gets R x / (z + eps s), entry by entry."""
    share = shares(relevance, sum(operands[1:], operands[0]), eps=eps, sign=sign)
    return tuple(x.multiply_elementwise(share) for x in operands)


@noted
def add_by_size(
    operands: Sequence[Matrix],
    relevance: Matrix,
    *,
    eps: Number,
    size: Callable[[sp.Expr], sp.Expr] = lambda v: v * sign_of(v),
) -> Messages:
    """A sum split by size, R |x| / (sum of |x| + eps): positive shares, but not Eq. 1.

    ``size`` may name |x| by a symbol, or be another size >= 0, such as the positive part.
    """
    return add([x.applyfunc(size) for x in operands], relevance, eps=eps)


def _bilinear(a: Matrix, b: Matrix, share: Matrix) -> Messages:
    """Messages a[j, i] b[i, p] share[j, p], summed over p for ``a`` and over j for ``b``."""

    def message(j: int, i: int, p: int) -> sp.Expr:
        return a[j, i] * b[i, p] * share[j, p]

    r_a = Matrix(*a.shape, lambda j, i: sum(message(j, i, p) for p in range(b.cols)))
    r_b = Matrix(*b.shape, lambda i, p: sum(message(j, i, p) for j in range(a.rows)))
    return r_a, r_b


@noted
def bilinear_epsilon(
    a: Matrix,
    b: Matrix,
    relevance: Matrix,
    *,
    eps: Number,
    scale: Number = 1,
    sign: Matrix | None = None,
) -> Messages:
    """Eq. 3 for ``o = a b`` and Eq. 4 for ``z = scale a b``: stabilised after the scaling.

    Each factor receives the sum of R o / (2 o + eps s), half of the relevance as eps -> 0.
    """
    share = shares(relevance, 2 * scale * a * b, eps=eps, sign=sign)
    return _bilinear(a, b, scale * share)


@noted
def chain_epsilon(
    factors: Sequence[Matrix], relevance: Matrix, *, eps: Number, sign: Matrix | None = None
) -> Messages:
    """Eq. 3 for a product ``o`` of n matrices as one operation: n o + eps s in the denominator.

    Each factor receives the sum of R o / (n o + eps s), one nth of the relevance as eps -> 0.
    """
    n = len(factors)
    share = shares(relevance, n * sp.prod(factors[1:], factors[0]), eps=eps, sign=sign)

    def received(k: int) -> Matrix:
        before = sp.prod(factors[:k], sp.eye(factors[0].rows))
        after = sp.prod(factors[k + 1 :], sp.eye(factors[k].cols))
        return factors[k].multiply_elementwise(before.T * share * after.T)

    return tuple(received(k) for k in range(n))


@noted
def value_only(
    a: Matrix, v: Matrix, relevance: Matrix, *, eps: Number, sign: Matrix | None = None
) -> Messages:
    """CP-LRP's readout ``o = a v``: ``a`` is held constant, ``v`` gets all by Eq. 1."""
    _, r_v = _bilinear(a, v, shares(relevance, a * v, eps=eps, sign=sign))
    return sp.zeros(*a.shape), r_v


@noted
def softmax(z: Matrix, *, exp_z: Matrix | None = None) -> Matrix:
    """A = softmax(Z), row by row; ``exp_z`` may name the exponentials by symbols."""
    e = z.applyfunc(sp.exp) if exp_z is None else exp_z
    return Matrix(*z.shape, lambda j, i: e[j, i] / sum(e[j, :]))


@noted
def taylor(z: Matrix, relevance: Matrix, *, exp_z: Matrix | None = None) -> Messages:
    """Eq. 5, R_Z[j, i] = Z[j, i] (R_A[j, i] - A[j, i] sum_i' R_A[j, i']); it does not conserve."""
    a = softmax(z, exp_z=exp_z)

    def received(j: int, i: int) -> sp.Expr:
        return z[j, i] * (relevance[j, i] - a[j, i] * sum(relevance[j, :]))

    return (Matrix(*z.shape, received),)


@noted
def equal_split(n: int, relevance: Matrix) -> Messages:
    """R / n to each of the n factors of a product  (paper, Sec. 3.1, for n = 2)."""
    return (relevance / n,) * n


@noted
def identity(relevance: Matrix) -> Messages:
    """R_in = R_out, for activations and as the other rule of LayerNorm."""
    return (relevance,)


@noted
def activation_gradient(
    x: Matrix, function: Callable[[sp.Expr], sp.Expr], relevance: Matrix
) -> Messages:
    """Gradient x input through ``y = function(x)``: R_in = x y'(x) R_out / y(x)."""
    t = sp.Dummy("t", real=True)
    slope = sp.diff(function(t), t)

    def received(n: int, i: int) -> sp.Expr:
        y = function(x[n, i])
        return x[n, i] * slope.subs(t, x[n, i]) * relevance[n, i] / stabilize(y, eps=0)

    return (Matrix(*x.shape, received),)
