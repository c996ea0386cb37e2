"""A plan lists the operations of the real pass, in order, and marks missing rules."""

import json
from dataclasses import replace

import pytest
import torch

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, Composite
from numeric import attribute, plan
from numeric.planning import UNKNOWN
from tests.census.build import CAUSAL, with_inputs
from tests.support import cases
from tests.support.traces import assert_same, contains, snapshot

MODELS = {
    "bert": lambda: cases.family("bert"),
    "bert, eager": lambda: cases.family("bert", attn_implementation="eager"),
    "llama": lambda: cases.family("llama"),
    "vit": lambda: cases.family("vit"),
    "modernbert": lambda: with_inputs("modernbert"),
    "mixtral": lambda: with_inputs("mixtral", CAUSAL),
    "gemma2": lambda: with_inputs("gemma2", CAUSAL),
}


@pytest.fixture
def used(monkeypatch):
    """The kinds and rules that a pass has used, in order, at its end."""
    found, assign = [], Composite.assign

    def noted(self, operations, **options):
        rules = assign(self, operations, **options)
        found[:] = [(op.kind, rule) for op, rule in zip(operations, rules, strict=True)]
        return rules

    monkeypatch.setattr(Composite, "assign", noted)
    return found


@pytest.mark.parametrize("composite", [ATTNLRP, CP_LRP], ids=lambda c: c.name)
@pytest.mark.parametrize("name", MODELS)
def test_the_plan_is_what_the_real_pass_does(name, composite, used):
    model, batch = MODELS[name]()
    before = snapshot(model)
    planned = plan(model, batch, composite)
    assert_same(before, snapshot(model))
    used.clear()
    attribute(model, batch, replace(composite, layers={0: {}}))  # one that asks for every place
    assert used == [(op.kind, op.rule) for op in planned.operations]
    assert len(used) > 20
    assert planned.refusal is None


def test_what_a_norm_holds_needs_no_rule_of_activations():
    model, batch = MODELS["llama"]()
    norms = [op for op in plan(model, batch).operations if op.module.endswith("norm")]
    assert {op.kind for op in norms} == {kinds.RMS_NORM, kinds.LINEAR}
    rules = {kind: rule for kind, rule in ATTNLRP.rules.items() if kind != kinds.ACTIVATION}
    refusal = plan(model, batch, Composite("lacking", rules)).refusal
    contains(refusal, "no rule for 2 of", "layers.0.mlp.act_fn", "layers.1.mlp.act_fn")


LAYER = [
    ("linear", "epsilon", "linear", "attention.self.query"),
    ("linear", "epsilon", "linear", "attention.self.key"),
    ("linear", "epsilon", "linear", "attention.self.value"),
    ("scores", "constant", "scaled_dot_product_attention", "attention.self"),
    ("softmax", "constant", "scaled_dot_product_attention", "attention.self"),
    ("readout", "value-only", "scaled_dot_product_attention", "attention.self"),
    ("linear", "epsilon", "linear", "attention.output.dense"),
    ("add", "epsilon", "add", "attention.output"),
    ("layer_norm", "held-deviation", "layer_norm", "attention.output.LayerNorm"),
    ("linear", "epsilon", "linear", "intermediate.dense"),
    ("activation", "identity", "gelu", "intermediate.intermediate_act_fn"),
    ("linear", "epsilon", "linear", "output.dense"),
    ("add", "epsilon", "add", "output"),
    ("layer_norm", "held-deviation", "layer_norm", "output.LayerNorm"),
]


def test_every_operation_of_a_layer_of_bert_is_listed_with_its_place():
    found = plan(*cases.family("bert"), "cp-lrp").operations
    for layer in (0, 1):
        path = f"bert.encoder.layer.{layer}."
        within = [op for op in found if op.layer == layer]
        got = [(op.kind, op.rule, op.function, op.module) for op in within]
        assert got == [(*row, path + module) for *row, module in LAYER]
    assert {op.line.split(":")[0] for op in found} == {
        "modeling_bert.py", "sdpa_attention.py", "activations.py"
    }  # fmt: skip


def paragraphs(text):
    """Title -> lines."""
    return {p.splitlines()[0]: p.splitlines()[1:] for p in text.split("\n\n")[1:]}


def test_equal_layers_are_one_paragraph_and_an_override_is_one_of_its_own():
    model, batch = cases.family("bert", num_hidden_layers=4)
    shown = paragraphs(str(plan(model, batch)))
    assert list(shown)[1:2] == ["layers 0 to 3 of bert.encoder.layer"]
    assert [line.split()[0] for line in shown[list(shown)[1]]] == [kind for kind, *_ in LAYER]
    mixed = replace(ATTNLRP, layers={1: {kinds.LAYER_NORM: kinds.IDENTITY}})
    titles = list(paragraphs(str(plan(model, batch, mixed))))
    assert "layers 0, 2 to 3 of bert.encoder.layer" in titles
    assert "layer 1 of bert.encoder.layer" in titles
    found = [op for op in plan(model, batch, mixed).operations if op.kind == kinds.LAYER_NORM]
    assert {op.layer for op in found if op.rule == kinds.IDENTITY} == {1}


def test_an_activation_function_takes_the_rule_of_its_own_module():
    model, batch = cases.family("bert")
    path = "bert.encoder.layer.1.intermediate.intermediate_act_fn"
    own = replace(ATTNLRP, modules={path: {kinds.ACTIVATION: kinds.GRADIENT}})
    found = {op.module: op.rule for op in plan(model, batch, own).operations if "act" in op.kind}
    assert found.pop(path) == kinds.GRADIENT
    assert set(found.values()) == {kinds.IDENTITY}
    assert not torch.equal(
        attribute(model, batch, own).relevance, attribute(model, batch).relevance
    )


def test_experts_that_see_several_texts_are_counted():
    text = str(plan(*with_inputs("mixtral", CAUSAL)))
    assert "layers 0 to 1 of model.layers" in text
    assert [line for line in text.splitlines() if "mlp.experts.act_fn" in line and " x " in line]


def test_a_composite_without_a_kind_shows_where_a_rule_is_missing():
    lacking = {kind: rule for kind, rule in ATTNLRP.rules.items() if kind != kinds.LAYER_NORM}
    model, batch = cases.family("bert")
    found = plan(model, batch, Composite("lacking", lacking))
    without = [op.module for op in found.operations if op.rule is None]
    assert without == [p for p, m in model.named_modules() if isinstance(m, torch.nn.LayerNorm)]
    contains(found.refusal, "Add an entry for: layer_norm", *without)
    assert str(found).splitlines()[0].endswith("operations, 5 without a rule")
    assert str(found).count("layer_norm  no rule") == 3  # one of them stands for two layers


class Odd(torch.nn.Module):
    """A function that is in no table."""

    def forward(self, x):
        return torch.cumprod(x, dim=-1)


def with_odd_layer(model, layer):
    model.bert.encoder.layer[layer].intermediate.intermediate_act_fn = Odd().eval()
    return model


def test_a_function_without_a_rule_is_listed_in_its_place():
    model, batch = cases.family("bert")
    found = plan(with_odd_layer(model, 1), batch)
    (odd,) = (op for op in found.operations if op.rule is None)
    assert (odd.kind, odd.function, odd.layer) == (UNKNOWN, "cumprod", 1)
    assert odd.line.startswith("test_plan.py:")
    place = found.operations.index(odd)
    assert found.operations[place - 1].module.endswith("layer.1.intermediate.dense")
    contains(found.refusal, "cumprod", odd.module, odd.line)


def test_a_plan_of_what_is_not_there_is_refused():
    model, batch = cases.family("bert")
    for given, says in (
        ((batch, replace(ATTNLRP, layers={7: {}})), "overrides layer 7, which the model does not"),
        ((batch, "loo"), "method 'loo' has no rules"),
        (({},), "inputs has no input_ids"),
    ):
        with pytest.raises(ValueError, match=says):
            plan(model, *given)


def test_the_command_prints_layers_and_all_operations_as_data(run):
    code, out, err = run("plan", "embedded", "--method", "cp-lrp", "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    assert facts["method"] == "cp-lrp"
    assert sum(op["layer"] == 11 for op in facts["operations"]) == len(LAYER)
    out = run("plan", "embedded", "--method", "cp-lrp", "--full")[1]
    assert "layers 0 to 11 of bert.encoder.layer" in out
    assert len(out.splitlines()) < 40
    assert run("plan", "embedded", "a film", "--method", "cp-lrp", "--full")[1] == out
    assert "    12  softmax         constant" in run("plan", "embedded", "--method", "cp-lrp")[1]


def test_the_command_says_what_has_no_rule_and_fails(run, monkeypatch):
    from benchmarks.sources import models

    loaded = models.load()
    with_odd_layer(loaded.model, 0)
    monkeypatch.setattr(models, "load", lambda *_, **_options: loaded)
    code, out, err = run("plan", "embedded", "--full")
    assert code == 2
    assert "unknown     no rule" in out
    contains(err, "error: BertForSequenceClassification calls functions that have no", "cumprod")
