"""Rules of the literature as rules of one's own: `lrp-axioms prove docs/literature_rules.py`.

PUBLISHED holds the claims of each source on its rule; LITERATURE.md compares them with verdicts.
Sources are cited as works, because numbers of equations differ between their versions.
"""

from sympy import Max

from lrp_axioms import rule, sign


def contributions(x, w):
    return [xi * wi for xi, wi in zip(x, w, strict=True)]


@rule("linear")
def lrp_0(x, w, b, z, R, eps):
    """Bach et al. 2015, PLoS ONE 10(7):e0130140: shares without a stabiliser."""
    return [c * R / z for c in contributions(x, w)]


@rule("linear")
def epsilon(x, w, b, z, R, eps):
    """Bach et al. 2015: the epsilon rule."""
    return [c * R / (z + eps * sign(z)) for c in contributions(x, w)]


def alpha_beta(x, w, b, R, eps, alpha, beta):
    """By alpha and beta >= 0 with alpha - beta = 1; some write -beta for this beta."""
    parts = [*contributions(x, w), b]
    up, down = [Max(c, 0) for c in parts], [Max(-c, 0) for c in parts]
    above, below = alpha * R / (sum(up) + eps), beta * R / (sum(down) + eps)
    return [u * above - d * below for u, d in zip(up[:-1], down[:-1], strict=True)]


@rule("linear")
def alpha_2_beta_1(x, w, b, z, R, eps):
    """Bach et al. 2015: the alpha-beta rule with 2 and 1."""
    return alpha_beta(x, w, b, R, eps, 2, 1)


@rule("linear")
def alpha_1_beta_0(x, w, b, z, R, eps):
    """Bach et al. 2015: the alpha-beta rule with 1 and 0."""
    return alpha_beta(x, w, b, R, eps, 1, 0)


@rule("linear")
def z_plus(x, w, b, z, R, eps):
    """Montavon et al. 2017, Pattern Recognition 65: the z+ rule, for inputs >= 0."""
    up = [Max(c, 0) for c in contributions(x, w)]
    return [u * R / (sum(up) + eps) for u in up]


@rule("linear")
def w_square(x, w, b, z, R, eps):
    """Montavon et al. 2017: the w^2 rule, for inputs of any value."""
    return [wi**2 * R / sum(v**2 for v in w) for wi in w]


@rule("linear")
def flat(x, w, b, z, R, eps):
    """Lapuschkin et al. 2019, Nature Communications 10:1096: all inputs alike."""
    return [R / len(x) for _ in x]


@rule("linear")
def gamma(x, w, b, z, R, eps):
    """Montavon et al. 2019, LNCS 11700: the gamma rule, with gamma = 1/4; the bias is neuron 0."""
    favoured = [xi * (wi + Max(wi, 0) / 4) for xi, wi in zip(x, w, strict=True)]
    total = sum(favoured) + b + Max(b, 0) / 4
    return [c * R / (total + eps * sign(total)) for c in favoured]


@rule("add")
def ratio_based(x, y, z, R, eps):
    """Otsuki et al. 2024, ECCV: ratio-based splitting of skip connections, by absolute values."""
    total = abs(x) + abs(y)
    return R * abs(x) / total, R * abs(y) / total


@rule("softmax")
def attnlrp_softmax(z, a, R, eps):
    """Achtibat et al. 2024, arXiv 2402.05602: Taylor expansion; Eq. 5 of You et al. 2025."""
    return [zi * (r - ai * sum(R)) for zi, ai, r in zip(z, a, R, strict=True)]


@rule("product")
def attnlrp_product(x, y, z, R, eps):
    """Achtibat et al. 2024: equal shares of two factors."""
    return R / 2, R / 2


@rule("bilinear")
def attnlrp_matrix_product(a, v, o, R, eps):
    """Achtibat et al. 2024: equal shares of two matrices; Eq. 3 of You et al. 2025."""
    each = [c * R / (2 * o + eps * sign(o)) for c in contributions(a, v)]
    return each, each


@rule("activation")
def attnlrp_activation(x, y, slope, R, eps):
    """Achtibat et al. 2024: the identity rule of element-wise functions."""
    return R


@rule("readout")
def cp_lrp_attention(a, v, o, R, eps):
    """Ali et al. 2022, arXiv 2202.07304: attention weights are constants; as You et al. 2025."""
    return [0] * len(a), [c * R / (o + eps * sign(o)) for c in contributions(a, v)]


CONSERVES = "conserves relevance"
BIAS, EPS, BOTH = "the bias absorbs", "the stabiliser absorbs", "bias and stabiliser absorb"
PUBLISHED = {  # rule -> claim -> the source's word on it: a verdict, or a cause of absorption
    "lrp_0": {CONSERVES: BIAS},
    "epsilon": {CONSERVES: BOTH},
    "alpha_2_beta_1": {CONSERVES: BOTH},
    "alpha_1_beta_0": {CONSERVES: BOTH},
    "z_plus": {CONSERVES: "proved"},  # "conservative and positive", hence "consistent"
    "w_square": {CONSERVES: "proved"},  # the same
    "flat": {CONSERVES: "proved"},
    "gamma": {CONSERVES: BOTH},
    "ratio_based": {CONSERVES: "proved"},
    "attnlrp_softmax": {CONSERVES: "refuted"},  # the bias of its Taylor expansion takes a part
    "attnlrp_product": {
        CONSERVES: "proved",
        "re-associate products": "refuted",  # You et al. 2025, arXiv 2510.18810, Figure 1
    },
    "attnlrp_matrix_product": {
        CONSERVES: EPS,
        "factorize attention": "refuted",  # You et al. 2025
    },
    "attnlrp_activation": {CONSERVES: "proved"},
    "cp_lrp_attention": {CONSERVES: EPS},
}
