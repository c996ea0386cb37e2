"""The claims about a user's rule hold of operations: their facts, their points and their shapes."""

import random
from itertools import islice

import pytest
import sympy as sp

from axioms import kinds
from axioms.decide.denotation import denoted
from axioms.graph import Node, leaf, parameter
from axioms.own_rules.messages import rule_set
from axioms.own_rules.operations import OPERATIONS
from axioms.own_rules.properties import claims
from axioms.own_rules.rules import flat
from axioms.own_rules.settings import Setting
from axioms.own_rules.uniform import N, uniform
from axioms.rewrites.points import random_point
from tests.support.own_rules import SAME_AS


def test_the_known_rules_cover_every_kind():
    covered = {kind for own in SAME_AS for kind in own.kinds}
    assert covered | {kinds.BILINEAR} == set(OPERATIONS)


ASKED = [
    (own, name, count)
    for own in {own.kind: own for own in SAME_AS}.values()
    for name in claims(own.kind)
    for count in own.operation.counts
]
of_claims = pytest.mark.parametrize(
    ("own", "name", "count"), ASKED, ids=lambda x: getattr(x, "kind", x)
)


def zero(value):
    return sp.simplify(sp.sympify(value).rewrite(sp.exp)) == 0


@of_claims
def test_a_claim_changes_operands_and_not_what_an_operation_makes_of_them(own, name, count):
    """A change of logits may change the order of attention weights with it."""
    setting = Setting(claims(own.kind)[name], own, count)
    given = setting.given
    for change in (change(given) for change in setting.claim.changes):
        for of, value in setting.output.items():
            assert zero(value.xreplace(change) - of.xreplace(change).xreplace(setting.output))
        if own.kind == kinds.SOFTMAX:
            moved = [z.xreplace(change) for z in given["z"]]
            weights = [sp.exp(z) / sum(map(sp.exp, given["z"])) for z in given["z"]]
            at = dict(zip(given["a"], weights, strict=True))
            for z, a in zip(moved, given["a"], strict=True):
                assert zero(sp.exp(z) / sum(map(sp.exp, moved)) - a.xreplace(change).xreplace(at))


def holds(fact):
    """Whether a relation of numbers, or several that are joined, is true."""
    if isinstance(fact, sp.And | sp.Or):
        return (all if isinstance(fact, sp.And) else any)(map(holds, fact.args))
    return bool(sp.simplify(fact))


@of_claims
def test_the_facts_of_a_claim_hold_at_its_points_and_at_no_others(own, name, count):
    setting = Setting(claims(own.kind)[name], own, count)
    follows = [*setting.output, *(flat(setting.given["a"]) if own.operation.attends else [])]
    for point in [*islice(setting.points(), 3, 9), setting.random_point()]:
        assert set(setting.free) <= set(point)
        assert all(holds(fact.xreplace(point)) for fact in setting.facts())
        for x in follows:
            for other in (-point[x], 0 * point[x], point[x] + 1):
                at = {**point, x: other}
                assert other == point[x] or not all(holds(f.xreplace(at)) for f in setting.facts())
        if own.operation.attends and count > 1:  # one weight is none, and the sum still 1
            a, b, *_ = setting.given["a"]
            at = {**point, a: sp.Integer(0), b: point[a] + point[b]}
            assert not all(holds(fact.xreplace(at)) for fact in setting.facts())


@pytest.mark.parametrize("own", [x for x in SAME_AS if x.operation.lists], ids=lambda x: x.name)
def test_the_facts_of_any_number_of_inputs_hold_of_one_two_and_three(own):
    """With the sums over inputs that stand for their symbols."""
    for claim in claims(own.kind).values():
        general = uniform(claim, own)
        assert general.pairs()
        for count in (1, 2, 3):
            setting = Setting(claim, own, count)
            listed = {x: flat(setting.given[name]) for name, x in general.given.items()}
            for point in [setting.random_point(), *islice(setting.points(), 4, 9)]:
                each = [
                    {
                        x: found[k if len(found) > 1 else 0].xreplace(point)
                        for x, found in listed.items()
                    }
                    for k in range(count)
                ]
                sums = {
                    symbol: sum(term.xreplace({**point, **at}) for at in each)
                    for term, symbol in general.named.items()
                }
                for at in each:
                    known = {**point, **at, **sums, N: sp.Integer(count)}
                    assert all(holds(fact.xreplace(known)) for fact in general.facts())


SHAPES = {  # shapes of the operands; none is square
    kinds.LINEAR: [(2, 3), (3, 4), (1, 4)],
    kinds.BILINEAR: [(2, 3), (3, 4)],
    kinds.READOUT: [(2, 3), (3, 4)],
    kinds.SCORES: [(2, 3), (4, 3)],
    kinds.SOFTMAX: [(2, 3)],
    kinds.ACTIVATION: [(2, 3)],
    kinds.ADD: [(2, 3), (2, 3)],
    kinds.PRODUCT: [(2, 3), (2, 3)],
}


@pytest.mark.parametrize("own", SAME_AS, ids=lambda own: f"{own.kind}: {own.name}")
def test_a_rule_of_the_project_sends_its_messages_in_any_shape_and_with_any_scale(own):
    for kind in own.kinds:
        shapes = {f"x{k}": shape for k, shape in enumerate(SHAPES[kind])}
        point = random_point(random.Random(1), shapes)
        at = {name: sp.Matrix(m) for name, m in point.items()}
        more = {"scale": sp.Rational(2, 3)} if kind == kinds.SCORES else {"function": "tanh"}
        fixed = parameter if kind == kinds.LINEAR else leaf
        root = Node(kind, (leaf("x0"), *map(fixed, list(at)[1:])), attributes=more)
        r = sp.Matrix(random_point(random.Random(2), {"r": denoted(root, at).shape})["r"])
        found = rule_set(own).explain(root, at, eps=sp.Rational(1, 4), relevance=r)
        known = SAME_AS[own].explain(root, at, eps=sp.Rational(1, 4), relevance=r)
        assert found.keys() == known.keys()
        assert all(zero(x) for name in found for x in found[name] - known[name])
