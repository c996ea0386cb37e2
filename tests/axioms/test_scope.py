"""A statement that says less than its test assumes, or decides, is not established."""

import pytest
import sympy as sp

from axioms.decide.decisions import IDENTICAL, Decision
from axioms.decide.identity import generic
from axioms.evidence import evidence, scope
from axioms.evidence.prove import prove
from axioms.evidence.statements import THEOREMS

LINEAR = THEOREMS / "test_linear.py"


def decided(*sides):
    return [Decision(kind=IDENTICAL, left=x, right=x, verdict=True) for x in sides]


def test_assumptions_and_sizes_are_those_of_symbols():
    x, e, c = generic("x", 2, 3, negative=True), generic("e", 1, 4, positive=True), sp.Symbol("c")
    numbered, part = sp.symbols("y1:6", nonzero=True), generic("a1_", 1, 7)
    decisions = decided(*x, *e, c, *numbered, *part, *generic("a2_", 1, 6))
    assert scope.assumptions(decisions) == {"x < 0", "y != 0"}
    assert scope.sizes(decisions) == {2, 3, 4, 5, 6, 7}
    assert scope.named(["x, z < 0: sizes", "y != 0"]) == {"x < 0", "z < 0", "y != 0"}
    assert scope.assumptions(decided(sp.Symbol("λ", positive=True))) == {"λ > 0"}


@pytest.mark.parametrize("fact", scope.RELATIONS)
def test_an_assumption_is_said_by_the_relation_that_holds_where_it_does(fact):
    (text,) = scope.assumptions(decided(sp.Symbol("x", **{fact: True})))
    for value in (-1, 0, 1):
        assert eval(text, {"x": value}) == getattr(sp.Integer(value), f"is_{fact}")


@pytest.mark.parametrize(("given", "said", "error"), [
    (["x, y > 0: sizes"], "rows of three keys", None),
    (["x, y > 0: sizes"], "Three keys", None),
    (["x, y > 0: sizes"], "two, four, five, six, seven, eight, nine", "decided of 3 entries"),
    (["x > 0", "x > 0, y > 0"], "3 keys", "names no assumption"),
    (["x > 0"], "3 keys", "assumed and not said: y > 0"),
    (["x, y >= 0"], "3 keys", "assumed and not said: x > 0, y > 0"),
    (["x, y > 0"], "2 keys of 30 channels", "decided of 3 entries of a name"),
    (["all are positive"], "3 keys", "names no assumption"),
])  # fmt: skip
def test_what_is_assumed_or_decided_and_not_said_is_an_error(given, said, error):
    x, y = generic("x", 1, 3, positive=True), sp.Symbol("y", positive=True)
    if error is None:
        scope.hold(given, said, decided(*x, y))
    else:
        with pytest.raises(ValueError, match=error):
            scope.hold(given, said, decided(*x, y))


@pytest.mark.parametrize(
    ("change", "error"),
    [({"given": ["b > 0"]}, None), ({"scope": "any number of inputs"}, "decided of 2 entries")],
)
def test_a_statement_of_the_package_is_held_to_its_scope(monkeypatch, change, error):
    def changed(marker, said=evidence.claim):
        return said(marker)._replace(**change)

    monkeypatch.setattr(evidence, "claim", changed)
    errors = [v.error for v in prove(LINEAR) if v.verdict == "not established"]
    assert bool(errors) == bool(error)
    assert all(error in text for text in errors if error)
