"""Seven axioms and the methods that obey them: sets that exclude each other, and sets to be had.

On products of three positive factors: conservation, associativity (re-association changes nothing),
commutativity, freedom of units, locality (a factor's part of what arrives does not depend on the
rest of the network) and agreement with leave-one-out.  On one row of softmax attention, whose
output is its relevance: conservation over the keys, and agreement with leave-one-out.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.decide.identity import generic, identical
from lrp_axioms.axioms.rules.effects import leave_key_out, leave_one_out, mask_relevance
from lrp_axioms.axioms.theorems.test_bypassed_softmax import by_attnlrp, by_cp_lrp
from lrp_axioms.axioms.theorems.test_product_rules import (
    LEFT,
    RIGHT,
    WITHOUT,
    R,
    X,
    everything_to_both,
    explained,
    found,
    merged,
    obeyed,
    tree,
)

THEMES = {63: ["Characterisation"]}
MEANINGS = {
    63: "On products of nonzero factors and on rows of softmax attention, an explanation can add "
    "up to the output or agree with Leave-One-Out, and not both. The table in docs/FINDINGS.md "
    "says which axioms each method obeys.",
}

CONSERVES, LOCAL = "conservation", "locality"
SYMMETRIC = ("associativity", "commutativity", "freedom of units")
LOO = {"product": "leave-one-out of products", "attention": "leave-one-out of attention"}
AXIOMS = (CONSERVES, LOCAL, *SYMMETRIC, *LOO.values())
N = 2  # keys
ALONE = 0  # the one way to multiply two factors
E, V = generic("e", 1, N, positive=True), generic("v", N, 1)
Z = generic("z", 1, N)
Row = Callable[[], sp.Matrix]


by_value = partial(by_cp_lrp, E, V)
nested_halves = partial(found, lambda x, z: sp.Rational(1, 2))
METHODS: dict[str, tuple[Callable[..., list[sp.Expr]], Row]] = {
    "AttnLRP": (nested_halves, partial(by_attnlrp, Z, E, V)),
    "CP-LRP": (nested_halves, by_value),
    "CP-LRP, products merged": (merged, by_value),
    "gradient x input": (everything_to_both, lambda: 2 * by_attnlrp(Z, E, V)),
    "leave-one-out": (everything_to_both, partial(leave_key_out, E, V)),
    "mask relevance, gradient x input": (
        everything_to_both, partial(mask_relevance, E, V, sp.ones(1, 1))
    ),
}  # fmt: skip
"""Method -> its relevance of three factors, and of the keys of a row."""
EXCLUDED: Sequence[frozenset[str]] = (
    frozenset({CONSERVES, LOO["product"]}),
    frozenset({CONSERVES, LOO["attention"]}),
    frozenset({CONSERVES, LOCAL, *SYMMETRIC}),
)
"""Sets of axioms that no rule obeys."""


def is_local(rule: Callable[..., list[sp.Expr]]) -> bool:
    """Whether x0's share of the relevance of x0 x1 is the same in (x0 x1) x2 as in x0 x1 alone."""
    alone = rule(range(2), ALONE, X)[0] / R
    arriving = rule(range(2), ALONE, (X[0] * X[1], X[2]))[0]
    return identical(rule(range(3), LEFT, X)[0], alone * arriving)


def axioms_of(rule: Callable[..., list[sp.Expr]], row: Row) -> frozenset[str]:
    """The axioms that both halves of a method obey: on products, and on a row of attention."""
    keys, output = row(), (E * V)[0] / sum(E)
    holds = obeyed(rule)
    holds[CONSERVES] = holds[CONSERVES] and identical(sum(keys), output)
    holds[LOCAL] = is_local(rule)
    effects = leave_one_out(sp.prod(X[:3]), {x: x for x in X[:3]})
    parts = zip(rule(range(3), LEFT, X), X, strict=False)
    holds[LOO["product"]] = all(
        identical(part / R, effects[x] / sp.prod(X[:3])) for part, x in parts
    )
    holds[LOO["attention"]] = identical(keys, leave_key_out(E, V))
    return frozenset(axiom for axiom in AXIOMS if holds[axiom])


@pytest.mark.theorem(
    63,
    "No attribution both conserves and is leave-one-out on a product of n >= 2 factors, none of "
    "which is 0: that sums to n times the product.",
    "proved",
    scope="n = 2, 3 and 4 factors; any number, as each effect is the product",
)
def test_conservation_excludes_leave_one_out_of_products(record_property):
    for n in (2, 3, 4):
        factors = sp.symbols(f"x0:{n}", real=True)
        effects = leave_one_out(sp.prod(factors), {x: x for x in factors})
        assert identical(sum(effects.values()), n * sp.prod(factors))
    record_property(
        "method", "cancel for 2 to 4 generic factors; for any number, as each effect is the product"
    )


@pytest.mark.theorem(
    63,
    "No attribution both conserves and is leave-one-out on a row of softmax attention over n >= 2 "
    "keys: with equal values v that is 0 for every key, and the output is v.",
    "proved",
    scope="n = 2 and 3 keys; any number, by theorem 20",
)
def test_conservation_excludes_leave_one_out_of_attention(record_property):
    v = sp.Symbol("v", real=True)
    for n in (2, 3):
        exp_z, values = generic("e", 1, n, positive=True), generic("v", n, 1)
        a = exp_z / sum(exp_z)
        output = (a * values)[0]
        missed = output - sum(leave_key_out(exp_z, values))
        effects = [a[i] / (1 - a[i]) * (values[i] - output) for i in range(n)]
        assert identical(missed, output - sum(effects))
        assert identical(missed.subs(dict.fromkeys(values, v)), v)
    record_property(
        "method",
        "then one value for all, so that theorem 20 has 0 for any number of keys",
    )


@pytest.mark.theorem(
    63,
    "A local rule for products that knows no units, a R to the left factor and b R to the right, "
    "is changed by re-association unless a and b are 0 or 1, and by order unless a = b: so it is "
    "gradient x input, or gives nothing.",
    "proved",
    scope="3 factors",
)
def test_gradient_times_input_is_the_only_unit_free_local_invariant_rule(record_property):
    a, b = sp.symbols("a b", real=True)
    instead = {kinds.PRODUCT: lambda node, xs, r, options: [a * r, b * r]}
    nested, direct = (explained(tree(range(3), shape), X, instead) for shape in (LEFT, RIGHT))
    gaps = [one - other for one, other in zip(nested, direct, strict=True)]
    for gap, expected in zip(gaps, (R * (a**2 - a), 0, R * (b - b**2)), strict=True):
        assert identical(gap, expected)
    record_property(
        "method", "cancel; the gaps are R (a^2 - a) and R (b - b^2), 0 at 0 and 1 alone"
    )


@pytest.mark.theorem(
    63,
    "Of conservation, locality, associativity, commutativity, freedom of units, leave-one-out of "
    "products and of softmax attention, on products of 3 positive factors and rows of 2 keys, "
    "every set that holds none of the three that are excluded is obeyed by some method.",
    "proved",
    scope="3 factors; 2 keys",
)
def test_whatever_is_not_excluded_can_be_had(record_property):
    attained = [axioms_of(rule, by_value) for rule in WITHOUT.values()]
    attained.append(axioms_of(*METHODS["leave-one-out"]))
    for n in range(len(AXIOMS) + 1):
        for chosen in map(frozenset, itertools.combinations(AXIOMS, n)):
            excluded = any(bad <= chosen for bad in EXCLUDED)
            assert excluded != any(chosen <= holds for holds in attained)
    record_property(
        "method", f"all {2 ** len(AXIOMS)} sets; axioms by cancel over 3 generic factors and 2 keys"
    )
