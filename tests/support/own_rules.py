"""Rules as a user writes them: the project's own in other words, and some wrong ones."""

import sympy as sp

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, Composite
from axioms.own_rules import rule, sign
from axioms.own_rules.files import load
from axioms.scoreboard.rule_sets import RuleSet, absolute_split, z_plus
from website.literature import RULES

LITERATURE = {own.name: own for own in load(RULES)}


@rule("linear")
def without_bias(x, w, b, z, R, eps):
    u = z - b
    return [xi * wi * R / (u + eps * sign(u)) for xi, wi in zip(x, w, strict=True)]


@rule("linear")
def unstabilised(x, w, b, z, R, eps):
    return [xi * wi * R / z for xi, wi in zip(x, w, strict=True)]


@rule("softmax")
def eq5(z, a, R, eps):
    return [zi * (r - ai * sum(R)) for zi, ai, r in zip(z, a, R, strict=True)]


@rule("bilinear")
def eq3(a, v, o, R, eps):
    each = [x * y * R / (2 * o + eps * sign(o)) for x, y in zip(a, v, strict=True)]
    return each, each


@rule("activation")
def identity(x, y, slope, R, eps):
    return R


@rule("add")
def shares(x, y, z, R, eps):
    part = R / (z + eps * sign(z))
    return x * part, y * part


@rule("product")
def halves(x, y, z, R, eps):
    return R / 2, R / 2


@rule("linear")
def with_bias(x, w, b, z, R, eps):
    return [xi * wi * R / (z + eps * sign(z)) for xi, wi in zip(x, w, strict=True)]


@rule("scores")
def nothing(q, k, z, R, eps):
    return [0] * len(q), [0] * len(k)


@rule("softmax")
def none(z, a, R, eps):
    return [0] * len(z)


@rule("readout")
def value_only(a, v, o, R, eps):
    share = R / (o + eps * sign(o))
    return [0] * len(a), [x * y * share for x, y in zip(a, v, strict=True)]


@rule("add")
def by_size(x, y, z, R, eps):
    share = R / (abs(x) + abs(y) + eps)
    return abs(x) * share, abs(y) * share


@rule("linear")
def positive(x, w, b, z, R, eps):
    up = [sp.Max(xi * wi, 0) for xi, wi in zip(x, w, strict=True)]
    return [part * R / (sum(up) + sp.Max(b, 0) + eps) for part in up]


@rule("linear")
def alpha_beta_less_bias(x, w, b, z, R, eps):
    c = [xi * wi for xi, wi in zip(x, w, strict=True)]
    up, down = ([sp.Max(s * part, 0) for part in c] for s in (1, -1))
    above, below = (R / (sum(side) + eps) for side in (up, down))
    return [2 * u * above - d * below for u, d in zip(up, down, strict=True)]


@rule("linear")
def above_a_hundred(x, w, b, z, R, eps):
    up = [sp.Max(xi * wi + 100, 0) for xi, wi in zip(x, w, strict=True)]
    return [part * R / (sum(up) + eps) for part in up]


def with_rule(kind, name):
    return RuleSet(name=name, composite=Composite(name, {**ATTNLRP.rules, kind: name}))


ATTN = RuleSet(name="AttnLRP", composite=ATTNLRP)
SAME_AS = {  # own rule -> the project's, decided by the scoreboard
    **dict.fromkeys((halves, shares, with_bias, eq3, eq5, identity), ATTN),
    nothing: with_rule(kinds.SCORES, CP_LRP.rules[kinds.SCORES]),
    none: with_rule(kinds.SOFTMAX, CP_LRP.rules[kinds.SOFTMAX]),
    value_only: with_rule(kinds.READOUT, CP_LRP.rules[kinds.READOUT]),
    without_bias: with_rule(kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS),
    by_size: RuleSet(name="abs", composite=ATTNLRP, instead={kinds.ADD: absolute_split}),
    positive: RuleSet(name="z+", composite=ATTNLRP, instead={kinds.LINEAR: z_plus}),
}
