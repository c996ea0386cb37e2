"""Integrated Gradients and perturbation curves against plain loops: right answers, then time.

BERT-base size with random weights.  ``make bench`` measures; the ordinary test run compares the
answers on a small model, without timing.
"""

import time

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from lrp_axioms import attribute
from lrp_axioms.benchmarks.research.speed import test_speed
from lrp_axioms.benchmarks.research.speed.test_loo import text
from lrp_axioms.benchmarks.research.speed.usage import keeping, peak_memory
from lrp_axioms.benchmarks.running.timing import alternate, random_text
from lrp_axioms.numeric.evaluation.perturbation import perturbation_curves
from lrp_axioms.numeric.methods import memory_budget
from lrp_axioms.numeric.models.inputs import prepare

TEXTS = {
    "1 text of 32 tokens": [32],
    "8 texts of 32 tokens": [32] * 8,
    "8 texts of 4 to 32 tokens": [4, 8, 12, 16, 20, 24, 28, 32],
}
STEPS = 32
ROUNDS = {"1 text of 32 tokens": 5, "8 texts of 32 tokens": 2, "8 texts of 4 to 32 tokens": 2}
GROUP = "Integrated Gradients and curves"
SMALL = dict(hidden_size=96, intermediate_size=384, num_attention_heads=4, num_hidden_layers=2)
TOLERANCE = 1e-4  # of the largest value, in float32
# Random weights give some texts a logit near 0, beside which their relevance is large.
pytestmark = pytest.mark.filterwarnings(
    "ignore::lrp_axioms.numeric.methods.amplification.AmplifiedRelevance"
)


@pytest.fixture(scope="module")
def bert(timed):
    model = test_speed.bert("float32", **({} if timed else SMALL))
    return model.cpu().requires_grad_(requires_grad=False)


# Integrated Gradients


def by_node(model, inputs, *, steps):
    """Integrates node by node over the whole batch, parameters frozen."""
    mask = inputs["attention_mask"]
    words = model.get_input_embeddings()(inputs["input_ids"]).detach()
    with torch.no_grad():
        target = model(**inputs).logits.argmax(dim=1, keepdim=True)
    total = torch.zeros_like(words)
    for node, weight in zip(*np.polynomial.legendre.leggauss(steps), strict=True):
        point = (words * float(node + 1) / 2).requires_grad_()
        logits = model(inputs_embeds=point, attention_mask=mask).logits
        (gradient,) = torch.autograd.grad(logits.gather(1, target).sum(), point)
        total += float(weight) / 2 * gradient
    return (words * total).sum(dim=-1) * mask


def by_text_and_node(model, inputs, *, steps):
    """Integrates node by node and text by text, without padding."""
    found = torch.zeros(inputs["input_ids"].shape)
    for row, tokens in enumerate(inputs["attention_mask"].sum(dim=1).tolist()):
        one = {key: x[row, None, :tokens] for key, x in inputs.items()}
        found[row, :tokens] = by_node(model, one, steps=steps)[0]
    return found


def integrated(model, inputs, *, steps):
    return attribute(model, inputs, "integrated-gradients", steps=steps).relevance


LOOPS = {"one node at a time": by_node, "one text and node at a time": by_text_and_node}
WORTH_TIMING = {
    "1 text of 32 tokens": ["one node at a time"],  # the other is the same
    "8 texts of 32 tokens": ["one node at a time"],  # the other takes 8 times as long as for 1 text
    "8 texts of 4 to 32 tokens": list(LOOPS),
}


@pytest.mark.parametrize("lengths", TEXTS.values(), ids=TEXTS)
def test_integrated_gradients_are_those_of_the_loops(bert, lengths):
    inputs = text([n // 4 for n in lengths])
    found = integrated(bert, inputs, steps=4)
    for loop in LOOPS.values():
        assert_close(found, loop(bert, inputs, steps=4))
    with pytest.raises(AssertionError):
        assert_close(found, by_node(bert, inputs, steps=1))


@pytest.mark.usefixtures("only_when_timed")
@pytest.mark.parametrize("case", TEXTS)
def test_integrated_gradients_are_ahead_of_the_loops(bert, case, ratios):
    inputs = text(TEXTS[case])
    loops = {name: LOOPS[name] for name in WORTH_TIMING[case]} | {"ours": integrated}
    run = {name: lambda f=f: f(bert, inputs, steps=STEPS) for name, f in loops.items()}
    note(ratios, "Integrated Gradients", case, timed_and_equal(run, case))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_what_a_copy_needs_is_what_it_takes_at_the_size_of_bert_base(attention, monkeypatch):
    model = BertForSequenceClassification(BertConfig(attn_implementation=attention)).eval()
    estimated, real = [], memory_budget.bytes_with_gradients

    def noted(*arguments, **options):
        estimated.append(real(*arguments, **options))
        return estimated[-1]

    monkeypatch.setattr(memory_budget, "bytes_with_gradients", noted)
    for tokens in (16, 128):
        inputs = random_text(model, batch=1, tokens=tokens)
        took = peak_memory(lambda x=inputs: integrated(model, x, steps=1))
        assert 0.9 < int(estimated[-1].max()) / took < 1.5


# Perturbation curves


@torch.inference_mode()
def one_copy_at_a_time(model, batch, maps, target):
    """Most relevant first, then least: the text as it is, with an ever smaller mask."""
    found = torch.full((len(maps), 2, *batch.attention_mask.shape), torch.nan)
    for n, relevance in enumerate(maps):
        for order, turn in enumerate((-1, 1)):
            for row, tokens in enumerate(batch.attention_mask.sum(dim=1).tolist()):
                ids = batch.input_ids[row, None, :tokens]
                mask = torch.ones_like(ids)
                ranked = (turn * relevance[row, :tokens]).argsort(stable=True)
                for step, token in enumerate(ranked.tolist()):
                    logits = model(input_ids=ids, attention_mask=mask).logits
                    found[n, order, row, step] = logits[0, target[row]]
                    mask[0, token] = 0
    return found


def together(model, batch, maps, target):
    curves = perturbation_curves(model, batch, maps, target)
    return torch.stack([torch.stack([c.logits for c in of_map]) for of_map in curves])


def curve_arguments(model, inputs):
    """Returns the arguments of curves: the batch, its maps by AttnLRP and CP-LRP, the class."""
    found = [attribute(model, inputs, name) for name in ("attnlrp", "cp-lrp")]
    return prepare(model, inputs), [a.relevance for a in found], found[0].target


@pytest.mark.parametrize("lengths", TEXTS.values(), ids=TEXTS)
def test_curves_are_those_of_one_copy_at_a_time(bert, lengths):
    given = curve_arguments(bert, text([n // 4 for n in lengths]))
    found, want = together(bert, *given), one_copy_at_a_time(bert, *given)
    assert_close(found, want)
    with pytest.raises(AssertionError):
        assert_close(found.flip(1), want)


@pytest.mark.usefixtures("only_when_timed")
@pytest.mark.parametrize("case", TEXTS)
def test_curves_are_ahead_of_one_copy_at_a_time(bert, case, ratios):
    batch, maps, target = curve_arguments(bert, text(TEXTS[case]))
    loops = {"one copy at a time": one_copy_at_a_time, "ours": together}
    run = {name: lambda f=f: f(bert, batch, maps[:1], target) for name, f in loops.items()}
    note(ratios, "curves", case, timed_and_equal(run, case))


def timed_and_equal(run, case):
    """Returns seconds of each in alternating rounds; a wrong answer has no speed."""
    run, answers = keeping(run)
    seconds = alternate(run, repeats=ROUNDS[case], clock=time.process_time)
    for name in run:
        assert_close(answers["ours"], answers[name])
    return seconds


def note(ratios, what, case, seconds):
    for name in [n for n in seconds if n != "ours"]:
        about = {"group": GROUP, "better": "higher"}
        ratios.over(f"{what}: {name} / ours, {case}", seconds[name], seconds["ours"], **about)


def assert_close(found, want):
    bound = TOLERANCE * want.nan_to_num().abs().max().item()
    torch.testing.assert_close(found, want, rtol=0, atol=bound, equal_nan=True)
