"""The auditor's graph is the model, its ledger adds up, and its oracle is independent."""

from functools import cache
from unittest import mock

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from axioms import kinds
from axioms.audit import PROVED, REFUTED
from axioms.composites import (
    ATTNLRP,
    CP_LRP,
    GRADIENT_X_INPUT,
    Composite,
    UnassignedOperation,
    bypass_softmax,
)
from numeric import attribute, audit
from numeric.auditing import ledger
from numeric.auditing.capture import capture
from numeric.inputs import prepare
from numeric.reference import dispatch, mapped
from tests.support import cases
from tests.support.traces import assert_same, snapshot

COMPOSITES = {"attnlrp": ATTNLRP, "cp-lrp": CP_LRP}
SINGLE = {"llama", "mistral", "qwen2", "qwen3", "vit"}  # their eager code passes through float32


def eager(name):
    """A family as the auditor takes it, and its first example."""
    model, inputs = cases.family(name, attn_implementation="eager")
    return model, {key: x[:1] for key, x in inputs.items()}


def with_graph(model, inputs):
    return model, inputs, capture(model, prepare(model, inputs))


@cache
def captured(name):
    """A family, its example and its graph, once for all tests, which leave them as they are."""
    return with_graph(*eager(name))


def audit_of(captured, composite=ATTNLRP, epsilon=0.0):
    """The audit of class 1 of what was captured before: most of an audit is capturing."""
    model, inputs, graph = captured
    with mock.patch("numeric.auditing.audit.capture", return_value=graph):
        return audit(model, inputs, composite, target=1, epsilon=epsilon)


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
    "half of a product": (dispatch.RULES, (kinds.READOUT, kinds.BILINEAR_EPSILON)),
    "a sum": (dispatch.RULES, (kinds.ADD, kinds.EPSILON)),
    "the root mean square": (mapped.RULES, (kinds.RMS_NORM, kinds.HELD_DEVIATION)),
    "the gate": (dispatch.RULES, (kinds.PRODUCT, kinds.EQUAL_SPLIT)),
    "the softmax": (dispatch.RULES, (kinds.SOFTMAX, kinds.TAYLOR)),
}


@pytest.mark.parametrize(("rules", "key"), WRONG.values(), ids=WRONG)
def test_a_wrong_rule_in_the_oracle_is_noticed(rules, key, monkeypatch):
    right = rules[key]

    def wrong(*arguments, eps):
        found = right(*arguments, eps=eps)
        several = isinstance(found, (tuple, list))
        return [1.01 * x for x in found] if several else 1.01 * found

    want = audited("llama")
    monkeypatch.setitem(rules, key, wrong)
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
    model, inputs = eager("llama")
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if path.endswith("bias"):
                parameter.zero_()
    unbiased = with_graph(model, inputs)
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


def test_a_target_is_explained_and_an_impossible_one_refused():
    model, inputs = eager("bert")
    logits = model(**inputs).logits[0]
    assert audit(model, inputs).target == int(logits.argmax())
    assert audit(model, inputs, target=2).logit == pytest.approx(logits[2].item(), abs=1e-12)
    with pytest.raises(ValueError, match="classes 0 to 2"):
        audit(model, inputs, target=3)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_a_model_with_fused_attention_is_audited_as_one_that_spells_it_out(name):
    model, inputs = cases.family(name)
    one = {key: x[:1] for key, x in inputs.items()}
    assert model.config._attn_implementation == "sdpa"
    fused = audit(model, one)
    assert model.config._attn_implementation == "sdpa"
    spelled_out, _ = cases.family(name, attn_implementation="eager")
    tolerance = 1e-5 if name in SINGLE else 1e-12
    np.testing.assert_allclose(fused.relevance, audit(spelled_out, one).relevance, atol=tolerance)


class Fusing(nn.Module):
    """Code that calls the fused kernel itself, whatever the model is set to."""

    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(x, x, x)


class Learned(nn.Module):
    """Attention by a query that is a parameter: its scores are a linear map of the keys."""

    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.linspace(-1, 1, 24, dtype=torch.float64).expand(1, 6, 24))

    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(self.query, x, x)


class Strange(nn.Module):
    """Two functions that no rule covers, as an activation."""

    def forward(self, x):
        return torch.erfinv(x.tanh()) * torch.logcumsumexp(x, dim=-1)


class Late(nn.Module):
    """Code that reads a function of a tensor only after it wrote into that tensor."""

    def forward(self, x):
        y = x + x.flip(1)
        z = y.relu()
        y.zero_()
        return z + x


@pytest.mark.parametrize("explain", [attribute, audit])
def test_a_function_that_is_read_after_a_write_into_its_input_is_refused(explain):
    with pytest.raises(UnassignedOperation, match="relu, whose input is written to before"):
        explain(*with_activation(Late()))


class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def with_activation(module):
    model, inputs = eager("bert")
    for layer in model.bert.encoder.layer:
        layer.intermediate.intermediate_act_fn = module.eval()
    return model, inputs


def test_all_operations_without_a_rule_are_listed_at_once():
    with pytest.raises(UnassignedOperation, match="have no propagation rule") as caught:
        audit(*with_activation(Strange()))
    for text in ("erfinv", "logcumsumexp", "layer.0.intermediate", "test_audit.py:"):
        assert text in str(caught.value)


class Writing(nn.Module):
    """Code that writes into parts of tensors, and into what it has used before."""

    def forward(self, x):
        whole = torch.zeros_like(x)
        first = whole[..., :7]
        first.copy_(x[..., :7] * 2)
        whole[..., 7:] += x[..., 7:].relu()
        before = first + 1.0
        first.mul_(3.0)
        whole[:, 1].add_(before.mean())
        return whole + first.sum()


class Routed(nn.Module):
    """Products by what a softmax gave, on either side; by CP-LRP they are linear maps."""

    def forward(self, x):
        best, _ = x.softmax(dim=1).topk(3, dim=-1)
        mixed = torch.einsum("btk,bsk->bts", best, x[..., :3]).softmax(dim=-2) @ x
        turned = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (12, 2))) * (1 + 2j))
        return best[..., :1] * x + mixed + x.mT.softmax(dim=-1).mT.roll(1, 1) * turned.flatten(-2)


class Fixed(nn.Module):
    """Numbers beside what is moved, sums that look like moves, and attention to fixed values."""

    def forward(self, x):
        numbers = torch.where(x > 0.5, x, 0.5).masked_fill(x > 2, 1.5)
        padded = nn.functional.pad(x[..., :-1], (0, 1), value=1.0)
        first, third = torch.tensor([0, 0]), torch.tensor([2, 2])
        added = x.index_put((first, third), x[0, :2], accumulate=True)
        pieces = nn.functional.unfold(added[:, None], (3, 3), padding=1)
        folded = nn.functional.fold(pieces, added.shape[1:], (3, 3), padding=1)[:, 0]
        values = torch.linspace(-1, 1, 24 * 24, dtype=x.dtype).view(24, 24)
        hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)
        attended = (x @ x.mT).masked_fill(hidden, -torch.inf).softmax(dim=-1) @ x
        return numbers + padded + folded + torch.softmax(input=x, dim=-1) @ values + attended


class InPlace(nn.Module):
    """Operators that write into what they read, before and after others read it."""

    def forward(self, x):
        whole = x.clone()
        first, second = whole[..., :12], whole[..., 12:]
        first += second
        second *= first
        gated = nn.functional.glu(torch.cat([whole, x], dim=-1))
        gated **= 2
        curved = x.relu()
        curved /= x.new_full((24,), 3.0)
        shifted = gated + 1.0
        gated.mul_(2.0)
        return torch.add(input=shifted.relu(), other=torch.mul(input=curved, other=gated))


@pytest.mark.parametrize("module", [Fusing, Learned, Branching, Writing, Routed, Fixed, InPlace])
@pytest.mark.parametrize("epsilon", [0.0, 0.25])
@pytest.mark.parametrize("composite", COMPOSITES.values(), ids=COMPOSITES)
def test_code_of_a_users_own_is_audited_as_it_is(module, composite, epsilon):
    model, inputs = with_activation(module())
    found = audit(model, inputs, composite, target=1, epsilon=epsilon)
    assert found.forward_error < 1e-12
    a = attribute(model, inputs, composite, target=1, epsilon=epsilon)
    np.testing.assert_allclose(found.relevance, a.relevance[0].numpy(), rtol=1e-8, atol=1e-10)
    assert abs(sum(found.by_cause().values()) - found.residual) <= 1e-9
    assert max(abs(line.numerical) for line in found.ledger.lines) <= 1e-9


def halved(model):
    return model.half()


def quantised(model):
    model.is_quantized = True
    return model


REFUSED = {
    "half precision": (halved, "half precision"),
    "quantised": (quantised, "quantised weights"),
    "train mode": (lambda model: model.train(), "train mode"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_a_model_whose_numbers_would_mislead_is_refused(change, message):
    model, inputs = eager("bert")
    with pytest.raises(ValueError, match=message):
        audit(change(model), inputs)


def test_an_audit_in_inference_mode_is_that_outside_of_it():
    model, inputs = eager("bert")
    with torch.inference_mode():
        found = audit(model, inputs, target=1)
    np.testing.assert_allclose(found.relevance, audited("bert").relevance, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore")  # torch.ao is deprecated
def test_weights_in_few_bits_are_refused_by_name():
    model, inputs = eager("bert")
    packed = torch.ao.quantization.quantize_dynamic(model.float(), {nn.Linear}).eval()
    with pytest.raises(UnassignedOperation, match="linear_dynamic by weights in few bits"):
        audit(packed, inputs)


def test_two_texts_at_once_are_refused():
    model, inputs = cases.family("bert", attn_implementation="eager")
    with pytest.raises(ValueError, match="2 examples; audit one text at a time"):
        audit(model, inputs)


def test_a_composite_without_lemmas_is_refused():
    model, inputs = eager("bert")
    with pytest.raises(LookupError, match="by gradient"):
        audit(model, inputs, GRADIENT_X_INPUT)


def test_a_composite_that_lacks_rules_lists_all_operations():
    model, inputs = eager("bert")
    few = {k: rule for k, rule in ATTNLRP.rules.items() if k not in (kinds.ADD, kinds.SOFTMAX)}
    with pytest.raises(LookupError, match="no rule for 8 of") as caught:
        audit(model, inputs, Composite("few", few))
    assert "bert.encoder.layer.1.attention.self" in str(caught.value)


def test_a_shared_layer_has_a_line_for_every_use():
    found = audited("albert")
    queries = [x for x in found.ledger.lines if x.node.origin.module.endswith("attention.query")]
    assert [line.node.attributes["layer"] for line in queries] == [1, 0]
    note = "albert_layers.0.attention.query.weight is used 2 times: each use has a line of its own"
    assert [text for text in found.notes if text.endswith(note)]
    assert audited("bert").notes == ()


def test_tied_parameters_are_told():
    model, inputs = eager("bert")
    layers = model.bert.encoder.layer
    layers[1].output.dense.weight = layers[0].output.dense.weight
    found = audit(model, inputs, target=1)
    assert len(found.notes) == 2
    assert "layer.0.output.dense.weight and bert.encoder.layer.1.output" in found.notes[0]
    assert abs(sum(found.by_cause().values()) - found.residual) <= 1e-9
