"""Propagation rules in message form: R[i <- j], the relevance input i gets from output j.

Values are SymPy matrices of exact rationals or symbols, one token per row.  Every rule returns
one matrix of relevance per operand that receives some.  Axis letters are the paper's: j query
row, i key row, p value channel, r query or key channel; n is a token of a linear layer.

``eps`` is the stabiliser, 0 for the limit.  ``sign`` is a matrix of +1 and -1 in the shape of
the output, for callers who split cases; without it the sign must be decidable.
"""

import sympy as sp
from sympy import Matrix

from axioms.algebra.decide import lowest_terms
from axioms.proofs.records import noted


def sign_of(z) -> int:
    """+1 where z >= 0 and -1 where z < 0, so sign(0) = +1.  Raises ValueError if undecided."""
    z = sp.sympify(z)
    if z.is_extended_nonnegative:
        return 1
    if z.is_extended_negative:
        return -1
    raise ValueError(f"the sign of {z} is undecided; pass sign=, one case at a time")


def stabilize(z, *, eps, sign=None):
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


def shares(relevance, z, *, eps, sign=None) -> Matrix:
    """R_j / (z_j + eps * sign(z_j)) for every output j: relevance per unit of contribution.

    In lowest terms, since one division here is far cheaper than a sum of fractions later.
    """

    def share(j, p):
        s = None if sign is None else sign[j, p]
        return lowest_terms(relevance[j, p] / stabilize(z[j, p], eps=eps, sign=s))

    return Matrix(*z.shape, share)


def linear_map(x, w, bias=None) -> Matrix:
    """z[n, j] = sum_i x[n, i] w[i, j] + bias[j]."""
    z = x * w
    return z if bias is None else z + Matrix.vstack(*[bias] * x.rows)


def _through(x, w, share) -> Matrix:
    """R[n, i] = sum_j x[n, i] w[i, j] share[n, j]: messages through a linear map."""

    def received(n, i):
        return sum(x[n, i] * w[i, j] * share[n, j] for j in range(w.cols))

    return Matrix(x.rows, x.cols, received)


@noted
def epsilon(x, w, relevance, *, eps, bias=None, sign=None):
    """Eq. 1 with the bias in the denominator, which absorbs R_j b_j / (z_j + eps s_j)."""
    return (_through(x, w, shares(relevance, linear_map(x, w, bias), eps=eps, sign=sign)),)


@noted
def epsilon_without_bias(x, w, relevance, *, eps, bias=None, sign=None):
    """Eq. 1 with z = x W in the denominator: the inputs share what the bias contributed too."""
    return epsilon(x, w, relevance, eps=eps, sign=sign)


def contributions(x, w, bias=None) -> Matrix:
    """What every input, and last the bias, adds to each output of a layer of one token."""
    parts = Matrix(x.cols, w.cols, lambda i, j: x[i] * w[i, j])
    return parts if bias is None else parts.col_join(bias)


def positive_part(c):
    """max(c, 0), as ``c`` itself or 0.  Raises ValueError where the sign is undecided."""
    return c if sign_of(c) > 0 else sp.Integer(0)


def _shared(parts, inputs, relevance, *, eps, sign=None) -> Matrix:
    """R[i] = sum_j parts[i, j] R_j / (z_j + eps s_j) with z_j the sum of all of ``parts[:, j]``."""
    share = shares(relevance, sp.ones(1, parts.rows) * parts, eps=eps, sign=sign)
    return (parts[:inputs, :] * share.T).T


@noted
def z_plus(x, w, relevance, *, eps, bias=None, part=positive_part):
    """Eq. 1 over the positive contributions alone, the bias among them, for one token.

    ``part`` takes the positive part, for callers who name it by a symbol.
    """
    parts = contributions(x, w, bias).applyfunc(part)
    return (_shared(parts, x.cols, relevance, eps=eps),)


@noted
def gamma(x, w, relevance, *, eps, strength, bias=None, sign=None):
    """Eq. 1 with ``strength`` times its positive part added to every contribution, for one token.

    For inputs >= 0 this is the weight w + strength max(w, 0).  ``sign`` is that of the new sums.
    """
    parts = contributions(x, w, bias)
    favoured = parts + strength * parts.applyfunc(positive_part)
    return (_shared(favoured, x.cols, relevance, eps=eps, sign=sign),)


@noted
def alpha_beta(x, w, relevance, *, eps, alpha, beta, bias=None):
    """alpha times Eq. 1 on the positive contributions less beta times on the negative ones.

    For one token.  Usually alpha - beta = 1; an output without negative contributions of its own
    then hands out alpha R: relevance is created.
    """
    (above,) = z_plus(x, w, relevance, eps=eps, bias=bias)
    (below,) = z_plus(-x, w, relevance, eps=eps, bias=None if bias is None else -bias)
    return (alpha * above - beta * below,)


@noted
def add(operands, relevance, *, eps, sign=None):
    """Eq. 1 on a sum: every operand gets R x / (z + eps s), entry by entry."""
    share = shares(relevance, sum(operands[1:], operands[0]), eps=eps, sign=sign)
    return tuple(x.multiply_elementwise(share) for x in operands)


@noted
def add_by_size(operands, relevance, *, eps, size=lambda v: v * sign_of(v)):
    """A sum split by size, R |x| / (sum of |x| + eps): positive shares, but not Eq. 1.

    ``size`` may name |x| by a symbol, or be another size >= 0, such as the positive part.
    """
    return add([x.applyfunc(size) for x in operands], relevance, eps=eps)


def _bilinear(a, b, share):
    """Messages a[j, i] b[i, p] share[j, p], summed over p for ``a`` and over j for ``b``."""

    def message(j, i, p):
        return a[j, i] * b[i, p] * share[j, p]

    r_a = Matrix(*a.shape, lambda j, i: sum(message(j, i, p) for p in range(b.cols)))
    r_b = Matrix(*b.shape, lambda i, p: sum(message(j, i, p) for j in range(a.rows)))
    return r_a, r_b


@noted
def bilinear_epsilon(a, b, relevance, *, eps, scale=1, sign=None):
    """Eq. 3 for ``o = a b`` and Eq. 4 for ``z = scale a b``: stabilised after the scaling.

    Each factor receives the sum of R o / (2 o + eps s), half of the relevance as eps -> 0.
    """
    share = shares(relevance, 2 * scale * a * b, eps=eps, sign=sign)
    return _bilinear(a, b, scale * share)


@noted
def chain_epsilon(factors, relevance, *, eps, sign=None):
    """Eq. 3 for a product ``o`` of n matrices as one operation: n o + eps s in the denominator.

    Each factor receives the sum of R o / (n o + eps s), one nth of the relevance as eps -> 0.
    """
    n = len(factors)
    share = shares(relevance, n * sp.prod(factors[1:], factors[0]), eps=eps, sign=sign)

    def received(k):
        before = sp.prod(factors[:k], sp.eye(factors[0].rows))
        after = sp.prod(factors[k + 1 :], sp.eye(factors[k].cols))
        return factors[k].multiply_elementwise(before.T * share * after.T)

    return tuple(received(k) for k in range(n))


@noted
def value_only(a, v, relevance, *, eps, sign=None):
    """CP-LRP's readout ``o = a v``: ``a`` is held constant, ``v`` gets all by Eq. 1."""
    _, r_v = _bilinear(a, v, shares(relevance, a * v, eps=eps, sign=sign))
    return sp.zeros(*a.shape), r_v


@noted
def softmax(z, *, exp_z=None) -> Matrix:
    """A = softmax(Z), row by row; ``exp_z`` may name the exponentials by symbols."""
    e = z.applyfunc(sp.exp) if exp_z is None else exp_z
    return Matrix(*z.shape, lambda j, i: e[j, i] / sum(e[j, :]))


@noted
def taylor(z, relevance, *, exp_z=None):
    """Eq. 5, R_Z[j, i] = Z[j, i] (R_A[j, i] - A[j, i] sum_i' R_A[j, i']); it does not conserve."""
    a = softmax(z, exp_z=exp_z)

    def received(j, i):
        return z[j, i] * (relevance[j, i] - a[j, i] * sum(relevance[j, :]))

    return (Matrix(*z.shape, received),)


@noted
def equal_split(n: int, relevance):
    """R / n to each of the n factors of a product  (paper, Sec. 3.1, for n = 2)."""
    return (relevance / n,) * n


def deviations(x, *, norm_eps) -> list:
    """sqrt(var(x) + norm_eps) of every row, with the variance over d channels."""
    rows = [x[n, :] for n in range(x.rows)]
    means = [sum(row) / sp.Integer(x.cols) for row in rows]
    variances = [
        sum((v - m) ** 2 for v in row) / sp.Integer(x.cols)
        for row, m in zip(rows, means, strict=True)
    ]
    return [sp.sqrt(variance + norm_eps) for variance in variances]


def centring(weight, deviation) -> Matrix:
    """The linear map x -> weight * (x - mean(x)) / deviation, as a matrix acting on rows."""
    d = weight.cols
    return Matrix(d, d, lambda i, k: (int(i == k) - sp.Rational(1, d)) * weight[k] / deviation)


@noted
def layer_norm(x, weight, bias, *, norm_eps, deviation=None) -> Matrix:
    """LayerNorm of every row; ``deviation`` may name the standard deviations by symbols."""
    deviation = deviations(x, norm_eps=norm_eps) if deviation is None else deviation
    rows = [linear_map(x[n, :], centring(weight, s), bias) for n, s in enumerate(deviation)]
    return Matrix.vstack(*rows)


def _by_row(x, maps, relevance, *, eps, sign, bias=None):
    """Eq. 1 through a linear map of its own for every row."""
    rows = [
        epsilon(
            x[n, :],
            linear,
            relevance[n, :],
            eps=eps,
            bias=bias,
            sign=None if sign is None else sign[n, :],
        )[0]
        for n, linear in enumerate(maps)
    ]
    return (Matrix.vstack(*rows),)


@noted
def held_deviation(x, weight, bias, relevance, *, eps, norm_eps=0, deviation=None, sign=None):
    """LayerNorm as the linear map it is at its standard deviation, then Eq. 1.

    The bias of the norm absorbs its share.
    """
    deviation = deviations(x, norm_eps=norm_eps) if deviation is None else deviation
    maps = [centring(weight, s) for s in deviation]
    return _by_row(x, maps, relevance, eps=eps, sign=sign, bias=bias)


def root_mean_squares(x, *, norm_eps) -> list:
    """sqrt(mean(x^2) + norm_eps) of every row."""
    squares = [sum(v**2 for v in x[n, :]) / sp.Integer(x.cols) for n in range(x.rows)]
    return [sp.sqrt(square + norm_eps) for square in squares]


def _divided(weight, size) -> Matrix:
    """The linear map x -> weight * x / size, as a matrix acting on rows."""
    return sp.diag(*(w / size for w in weight))


@noted
def rms_norm(x, weight, *, norm_eps, rms=None) -> Matrix:
    """RMSNorm of every row; ``rms`` may name the root mean squares by symbols."""
    rms = root_mean_squares(x, norm_eps=norm_eps) if rms is None else rms
    return Matrix.vstack(*[x[n, :] * _divided(weight, s) for n, s in enumerate(rms)])


@noted
def held_root_mean_square(x, weight, relevance, *, eps, norm_eps=0, rms=None, sign=None):
    """RMSNorm as the linear map it is at its root mean square, then Eq. 1.

    Only the stabiliser absorbs: channel k gets R_k z_k / (z_k + eps s_k).
    """
    rms = root_mean_squares(x, norm_eps=norm_eps) if rms is None else rms
    maps = [_divided(weight, s) for s in rms]
    return _by_row(x, maps, relevance, eps=eps, sign=sign)


@noted
def identity(relevance):
    """R_in = R_out, for activations and as the other rule of LayerNorm."""
    return (relevance,)


@noted
def layer_norm_jacobian(x, weight, deviation) -> Matrix:
    """dy[k] / dx[i] of LayerNorm at one row ``x``, the deviation moving along with x."""
    d, mean = x.cols, sum(x) / sp.Integer(x.cols)

    def slope(i, k):
        through_deviation = (x[i] - mean) * (x[k] - mean) / (d * deviation**2)
        return (int(i == k) - sp.Rational(1, d) - through_deviation) * weight[k] / deviation

    return Matrix(d, d, slope)


@noted
def layer_norm_gradient(x, weight, bias, relevance, *, norm_eps=0, deviation=None):
    """Gradient x input through LayerNorm: R[i <- k] = x_i dy_k/dx_i R_k / y_k."""
    deviation = deviations(x, norm_eps=norm_eps) if deviation is None else deviation
    y = layer_norm(x, weight, bias, norm_eps=norm_eps, deviation=deviation)
    share = shares(relevance, y, eps=0)
    rows = [
        _through(x[n, :], layer_norm_jacobian(x[n, :], weight, s), share[n, :])
        for n, s in enumerate(deviation)
    ]
    return (Matrix.vstack(*rows),)


@noted
def rms_norm_gradient(x, weight, relevance, *, norm_eps=0, rms=None):
    """Gradient x input through RMSNorm: R[i <- k] = x_i dz_k/dx_i R_k / z_k."""
    rms = root_mean_squares(x, norm_eps=norm_eps) if rms is None else rms
    share = shares(relevance, rms_norm(x, weight, norm_eps=norm_eps, rms=rms), eps=0)

    def slopes(row, s):
        def slope(i, k):
            return (int(i == k) - row[i] * row[k] / (row.cols * s**2)) * weight[k] / s

        return Matrix(row.cols, row.cols, slope)

    rows = [_through(x[n, :], slopes(x[n, :], s), share[n, :]) for n, s in enumerate(rms)]
    return (Matrix.vstack(*rows),)


@noted
def activation_gradient(x, function, relevance):
    """Gradient x input through ``y = function(x)``: R_in = x y'(x) R_out / y(x)."""
    t = sp.Dummy("t", real=True)
    slope = sp.diff(function(t), t)

    def received(n, i):
        y = function(x[n, i])
        return x[n, i] * slope.subs(t, x[n, i]) * relevance[n, i] / stabilize(y, eps=0)

    return (Matrix(*x.shape, received),)
