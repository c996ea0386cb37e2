"""The three implementations of every rule agree, entry by entry, at eps = 1/4 to 1e-12."""

import itertools
from functools import partial

import numpy as np
import pytest
import torch

from axioms import kinds
from axioms.rules import propagate
from numeric.engine import at_output
from numeric.engine import rules as fast
from numeric.reference import dispatch
from tests.support.agreement import (
    AT_ZERO,
    CASES,
    DEVIATION,
    EPS,
    OPERATIONS,
    SCALE,
    by_engine,
    check,
    cubic,
    rms_norm,
)

rng = np.random.default_rng(0)


def points(case, count=20):
    """(operands, c) of small integers, the first operand without 0 where the rule needs that."""
    for _ in range(count):
        *operands, c = (rng.integers(-3, 4, shape).astype(float) for shape in case.shapes)
        if case.nonzero:
            operands[0][operands[0] == 0] = 1
        yield operands, c


def check_all(name, case, **options):
    for operands, c in POINTS[name]:
        check(case, operands, c, **options)


POINTS = {name: list(points(case)) for name, case in CASES.items()}


def check_names():
    """Every record stands under its own kind and rule."""
    for table in (propagate.RULES, dispatch.RULES, at_output.RULES):
        assert [(rule.kind, rule.name) for rule in table.values()] == [*table]


def test_every_record_stands_under_its_kind_and_rule():
    check_names()


def test_every_rule_on_relevance_has_a_case():
    assert {f"{kind} by {rule}" for kind, rule in dispatch.RULES} <= CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_the_three_implementations_of_a_rule_agree(name):
    check_all(name, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_the_points_have_outputs_of_either_sign_and_of_zero(name):
    case = CASES[name]
    outputs = torch.cat([
        case.fast(*map(torch.tensor, operands)).flatten() for operands, _ in POINTS[name]
    ])  # fmt: skip
    assert (outputs > 0).any()
    if not name.startswith(kinds.SOFTMAX):
        assert (outputs < 0).any()
        assert (outputs == 0).any()


def at(denominator):
    """The epsilon rule with another denominator, at output ``z``; 1 is the plain gradient."""
    return lambda z: fast.scale(z, (z / denominator(z)).detach())


def sign(z):
    return torch.where(z >= 0, 1.0, -1.0)


def through(rule):
    return lambda a, b: rule(a @ b)


def halves(x, y, u):
    return sum(fast.scale(operand, ((x + y + u) / (3 * operand)).detach()) for operand in (x, y, u))


def outside(stabilise):
    """Eq. 1 with the bias outside of the denominator, under another stabiliser."""

    def rule(x, w, b):
        z = x @ w + b
        return fast.scale(z, z / stabilise(z - b))

    return rule


def softmax_without_mean(z):
    e = z.exp()
    return e / e.sum(-1, keepdim=True).detach()


def held_without_centring(x, w, b):
    y = (x - x.mean().detach()) / DEVIATION * w + b
    return fast.epsilon(y, eps=EPS)


def held_without_bias(x, w, b):
    y = by_engine(kinds.LAYER_NORM, kinds.HELD_DEVIATION, x, w, b, eps=0)
    return fast.epsilon(y, eps=EPS, bias=b)


def plain_layer_norm(x, w, b):
    return fast.epsilon(by_engine(kinds.LAYER_NORM, kinds.GRADIENT, x, w, b), eps=EPS)


def plain_rms_norm(x, w):
    small = DEVIATION**2 - x.detach().pow(2).mean()
    return fast.epsilon(x * torch.rsqrt(x.pow(2).mean() + small) * w, eps=EPS)


LINEAR, ADD, READOUT, SCORES, OUTSIDE, VALUE, SOFTMAX, NORM, RMS, ACTIVATION = (
    f"{kind} by {rule}"
    for kind, rule in (
        (kinds.LINEAR, kinds.EPSILON),
        (kinds.ADD, kinds.EPSILON),
        (kinds.READOUT, kinds.BILINEAR_EPSILON),
        (kinds.SCORES, kinds.BILINEAR_EPSILON),
        (kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS),
        (kinds.READOUT, kinds.VALUE_ONLY),
        (kinds.SOFTMAX, kinds.TAYLOR),
        (kinds.LAYER_NORM, kinds.HELD_DEVIATION),
        (kinds.RMS_NORM, kinds.HELD_DEVIATION),
        (kinds.ACTIVATION, kinds.IDENTITY),
    )
)
WRONG = {
    (LINEAR, "stabiliser without sign"): lambda x, w, b: at(lambda z: z + EPS)(x @ w + b),
    (LINEAR, "stabiliser doubled"): lambda x, w, b: fast.epsilon(x @ w + b, eps=2 * EPS),
    (LINEAR, "sign turned"): lambda x, w, b: at(lambda z: z - EPS * sign(z))(x @ w + b),
    (LINEAR, "bias forgotten"): lambda x, w, b: fast.epsilon(x @ w, eps=EPS),
    (OUTSIDE, "sign(0) = 0"): outside(lambda z: z + EPS * z.sign()),
    (OUTSIDE, "sign(0) = -1"): outside(lambda z: z + EPS * torch.where(z > 0, 1.0, -1.0)),
    (OUTSIDE, "sign of the whole output"): lambda x, w, b: fast.scale(
        x @ w + b, (x @ w + b) / (x @ w + EPS * sign(x @ w + b))
    ),
    (ADD, "equal shares"): halves,
    (ADD, "stabiliser without sign"): lambda x, y, u: at(lambda z: z + EPS)(x + y + u),
    (READOUT, "not halved"): through(lambda o: fast.epsilon(o, eps=EPS)),
    (READOUT, "stabiliser doubled"): through(at(lambda o: 2 * (o + EPS * sign(o)))),
    (READOUT, "stabiliser without sign"): through(at(lambda o: 2 * o + EPS)),
    (READOUT, "all to the first factor"): lambda a, v: at(lambda o: o + EPS / 2 * sign(o))(
        a @ v.detach()
    ),
    (READOUT, "shares permuted"): lambda a, v: fast.bilinear_epsilon(a @ v, eps=EPS).flip(0),
    (SCORES, "1/sqrt(d) missing"): lambda q, k: fast.bilinear_epsilon(q @ k.mT, eps=EPS),
    (SCORES, "stabilised before the scaling"): lambda q, k: (
        SCALE * fast.bilinear_epsilon(q @ k.mT, eps=EPS)
    ),
    (SCORES, "quarter, as in the limit"): lambda q, k: fast.scale(q @ k.mT * SCALE, 0.25),
    (VALUE, "half"): lambda a, v: fast.bilinear_epsilon(a.detach() @ v, eps=EPS),
    (VALUE, "weights too"): lambda a, v: fast.epsilon(a @ v, eps=EPS),
    (VALUE, "values detached instead"): lambda a, v: fast.epsilon(a @ v.detach(), eps=EPS),
    (SOFTMAX, "mean not subtracted"): softmax_without_mean,
    (SOFTMAX, "along the other axis"): lambda z: z.softmax(0),
    (NORM, "plain gradient"): plain_layer_norm,
    (NORM, "not centred"): held_without_centring,
    (NORM, "bias outside"): held_without_bias,
    (NORM, "limit"): partial(by_engine, kinds.LAYER_NORM, kinds.HELD_DEVIATION, eps=0),
    (RMS, "plain gradient"): plain_rms_norm,
    (RMS, "centred"): lambda x, w: fast.epsilon((x - x.mean()) / DEVIATION * w, eps=EPS),
    (RMS, "weight forgotten"): lambda x, w: rms_norm(x, torch.ones_like(w)),
    (RMS, "limit"): partial(rms_norm, eps=0),
    (ACTIVATION, "plain derivative"): cubic,
    ("activation that is not 0 at 0", "all passes"): lambda x: fast.epsilon(
        fast.slope(x, cubic(x.detach()) + AT_ZERO, slope_at_zero=-1.0), eps=EPS
    ),
    (ACTIVATION, "nothing passes"): lambda x: cubic(x).detach() + 0 * x,
    ("product of three", "plain gradient"): lambda x, y, u: x * y * u,
    ("product of three", "half of a half"): lambda x, y, u: fast.scale(
        fast.scale(x * y, 0.5) * u, 0.5
    ),
}


ALIKE = (kinds.TAYLOR, kinds.GRADIENT)  # at a softmax, where Eq. 5 is the plain gradient
OTHERS = {
    (f"{kind} by {rule}", other): partial(by_engine, kind, other)
    for kind in OPERATIONS
    for rule, other in itertools.permutations(kinds.RULES[kind], 2)
    if rule != kinds.GRADIENT and not (kind == kinds.SOFTMAX and {rule, other} == {*ALIKE})
}
"""For each rule, every other rule of its kind."""


@pytest.mark.parametrize(("name", "mistake"), [*WRONG, *OTHERS])
def test_a_wrong_rule_is_rejected(name, mistake):
    with pytest.raises(AssertionError):
        check_all(name, CASES[name], fast_text=(WRONG | OTHERS)[name, mistake])
