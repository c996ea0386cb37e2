"""PA-LRP: the sum of the relevance of position, and its dependence on the implementation.

PA-LRP (Bakish et al., 2025, arXiv 2506.02138) gives relevance to pairs of token and position: by
Eq. 1 where position is added, and by the half rule where it turns queries and keys.  Behind that
it is AttnLRP.  Which encodings conserve, each alone, is theorem 45; that sums of absolute values
do not is theorem 22.
"""

import itertools

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP, CP_LRP, STABILISER, TAYLOR
from lrp_axioms.axioms.decide.denotation import denoted
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical
from lrp_axioms.axioms.graph import Node, attend, leaf, linear
from lrp_axioms.axioms.rules.ledger import ledger
from lrp_axioms.axioms.rules.propagate import explain
from lrp_axioms.axioms.theorems.positional import POSITION, total

THEMES = {70: ["Position"]}
DERIVATIONS = {70: ["product", "add", "scores", "softmax"]}
MEANINGS = {
    70: "In one head whose query is turned, positional-aware LRP loses exactly the relevance that "
    "AttnLRP loses at the softmax. How much position receives depends on how a rotation is written "
    "and on where an added table has its zero, and absolute values by layer add up to more than "
    "the signed sum where a layer has negative relevance.",
}

G = sp.Symbol("g", real=True)  # relevance per unit of score


def turned(name, positions):
    """q cos + (a quarter turn of q) sin, with the cosine and sine of its own position as leaves."""
    x = leaf(name)
    quarter = linear(x, "quarter turn")
    cos, sin = (leaf(f"{POSITION} {part} {positions}") for part in ("cos", "sin"))
    return x * cos + quarter * sin


def score(*, both):
    """The score of a query and a key: both turned, or the key alone, by the relative angle."""
    if both:
        return Node(kinds.SCORES, (turned("q", "m"), turned("k", "n")))
    return Node(kinds.SCORES, (leaf("q"), turned("k", "n")))


def angle(t):
    """Cosine and sine, by the tangent of half of the angle: all angles but one."""
    return (1 - t**2) / (1 + t**2), 2 * t / (1 + t**2)


QUARTER = sp.Matrix([[0, 1], [-1, 0]])


def at_angles(m, n):
    """Generic queries and keys of two channels at two positions."""
    point = {"q": generic("q", 1, 2), "k": generic("k", 1, 2), "quarter turn": QUARTER}
    for name, t in (("m", m), ("n", n)):
        cos, sin = angle(t)
        point |= {f"{POSITION} cos {name}": cos * sp.ones(1, 2)}
        point |= {f"{POSITION} sin {name}": sin * sp.ones(1, 2)}
    return point


T, U = sp.symbols("t u", real=True)


def difference(t, u):
    """The tangent of half of the difference of two angles."""
    return (u - t) / (1 + t * u)


@pytest.mark.theorem(
    70,
    "Of the relevance R of one score of a query and a key of two channels, positions receive as "
    "epsilon -> 0 R/2 if both are turned, at all angles but a half turn, and R/4 if the key alone "
    "is turned by the relative angle, which gives the same score.",
    "proved",
    scope="2 channels; all angles but half turns",
)
def test_positions_receive_half_or_a_quarter_of_every_score():
    points = at_angles(T, U), at_angles(0, difference(T, U))
    values = []
    for both, at in zip((True, False), points, strict=True):
        value = denoted(score(both=both), at)
        found = explain(score(both=both), at, ATTNLRP, relevance=G * value)
        place, content = (total(found, of_position=p) for p in (True, False))
        assert identical(place, G * value[0] / (2 if both else 4))
        assert identical(place + content, G * value[0])
        values.append(value[0])
    assert identical(*values)


def head():
    """A query that is turned, over two keys."""
    pair = Node(kinds.SCORES, (turned("q", "m"), leaf("keys")))
    return attend(pair, leaf("v"))


def at_head():
    """Keys that give the scores logarithms: their exponentials are rational."""
    point = {name: x for name, x in at_angles(T, U).items() if name[-1] not in "kn"}
    cos, sin = angle(T)
    query = point["q"] * cos + point["q"] * QUARTER * sin
    logs = generic("e", 2, 1, positive=True).applyfunc(sp.log)
    others = generic("k", 2, 1)
    keys = ((logs - others * query[1]) / query[0]).row_join(others)
    return {**point, "quarter turn": QUARTER, "keys": keys, "v": generic("v", 2, 1)}


def named(x):
    """With a symbol for every logarithm, whose exponential is another."""
    return sp.sympify(x).replace(sp.log, lambda e: sp.Symbol(f"log {e}", real=True))


@pytest.mark.theorem(
    70,
    "In a head of two keys whose query is turned, what content and position miss of R as epsilon "
    "-> 0 is R_i (1 - z_i + zbar) of each attention weight with relevance R_i, at the softmax, and "
    "nothing else. By CP-LRP values receive all of R, and position nothing.",
    "proved",
    scope="2 keys, a query of 2 channels; all angles but half turns",
)
def test_a_head_with_rotary_position_loses_at_its_softmax_alone():
    root, at = head(), at_head()
    value = denoted(root, at)
    found = explain(root, at, ATTNLRP, relevance=G * value)
    both = sum(total(found, of_position=p) for p in (True, False))
    e, v = generic("e", 2, 1, positive=True), at["v"]
    a, z = e / sum(e), e.applyfunc(lambda x: named(sp.log(x)))
    mean = (a.T * z)[0]
    told = sum(G * a[i] * v[i] / 2 * (1 - z[i] + mean) for i in range(2))
    assert identical(named(both), named(G * value[0]) - told)
    lost = ledger(root, at, ATTNLRP, relevance=G * value).by_kind()
    assert identical(named(lost.pop((kinds.SOFTMAX, TAYLOR))), told)
    assert {cause for _, cause in lost} == {STABILISER}
    bypassed = explain(root, at, CP_LRP, relevance=G * value)
    assert identical(sum(bypassed["v"]), G * value[0])
    assert identical(total(bypassed, of_position=True), 0)


@pytest.mark.theorem(
    70,
    "Absolute values of the relevance of position, taken layer by layer, exceed the signed sum by "
    "twice the size of all negative relevance of layers. Where R is the relevance of one sum of "
    "content and all positions, content and the absolute values exceed R by as much.",
    "proved",
    given=["s > 0: sizes of the positions of layers"],
    scope="3 layers, all 8 sign cases; any number, as |r| - r is 0 or twice the size of r < 0",
)
def test_absolute_values_by_layer_exceed_by_twice_what_is_negative():
    layers, content = 3, sp.Symbol("content", real=True)
    sizes = sp.symbols("s:3", positive=True)
    root = Node(kinds.ADD, (leaf("content"), *(leaf(f"{POSITION} {k}") for k in range(layers))))
    for signs in itertools.product((1, -1), repeat=layers):
        at = {"content": content}
        at |= {f"{POSITION} {k}": s * v for k, (s, v) in enumerate(zip(signs, sizes, strict=True))}
        found = explain(root, at, ATTNLRP)
        of_layers = [r for name, r in found.items() if name.startswith(POSITION)]
        signed, absolute = sum(of_layers), sum(r * s for r, s in zip(of_layers, signs, strict=True))
        assert identical(found["content"] + signed, denoted(root, at)[0])
        below = sum(v for s, v in zip(signs, sizes, strict=True) if s < 0)
        assert identical(absolute - signed, 2 * below)


@pytest.mark.theorem(
    70,
    "A constant that moves from the table of positions into the words, which changes no embedding, "
    "leaves the relevance of position as it is.",
    "refuted",
)
def test_the_share_of_an_added_position_depends_on_its_zero(record_property):
    word, place, c = sp.symbols("word place c", positive=True)
    root = leaf("word") + leaf(POSITION)
    one, other = (explain(root, {"word": word + x, POSITION: place - x}, ATTNLRP) for x in (0, c))
    assert identical(sum(one.values()), sum(other.values()))
    assert identical(one[POSITION] - other[POSITION], c)  # per unit of the sum
    assert differ_at(one[POSITION], other[POSITION], {word: 1, place: 3, c: 2})
    record_property("witness", "word 1 and position 3, or 3 and 1: position 3 versus 1")
