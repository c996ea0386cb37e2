"""Captum's wrapper returns the numbers of ``attribute``."""

import importlib
import importlib.util
import sys
import types

import pytest
import torch

from axioms.composites import GRADIENT_X_INPUT
from numeric import attribute
from numeric.targets import OWN, log_probability, logit, span
from tests.census.build import MIXED, with_inputs
from tests.support import cases
from tests.support.cases import close
from tests.support.tools import PROMPT, TEXT, bert, language_model, loaded


@pytest.fixture
def attr():
    """Captum itself; asked for before the adapter."""
    return loaded("captum.attr")


@pytest.fixture
def for_captum(monkeypatch):
    """The adapter, on bare classes of the same names where Captum is not installed."""
    if importlib.util.find_spec("captum") is None:

        class Bare:
            def __init__(self, forward_func, layer=None):
                self.forward_func, self.layer = forward_func, layer

        attr = types.ModuleType("captum.attr")
        attr.Attribution = type("Attribution", (Bare,), {})
        attr.LayerGradientXActivation = type("LayerGradientXActivation", (Bare,), {})
        attr.visualization = types.SimpleNamespace(VisualizationDataRecord=types.SimpleNamespace)
        for module in (types.ModuleType("captum"), attr):
            monkeypatch.setitem(sys.modules, module.__name__, module)
    else:
        loaded("captum.attr")
    sys.modules.pop("lrp_axioms.numeric.tools.captum", None)
    yield importlib.import_module("lrp_axioms.numeric.tools.captum")
    del sys.modules["lrp_axioms.numeric.tools.captum"]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", ["bert", "llama", "gpt2", "vit"])
def test_captum_gets_relevance_and_minus_the_residual(for_captum, name):
    model, inputs = cases.family(name)
    want = attribute(model, inputs, "cp-lrp", [1, 2])
    first, *others = inputs.values()
    others = (None, *others) if name == "gpt2" else tuple(others)  # past_key_values come second
    lrp = for_captum.LRP(model, "cp-lrp")
    asked = {"target": [1, 2], "additional_forward_args": others or None}
    (got,), delta = lrp.attribute((first,), return_convergence_delta=True, **asked)
    assert torch.equal(got, want.relevance)
    assert torch.equal(delta, -want.residual)
    assert torch.equal(lrp.attribute(first, **asked), got)
    close(lrp.compute_convergence_delta(got, first, **asked), delta)
    close(lrp.compute_convergence_delta(got + 1, first, **asked), delta + got.shape[1])
    assert lrp.has_convergence_delta()
    assert lrp.multiplies_by_inputs


@pytest.mark.parametrize(
    ("target", "want"),
    [
        ((2, 7), logit(7, at=2)),
        ([(2, 7), (1, 4)], logit([7, 4], at=[2, 1])),
        (torch.tensor([5]), 5),
        (logit(5) - logit(7), logit(5) - logit(7)),
        (None, None),
    ],
    ids=["pair", "pairs", "one in a tensor", "a contrast", "predicted"],
)
def test_targets_of_captum_are_targets(for_captum, target, want):
    model = language_model()
    ids = torch.tensor([[2, 7, 1, 5], [2, 4, 3, 6]])
    got = for_captum.LRP(model).attribute(ids, target)
    assert torch.equal(got, attribute(model, {"input_ids": ids}, target=want).relevance)


def test_a_tokenizer_finds_the_mask_as_for_attribute(for_captum, tokenizer):
    model, ids = bert("MaskedLM"), torch.tensor([[2, 7, tokenizer.mask_token_id, 3]])
    model.config.mask_token_id = None
    lrp = for_captum.LRP(model, tokenizer=tokenizer)
    got, delta = lrp.attribute(ids, return_convergence_delta=True)
    assert torch.equal(got, attribute(model, {"input_ids": ids}, tokenizer=tokenizer).relevance)
    close(lrp.compute_convergence_delta(got, ids), delta)


def test_what_captum_cannot_pass_on_is_refused(for_captum):
    model, inputs = cases.family("bert")
    ids = inputs["input_ids"]
    with pytest.raises(ValueError, match="unknown method 'lpr'; the methods are attnlrp"):
        for_captum.LRP(model, "lpr")
    with pytest.raises(TypeError, match="has no option 'steps'"):
        for_captum.LanguageModelLRP(language_model(), steps=3)
    with pytest.raises(ValueError, match="inputs has 2 tensors; pass the ids"):
        for_captum.LRP(model).attribute((ids, ids))
    mixed, given = with_inputs("llava", MIXED)
    of_image = given["pixel_values"], given["attention_mask"]
    with pytest.raises(ValueError, match="relevance of tokens and of patches"):
        for_captum.LRP(mixed).attribute(given["input_ids"], None, of_image)
    with pytest.raises(ValueError, match="target has 3 indices"):
        for_captum.LRP(model).attribute(ids, (1, 2, 3))
    with pytest.raises(ValueError, match="LlamaForCausalLM: pass a classifier of whole texts"):
        for_captum.records(language_model(), None, {"input_ids": ids}, None)


def test_records_of_captum_hold_what_was_found(for_captum, tokenizer):
    model = bert("SequenceClassification")
    inputs = tokenizer([PROMPT, TEXT], padding=True, return_tensors="pt")
    found = attribute(model, inputs, target=[2, 0])
    first, second = for_captum.records(model, tokenizer, inputs, found, true=["good", "bad"])
    assert first.raw_input_ids == ["[CLS]", *PROMPT.split(), "[SEP]"]
    assert (first.true_class, second.true_class) == ("good", "bad")
    assert (first.attr_class, second.attr_class) == ("LABEL_2", "LABEL_0")
    top = model(**inputs).logits.softmax(dim=1).max(dim=1)
    assert second.pred_prob == top.values[1].item()
    assert second.pred_class == f"LABEL_{top.indices[1]}"
    assert first.attr_score == found.relevance[0, :5].sum().item()
    assert first.convergence_score == -found.residual[0].item()
    words = first.word_attributions
    assert words.abs().max() == 1
    close(words * found.relevance[0].abs().max(), found.relevance[0, :5])


def test_captum_explains_every_token_of_an_answer(attr, for_captum, tokenizer):
    model = language_model()
    prompt = attr.TextTokenInput(PROMPT, tokenizer)
    answer = tokenizer("soup . a", add_special_tokens=False, return_tensors="pt")["input_ids"][0]
    ids = torch.cat([prompt.inp_tensor, answer[None]], dim=1)
    start = prompt.inp_tensor.shape[1]
    for of in (log_probability, logit):
        explain_answer = attr.LLMGradientAttribution(
            for_captum.LanguageModelLRP(model, "cp-lrp", of=of), tokenizer
        )
        found = explain_answer.attribute(prompt, target="soup . a")
        for n, row in enumerate(found.token_attr):
            token = of(OWN, at=start + n - 1)
            want = attribute(model, {"input_ids": ids}, "cp-lrp", token).relevance[0]
            close(row, want[:start])
            assert not want[start + n :].any()
        whole = attribute(model, {"input_ids": ids}, "cp-lrp", span(start, start + 3, each=of))
        close(found.seq_attr, whole.relevance[0, :start])


@pytest.mark.usefixtures("float64")
def test_captum_means_the_same_by_the_arguments_that_it_passes(attr, for_captum, tokenizer):
    """Its own method at the word embeddings, on a model that adds nothing to these."""
    model = language_model()
    prompt = attr.TextTokenInput(PROMPT, tokenizer, skip_tokens=["[CLS]"])
    plain = attr.LayerGradientXActivation(model, model.get_input_embeddings())
    ours = for_captum.LanguageModelLRP(model, GRADIENT_X_INPUT, share="word")
    want, got = (
        attr.LLMGradientAttribution(each, tokenizer).attribute(
            prompt, gen_args={"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
        )
        for each in (plain, ours)
    )
    assert got.output_tokens == want.output_tokens
    assert got.input_tokens == want.input_tokens
    close(got.token_attr, want.token_attr)


def test_captum_shows_the_records(attr, for_captum, tokenizer, capsys):
    loaded("IPython")
    model = bert("SequenceClassification")
    inputs = tokenizer([PROMPT], return_tensors="pt")
    found = attribute(model, inputs, target=1)
    records = for_captum.records(model, tokenizer, inputs, found)
    page = attr.visualization.visualize_text(records).data
    assert "LABEL_1" in page
    assert f"{found.relevance.sum().item():.2f}" in page
    assert " dull" in page
