"""The auditor's graph is the model, its ledger adds up, and its oracle is independent."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
import transformers

from axioms import kinds
from axioms.audit import PROVED, REFUTED
from axioms.composites import ATTNLRP, CP_LRP, bypass_softmax
from numeric import attribute, audit
from numeric.auditing import ledger
from numeric.auditing.capture import capture
from numeric.models.inputs import prepare
from numeric.reference import dispatch
from tests.support import cases
from tests.support.audits import audit_of, eager, with_graph
from tests.support.traces import assert_same, snapshot

COMPOSITES = {"attnlrp": ATTNLRP, "cp-lrp": CP_LRP}
SINGLE = {"llama", "mistral", "qwen2", "qwen3", "vit"}  # their eager code passes through float32


@cache
def captured(name):
    """A family, its example and its graph, once for all tests, which leave them as they are."""
    return with_graph(*eager(name))


@cache
def audited(name, composite="attnlrp", epsilon=0.0):
    """An audit by the name of its composite, once for all tests."""
    return audit_of(captured(name), COMPOSITES[composite], epsilon)


@pytest.mark.parametrize("name", cases.FAMILIES)
def test_the_captured_graph_computes_the_logits_of_the_model(name):
    model, inputs, _ = captured(name)
    found = audited(name)
    tolerance = 1e-5 if name in SINGLE else 1e-12
    assert abs(found.logit - model(**inputs).logits[0, 1].item()) <= tolerance
    assert found.forward_error <= tolerance


@pytest.mark.parametrize("composite", COMPOSITES)
@pytest.mark.parametrize("name", cases.FAMILIES)
def test_the_fast_path_is_the_numpy_rules_on_the_captured_graph(name, composite):
    fast, _ = cases.family(name)  # sdpa, whose kernels keep float64
    _, inputs, _ = captured(name)
    a = attribute(fast, inputs, COMPOSITES[composite], target=1)
    found = audited(name, composite)
    np.testing.assert_allclose(a.relevance[0].numpy(), found.relevance, rtol=1e-8, atol=1e-8)
    assert abs(found.relevance).max() > 1e-3


def second_example(name):
    _, inputs = cases.family(name)
    rows = {key: x[1:] for key, x in inputs.items()}
    length = int(rows["attention_mask"].sum())
    return rows, {key: x[:, :length] for key, x in rows.items()}


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2", "qwen3"])
def test_padding_changes_nothing_that_the_oracle_finds(name):
    model, _ = eager(name)
    padded, cut = second_example(name)
    tokens = cut["input_ids"].shape[1]
    a, b = audit(model, padded, target=1), audit(model, cut, target=1)
    np.testing.assert_allclose(a.relevance[:tokens], b.relevance, atol=1e-5)
    np.testing.assert_allclose(a.relevance[tokens:], 0, atol=1e-10)


@pytest.mark.parametrize("name", cases.FAMILIES)
def test_at_a_finite_epsilon_both_texts_put_the_stabiliser_at_the_same_places(name):
    model, inputs, _ = captured(name)
    a = attribute(model, inputs, ATTNLRP, target=1, epsilon=0.25)
    found = audited(name, epsilon=0.25)
    np.testing.assert_allclose(a.relevance[0].numpy(), found.relevance, rtol=1e-8, atol=1e-8)


def test_a_mix_of_layers_is_audited_as_such():
    model, inputs, _ = captured("bert")
    mix = bypass_softmax([1])
    a = attribute(model, inputs, mix, target=1)
    found = audit_of(captured("bert"), mix)
    np.testing.assert_allclose(a.relevance[0].numpy(), found.relevance, rtol=1e-8, atol=1e-10)
    absorbed = {layer: row.get("Taylor term", 0) for layer, row in found.by_layer().items()}
    assert absorbed[0] != 0
    assert absorbed[1] == 0


WRONG = {
    "half of a product": ("messages", (kinds.READOUT, kinds.BILINEAR_EPSILON)),
    "a sum": ("messages", (kinds.ADD, kinds.EPSILON)),
    "the root mean square": ("on_map", (kinds.RMS_NORM, kinds.HELD_DEVIATION)),
    "the gate": ("messages", (kinds.PRODUCT, kinds.EQUAL_SPLIT)),
    "the softmax": ("messages", (kinds.SOFTMAX, kinds.TAYLOR)),
}


@pytest.mark.parametrize(("text", "key"), WRONG.values(), ids=WRONG)
def test_a_wrong_rule_in_the_oracle_is_noticed(text, key, monkeypatch):
    record = dispatch.RULES[key]
    right = getattr(record, text)

    def wrong(*arguments, eps):
        found = right(*arguments, eps=eps)
        several = isinstance(found, (tuple, list))
        return [1.01 * x for x in found] if several else 1.01 * found

    want = audited("llama")
    monkeypatch.setitem(dispatch.RULES, key, replace(record, **{text: wrong}))
    found = audit_of(captured("llama"))
    assert abs(found.relevance - want.relevance).max() > 1e-4
    assert abs(sum(line.numerical for line in found.ledger.lines)) > 1e-4  # the lemmas are apart


@pytest.mark.parametrize("eps", [0.0, 0.25])
@pytest.mark.parametrize("name", cases.FAMILIES)
def test_the_causes_add_up_to_the_whole_residual(name, eps):
    for composite in COMPOSITES:
        found = audited(name, composite, eps)
        causes = found.by_cause()
        assert abs(sum(causes.values()) - found.residual) <= 1e-9
        assert abs(causes[ledger.NUMERICAL]) <= 1e-9
        assert max(abs(line.numerical) for line in found.ledger.lines) <= 1e-9
        for table in (found.by_layer(), found.by_kind()):
            absorbed = sum(x for row in table.values() for x in row.values())
            embeddings = sum(x for key, x in causes.items() if key.endswith("embedding"))
            assert abs(absorbed + embeddings - found.residual) <= 1e-9


def test_without_biases_cp_lrp_hands_everything_on():
    model, inputs = cases.without_biases("llama", attn_implementation="eager")
    unbiased = with_graph(model, cases.first(inputs))
    found = audit_of(unbiased, CP_LRP)
    assert abs(found.residual) < 1e-12
    assert found.verdicts[0].verdict != REFUTED
    assert audit_of(unbiased, ATTNLRP).verdicts[0].verdict == REFUTED


def test_what_absorbs_is_named_with_its_place():
    model = captured("bert")[0]
    found = audited("bert")
    worst = found.worst(3)
    sizes = [sum(map(abs, line.absorbed.values())) for line in found.ledger.lines]
    assert [sum(map(abs, line.absorbed.values())) for line in worst] == sorted(sizes)[:-4:-1]
    for line in worst:
        assert line.node.origin.line.startswith("modeling_bert.py:")
        assert model.get_submodule(line.node.origin.module) is not None


def test_leaves_of_the_embedding_are_told_apart():
    found = {leaf.name: leaf.attributes["role"] for leaf in audited("bert").ledger.leaves}
    assert found == {
        "bert.embeddings.word_embeddings": "word",
        "bert.embeddings.position_embeddings": "position",
        "bert.embeddings.token_type_embeddings": "token type",
    }


def test_experts_that_run_together_are_audited():
    config = transformers.MixtralConfig(
        vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, num_local_experts=4, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.MixtralForSequenceClassification(config).eval()
    assert model.config._experts_implementation == "grouped_mm"  # which has no float64
    inputs = {"input_ids": torch.tensor([[3, 4, 5, 6, 7]])}
    found, a = audit(model, inputs), attribute(model, inputs)
    np.testing.assert_allclose(found.relevance, a.relevance[0], rtol=1e-4, atol=1e-6)
    assert abs(sum(found.by_cause().values()) - found.residual) <= 1e-9


def test_bilinear_depth_counts_the_products_of_every_path():
    """Per layer, relevance skips attention, or takes V (one product), or Q or K (two).

    The classifier reads one row, so the last layer's Q is that row's alone; entries are not
    paths, operations are.
    """
    depths = audited("bert").structure.depths
    assert depths["bert.embeddings.word_embeddings"] == {0: 4, 1: 8, 2: 20, 3: 16, 4: 16}
    gated = audited("llama").structure.depths["model.embed_tokens"]
    assert max(gated) == 2 * 3  # scores, readout, gate
    assert min(gated) == 0


def test_the_pairs_of_products_that_can_be_re_associated_are_counted():
    found = audited("bert").structure
    assert found.pairs == {
        ("linear", "scores"): 4,
        ("linear", "readout"): 2,
        ("readout", "linear"): 2,
    }
    assert found.merges["sums of sums"] == 1  # word + type + position


def verdict_of(found, name):
    return next(v for v in found.verdicts if v.statement == f"invariant under: {name}")


def test_invariance_is_decided_where_a_rewrite_applies():
    found = audited("llama")
    assert verdict_of(found, "commute products").verdict == PROVED
    assert verdict_of(found, "decompose softmax").verdict == REFUTED
    assert verdict_of(found, "decompose softmax").witness
    assert len(verdict_of(found, "decompose softmax").nodes) == 2
    assert not [v for v in found.verdicts if "LayerNorm" in v.statement]  # it has none
    bert = audited("bert", epsilon=0.25)
    assert verdict_of(bert, "re-associate sums").verdict == REFUTED
    assert verdict_of(audited("bert"), "re-associate sums").verdict == PROVED


@pytest.mark.parametrize("name", ["bert", "albert", "gpt2", "llama", "vit"])
def test_the_model_is_left_as_it_was(name):
    model, inputs = eager(name)
    before = snapshot(model)
    config = model.config.to_dict()
    capture(model, prepare(model, inputs))
    assert_same(before, snapshot(model))
    assert model.config.to_dict() == config


def test_the_target_is_the_predicted_class_unless_given():
    model, inputs = eager("bert")
    logits = model(**inputs).logits[0]
    assert audit(model, inputs).target == int(logits.argmax())
    assert audit(model, inputs, target=2).logit == pytest.approx(logits[2].item(), abs=1e-12)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_a_model_with_fused_attention_is_audited_as_one_that_spells_it_out(name):
    model, one = cases.one_text(name)
    assert model.config._attn_implementation == "sdpa"
    fused = audit(model, one)
    assert model.config._attn_implementation == "sdpa"
    spelled_out, _ = cases.family(name, attn_implementation="eager")
    tolerance = 1e-5 if name in SINGLE else 1e-12
    np.testing.assert_allclose(fused.relevance, audit(spelled_out, one).relevance, atol=tolerance)


def test_a_shared_layer_has_a_line_for_every_use():
    found = audited("albert")
    queries = [x for x in found.ledger.lines if x.node.origin.module.endswith("attention.query")]
    assert [line.node.attributes["depth"] for line in queries] == [1, 0]
    note = "albert_layers.0.attention.query.weight is used 2 times: each use has a line of its own"
    assert [text for text in found.notes if text.endswith(note)]
    assert audited("bert").notes == ()


def test_a_shared_layer_has_one_rule_at_all_depths():
    model, one = cases.one_text("albert")
    mix = bypass_softmax([0])
    found = attribute(model, one, mix)
    np.testing.assert_allclose(audit(model, one, mix).relevance, found.relevance[0], atol=1e-10)
    with pytest.raises(ValueError, match="its layers are 0 to 0"):
        audit(model, one, bypass_softmax([1]))


def test_tied_parameters_are_told():
    model, inputs = eager("bert")
    layers = model.bert.encoder.layer
    layers[1].output.dense.weight = layers[0].output.dense.weight
    found = audit(model, inputs, target=1)
    assert len(found.notes) == 2
    assert "layer.0.output.dense.weight and bert.encoder.layer.1.output" in found.notes[0]
    assert abs(sum(found.by_cause().values()) - found.residual) <= 1e-9


def test_an_audit_in_inference_mode_is_that_outside_of_it():
    model, inputs = eager("bert")
    with torch.inference_mode():
        found = audit(model, inputs, target=1)
    np.testing.assert_allclose(found.relevance, audited("bert").relevance, rtol=0, atol=1e-12)
