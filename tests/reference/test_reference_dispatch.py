"""The reference's table of rules by kind gives what the messages give, for every kind and rule."""

import numpy as np
import pytest
import sympy as sp

from axioms import kinds
from axioms.algebra.propagate import MESSAGES
from axioms.graph import Node
from numeric.reference.dispatch import RULES

EPS = sp.Rational(1, 4)
NORM_EPS, SCALE = sp.Rational(1, 2), sp.Rational(1, 2)
ATTRIBUTES = {
    kinds.SCORES: {"scale": SCALE},
    kinds.LAYER_NORM: {"norm_eps": NORM_EPS},
    kinds.RMS_NORM: {"norm_eps": NORM_EPS},
    kinds.ACTIVATION: {"function": "relu"},
}
SHAPES = {  # of the operands, and of the output
    kinds.LINEAR: ((2, 3), (3, 2), (1, 2), (2, 2)),
    kinds.ADD: ((2, 3), (2, 3), (2, 3), (2, 3)),
    kinds.SCORES: ((2, 4), (3, 4), (2, 3)),
    kinds.SOFTMAX: ((2, 3), (2, 3)),
    kinds.READOUT: ((2, 3), (3, 2), (2, 2)),
    kinds.BILINEAR: ((2, 3), (3, 2), (2, 2)),
    kinds.PRODUCT: ((2, 3), (2, 3), (2, 3), (2, 3)),
    kinds.LAYER_NORM: ((2, 3), (1, 3), (1, 3), (2, 3)),
    kinds.RMS_NORM: ((2, 3), (1, 3), (2, 3)),
    kinds.ACTIVATION: ((2, 3), (2, 3)),
}
PLACES = list(RULES)
LISTED = (kinds.ADD, kinds.PRODUCT)  # kinds of any number of operands, as one argument
LAST = {kinds.SCORES: [SCALE], kinds.LAYER_NORM: [NORM_EPS], kinds.RMS_NORM: [NORM_EPS]}


def point(kind):
    """Integers: outputs of both signs and of zero occur."""
    rng = np.random.default_rng(len(kind))
    return [
        sp.Matrix(*shape, [int(v) for v in rng.integers(-2, 3, shape).ravel()])
        for shape in SHAPES[kind]
    ]


def array(value):
    if not isinstance(value, sp.MatrixBase):
        return float(value)
    dense = np.array([float(v) for v in value]).reshape(value.shape)
    return dense[0] if value.rows == 1 else dense  # biases and weights of norms are vectors


def check(kind, rule, *, text=None):
    """Raises AssertionError unless the reference's text gives the messages to 1e-12."""
    *xs, r = point(kind)
    node = Node(kind, attributes=ATTRIBUTES.get(kind, {}))
    want = MESSAGES[kind, rule](node, xs, r, {"eps": EPS, "sign": None})
    arguments = [array(x) for x in xs + LAST.get(kind, [])]
    if kind in LISTED:
        arguments = [arguments]
    got = (text or RULES[kind, rule])(*arguments, array(r), eps=float(EPS))
    got = got if isinstance(got, tuple) else (got,)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, array(w), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kind", "rule"), PLACES)
def test_the_table_gives_the_messages(kind, rule):
    check(kind, rule)


@pytest.mark.parametrize(("place", "other"), [(a, b) for a in PLACES for b in PLACES if a != b])
def test_a_text_of_another_place_is_rejected(place, other):
    if RULES[place] is RULES[other]:
        check(*place, text=RULES[other])
    else:
        with pytest.raises((AssertionError, AttributeError, TypeError, ValueError, RuntimeWarning)):
            check(*place, text=RULES[other])
