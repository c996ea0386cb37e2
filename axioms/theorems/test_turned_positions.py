"""Position that turns queries and keys: by a chain of steps, or by an angle."""

import pytest
import sympy as sp

from lrp_axioms.axioms.composites import ATTNLRP
from lrp_axioms.axioms.decide.identity import generic, identical
from lrp_axioms.axioms.graph import leaf
from lrp_axioms.axioms.rules.linear import add
from lrp_axioms.axioms.rules.products import bilinear_epsilon, equal_split
from lrp_axioms.axioms.rules.propagate import explain
from lrp_axioms.axioms.theorems import positional
from lrp_axioms.axioms.theorems.test_positions import arriving, symbols

THEMES = {49: ["Position", "Softmax and attention"], 50: ["Position"]}
MEANINGS = {
    49: "Steps that move no key receive nothing when they are written as sums. Written as n matrix "
    "products, they receive the relevance R less R/2^n together, as epsilon -> 0.",
    50: "Measured from angle 0, a rotation receives nothing where nothing is turned. As a product "
    "it receives half at every angle (theorem 22), which says nothing about how much position "
    "mattered.",
}


EPS = sp.Symbol("epsilon", positive=True)


@pytest.mark.theorem(
    49,
    "A step of k <- k + k N gives N half of what k N is of the sum, and k the rest, as epsilon -> "
    "0; where N = 0 it receives exactly nothing, in a chain of any length.",
    "proved",
    scope="keys of 2 channels; any chain by induction",
)
def test_steps_that_do_nothing_receive_nothing(record_property):
    k, r, n = generic("k", 1, 2), generic("r", 1, 2), generic("n", 2, 2)
    away = k * n
    of_k, of_away = add((k, away), r, eps=0)
    more, of_n = bilinear_epsilon(k, n, of_away, eps=0)
    moved = k + away
    part = sum(r[i] * away[i] / moved[i] for i in range(2)) / 2
    assert identical(sum(of_n), part)
    assert identical(sum(of_k) + sum(more), sum(r) - part)

    # With N = 0 the sum is k and a product that is 0, whose relevance R 0/k is 0.
    nothing = sp.zeros(1, 2)
    of_k, of_away = add((k, nothing), r, eps=0)
    assert identical(of_k, r)
    assert identical(of_away, nothing)
    of_each = bilinear_epsilon(k, sp.zeros(2, 2), of_away, eps=EPS, sign=sp.ones(1, 2))
    assert all(identical(found, found * 0) for found in of_each)
    record_property("method", "induction on the chain")


def products(steps):
    """k H_1 ... H_n, one matrix product after the other."""
    key = leaf("k")
    for step in range(steps):
        key = key @ positional.position(f"step {step}")
    return key


@pytest.mark.theorem(
    49,
    "As a chain of n matrix products with half to each factor, a key n steps away keeps R/2^n of "
    "its relevance as epsilon -> 0, whatever the steps: also if these are identity matrices, which "
    "move no key.",
    "proved",
    scope="keys of 2 channels and 1, 2 and 3 steps; any number by induction",
)
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_chain_of_products_takes_a_half_with_every_step(steps, record_property):
    key = products(steps)
    point = symbols(key)
    r = arriving(key, point)
    found = explain(key, point, ATTNLRP, relevance=r)
    assert identical(sum(found["k"]), sum(r) / 2**steps)
    for step in range(steps):  # the last one is the first to take its half
        assert identical(sum(found[f"position step {step}"]), sum(r) / 2 ** (steps - step))
    record_property("method", "induction by theorem 7; up to 3 steps by cancel over generic steps")


def turned(q, cos, sin, r):
    """Relevance of q and of position from the relevance of the turned q.

    It is q + q (cos - 1) + q' sin, so that position is the difference from angle 0.
    """
    other = sp.Matrix([[-q[1], q[0]]])
    own, *parts = add([q, q * (cos - 1), other * sin], r, eps=0)
    halves = [equal_split(2, part) for part in parts]
    return sum(own) + sum(sum(h[0]) for h in halves), sum(sum(h[1]) for h in halves)


@pytest.mark.theorem(
    50,
    "Written as q + q (cos - 1) + q' sin, rotary position receives nothing at angle 0 as epsilon "
    "-> 0, and query and position still receive all relevance at every angle.",
    "proved",
    scope="a query of 2 channels, any angle",
)
def test_measured_from_angle_zero_rotary_position_vanishes_there():
    q, r = generic("q", 1, 2), generic("r", 1, 2)
    cos, sin = sp.symbols("cos sin", real=True)
    of_q, of_position = turned(q, cos, sin, r)
    assert identical(of_q + of_position, sum(r))
    assert identical(of_position.subs({cos: 1, sin: 0}), 0)
    assert not identical(of_position, 0)
