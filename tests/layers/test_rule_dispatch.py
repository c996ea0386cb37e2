"""No implementation runs an unknown rule as another one: it refuses rules that it lacks."""

from dataclasses import replace

import pytest

from axioms import kinds
from axioms.composites import ATTNLRP, Composite, UnassignedOperation
from axioms.graph import INPUT, Node
from axioms.rules import propagate
from numeric import compiled
from numeric.engine import at_output
from numeric.engine.engine import Propagation
from numeric.layer_mixes import sweep
from numeric.reference import dispatch, evaluate
from tests.oracles import bert_relevance
from tests.support import cases
from tests.support.traces import assert_same, contains, refused, snapshot

LEGAL = {(kind, rule) for kind, rules in kinds.RULES.items() for rule in rules}
IMPLEMENTATIONS = {
    "messages": (propagate.RULES, set()),
    "einsums": (dispatch.RULES, {(kind, kinds.GRADIENT) for kind in kinds.RULES}),
    "modified gradients": (at_output.RULES, set()),
}
"""The rules of each, and the rules that it refuses by name."""
WRONG = {  # of another kind each
    kinds.LINEAR: kinds.IDENTITY,
    kinds.ADD: kinds.EQUAL_SPLIT,
    kinds.SCORES: kinds.VALUE_ONLY,
    kinds.SOFTMAX: kinds.VALUE_ONLY,
    kinds.READOUT: kinds.CONSTANT,
    kinds.PRODUCT: kinds.EPSILON,
    kinds.LAYER_NORM: kinds.EPSILON,
    kinds.RMS_NORM: kinds.IDENTITY,
    kinds.ACTIVATION: kinds.HELD_DEVIATION,
}
OF_LLAMA = (kinds.PRODUCT, kinds.RMS_NORM)


@pytest.fixture
def allowing(monkeypatch):
    """A composite with rules that the vocabulary has from now on, and no implementation."""

    def allowing(**rules):
        for kind, rule in rules.items():
            monkeypatch.setitem(kinds.RULES, kind, (*kinds.RULES[kind], rule))
        return Composite("hopeful", ATTNLRP.rules | rules)

    return allowing


def paths(model, batch, *wanted):
    """Paths of all modules that have an operation of these kinds."""
    with Propagation(model, replace(ATTNLRP, layers={0: {}})) as block:
        model(**batch)
    return [operation.module for operation in block.book.recorded if operation.kind in wanted]


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_every_rule_of_the_vocabulary_is_implemented_or_refused_by_name(name):
    table, lacking = IMPLEMENTATIONS[name]
    assert {*table} | lacking == LEGAL
    assert lacking.isdisjoint(table)


@pytest.mark.parametrize("invented", [False, True], ids=["of another kind", "invented"])
@pytest.mark.parametrize("kind", WRONG)
def test_the_fast_path_refuses_what_is_no_rule_of_a_kind(kind, invented, allowing):
    rule = "invented" if invented else WRONG[kind]
    model, batch = cases.family("llama" if kind in OF_LLAMA else "roberta")
    message = refused(UnassignedOperation, model, batch, allowing(**{kind: rule}))
    for path in paths(model, batch, kind):
        contains(message, f"{path}: {rule!r} is not implemented here")
    contains(message, f"Add an entry for: {kind} (")
    assert rule not in message.partition("Add an entry for")[2]


def test_all_offenders_of_all_kinds_are_named_at_once_whichever_way_rules_are_applied(allowing):
    wanted = kinds.LAYER_NORM, kinds.SOFTMAX
    composite = allowing(**dict.fromkeys(wanted, "invented"))
    model, batch = cases.family("bert")
    before, messages = snapshot(model), set()
    for epsilon in (0.0, 1e-6):
        messages.add(refused(UnassignedOperation, model, batch, composite, epsilon=epsilon))

    with pytest.raises(UnassignedOperation) as error:
        sweep(model, batch, [ATTNLRP, composite])
    messages.add(str(error.value))
    with compiled(model, composite, disable=True) as explain:
        with pytest.raises(UnassignedOperation) as error:
            explain(batch)
        messages.add(str(error.value))
    assert_same(before, snapshot(model))
    (message,) = messages
    contains(message, *(f"{path}: 'invented'" for path in paths(model, batch, *wanted)))


def test_a_composite_that_was_changed_after_it_was_made_is_refused():
    composite = Composite("changed", dict(ATTNLRP.rules))
    composite.rules[kinds.LAYER_NORM] = kinds.EPSILON
    model, batch = cases.family("bert")
    message = refused(UnassignedOperation, model, batch, composite)
    contains(message, "'epsilon' is not implemented here", "held-deviation, identity, gradient")


def in_numpy(composite):
    bert_relevance.rule_names(cases.reference_of(cases.tiny_bert()), composite)


def over_a_graph(run):
    """One activation, with operations of no other kind."""
    x = Node(INPUT, name="x")
    y = Node(kinds.ACTIVATION, (x,), attributes={"function": "relu"})
    return lambda composite: run(y, x, composite)


OTHERS = {
    "NumPy, whole model": in_numpy,
    "NumPy, graph": over_a_graph(
        lambda y, x, c: evaluate.propagate([x, y], {x: 1.0}, c, 1.0, eps=0, values={x: 1, y: 1})
    ),
    "SymPy": over_a_graph(lambda y, x, c: propagate.propagate(y, {"x": 1}, c)),
}


@pytest.mark.parametrize("rule", ["invented", kinds.HELD_DEVIATION])
@pytest.mark.parametrize("name", OTHERS)
def test_the_other_implementations_refuse_it_too(name, rule, allowing):
    with pytest.raises(UnassignedOperation) as error:
        OTHERS[name](allowing(**{kinds.ACTIVATION: rule}))
    contains(str(error.value), f"{rule!r} is not implemented here", "activation (identity")
