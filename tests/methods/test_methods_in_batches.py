"""Integrated Gradients, many texts and nodes at a time, are the plain loop over both."""

import numpy as np
import pytest
import torch
import transformers
from transformers.modeling_outputs import SequenceClassifierOutput

from benchmarks.research.speed.usage import peak_memory
from numeric import attribute
from numeric.evaluation.perturbation import perturbation_curves
from numeric.methods.paths import Path
from numeric.models.inputs import prepare
from tests.support import cases
from tests.support.cases import DECODERS, ENCODERS, SINGLE, close
from tests.support.traces import assert_same, contains, refused, snapshot, watch

pytestmark = pytest.mark.filterwarnings("ignore:attention_mask hides the first column")
EXACT = 1e-12
METHOD = "integrated-gradients"
LENGTHS = (12, 2, 7, 7, 3, 10)


def texts(name, *, hole=False):
    return cases.six_texts(name, hole=hole, left=name in DECODERS)


def loop(model, inputs, target, *, steps, baseline, nodes=np.polynomial.legendre.leggauss):
    """One text and one node at a time, all of its columns, through the stock model."""
    embed = model.get_input_embeddings()
    lines = []
    for row, c in enumerate(target.tolist()):
        one = {key: x[row, None] for key, x in inputs.items() if key != "input_ids"}
        end = embed(inputs["input_ids"][row, None]).detach()
        start = embed.weight[model.config.pad_token_id].detach() * (baseline == "pad")
        total = torch.zeros_like(end)
        for node, weight in zip(*nodes(steps), strict=True):
            point = (start + (node + 1) / 2 * (end - start)).requires_grad_()
            logit = model(inputs_embeds=point, **one).logits[0, c]
            total += weight / 2 * torch.autograd.grad(logit, point)[0]
        lines.append(((end - start) * total).sum(-1)[0] * one["attention_mask"][0])
    return torch.stack(lines)


@pytest.mark.parametrize(
    ("baseline", "batch_size", "given"), [("zero", 128, None), ("pad", 5, [2, 1, 0, 2, 1, 0])]
)
@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS])
def test_texts_and_nodes_together_are_the_loop_over_both(name, baseline, batch_size, given):
    model, inputs = cases.family(name)[0], texts(name, hole=name in ENCODERS)
    options = {"steps": 3, "baseline": baseline}
    a = attribute(model, inputs, METHOD, given, batch_size=batch_size, **options)
    want = loop(model, inputs, a.target, **options)
    close(a.relevance, want, tolerance=cases.tolerance(name, EXACT))
    assert given is None or a.target.tolist() == given


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_token_types_and_a_causal_encoder_are_the_loop_too(batch, attention):
    for options in ({}, {"is_decoder": True}):
        model = cases.tiny_bert(attn_implementation=attention, **options)
        a = attribute(model, batch, METHOD, steps=3)
        close(a.relevance, loop(model, batch, a.target, steps=3, baseline="zero"), tolerance=EXACT)


def test_texts_far_from_completeness_get_twice_the_nodes_until_the_most(tiny, batch):
    by_nodes = [attribute(tiny, batch, METHOD, steps=steps) for steps in (1, 2, 4, 8)]
    gaps = torch.stack([a.details["completeness_gap"].abs() for a in by_nodes])
    for tolerance in (*gaps[0].tolist(), 0.0):
        a = attribute(tiny, batch, METHOD, steps=1, tolerance=tolerance * 0.999 + 1e-30)
        near = gaps <= tolerance * 0.999 + 1e-30
        for row, enough in enumerate(near.T.tolist()):
            last = enough.index(True) if any(enough) else 3
            want = by_nodes[last]
            close(a.relevance[row], want.relevance[row], tolerance=EXACT)
            assert a.details["completeness_gap"][row].abs() == pytest.approx(gaps[last, row].item())


class Mean(transformers.BertForSequenceClassification):
    """Reads every row, of padding too, although it has a pooler."""

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, inputs_embeds=None):
        out = self.bert(input_ids, attention_mask, token_type_ids, inputs_embeds=inputs_embeds)
        logits = self.classifier(out.last_hidden_state.mean(dim=1))
        return SequenceClassifierOutput(logits=logits)


def test_another_class_may_read_every_row(batch):
    model = cases.perturbed(Mean)
    a = attribute(model, batch, METHOD, steps=3)
    close(a.relevance, loop(model, batch, a.target, steps=3, baseline="zero"), tolerance=EXACT)


def test_a_window_of_attention_reaches_as_far_without_padding():
    model, whole = (cases.family("mistral", sliding_window=n)[0] for n in (3, 20))
    inputs = texts("mistral")
    a, other = (attribute(m, inputs, METHOD, steps=3) for m in (model, whole))
    close(a.relevance, loop(model, inputs, a.target, steps=3, baseline="zero"), tolerance=SINGLE)
    assert (a.relevance - other.relevance).abs().max() > 100 * SINGLE


def midpoints(steps):
    return (2 * np.arange(steps) + 1) / steps - 1, np.full(steps, 2 / steps)


def backwards(steps):
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    return nodes, np.roll(weights, 1)


OTHER_LOOPS = {
    "one node less": {"steps": 2},
    "the other baseline": {"baseline": "pad"},
    "other nodes": {"nodes": midpoints},
    "weights of other nodes": {"nodes": backwards},
}


@pytest.mark.parametrize("other", OTHER_LOOPS)
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_another_integral_is_rejected(name, other):
    model, _ = cases.family(name)
    a = attribute(model, texts(name), METHOD, steps=3)
    options = {"steps": 3, "baseline": "zero"} | OTHER_LOOPS[other]
    with pytest.raises(AssertionError):
        close(a.relevance, loop(model, texts(name), a.target, **options), tolerance=SINGLE)


WRONG = {
    "shifted": lambda x, rest, _: (x, rest | {"position_ids": rest["position_ids"] + 1}),
    "of another text": lambda x, rest, _: (x.roll(1, 0), rest),
    "unmasked": lambda x, rest, _: (x, rest | {"attention_mask": torch.ones(x.shape[:2]).long()}),
    "from the other end": lambda x, rest, _: (x.flip(1), {k: y.flip(1) for k, y in rest.items()}),
    "at one node": lambda x, rest, alpha: (x / alpha[:, None, None].clamp(min=0.1), rest),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", ["roberta", "gpt2"])
def test_wrong_copies_are_rejected(name, wrong, monkeypatch):
    model, real = cases.family(name)[0], Path.inputs
    changed = lambda self, text, alpha: WRONG[wrong](*real(self, text, alpha), alpha)
    monkeypatch.setattr(Path, "inputs", changed)
    if wrong != "at one node" and (name, wrong) != ("roberta", "unmasked"):
        contains(refused(ValueError, model, texts(name), METHOD), "cannot run on embeddings")
        return
    a = attribute(model, texts(name), METHOD, steps=3)
    want = loop(model, texts(name), a.target, steps=3, baseline="zero")
    if wrong == "unmasked":  # texts run without padding instead
        close(a.relevance, want)
    else:
        with pytest.raises(AssertionError):
            close(a.relevance, want, tolerance=SINGLE)


# Work and memory


@pytest.fixture
def shapes(monkeypatch):
    """The shapes (copy, token) that the model runs on its path; counting bytes runs no others."""
    found, real = [], Path.rows

    def noted(path, texts, words, rest):
        found.append(tuple(words.shape[:2]))
        return real(path, texts, words, rest)

    monkeypatch.setattr(Path, "rows", noted)
    return found


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2", "llama"])
def test_no_padding_is_computed_and_many_nodes_run_together(name, shapes):
    attribute(cases.family(name)[0], texts(name), METHOD, steps=4, batch_size=8)
    alone = [(1, 2), (1, 3), (2, 7), (1, 10), (1, 12)]  # the path's end, without padding
    assert shapes[:8] == [(6, 12), *alone, (6, 12), (1, 12)]
    run = shapes[8:]
    assert run == [(4, 12), (4, 10), (8, 7), (8, 3)]  # a text of 2 beside one of 3


@pytest.mark.parametrize("copies", [1, 2, 100])
def test_a_small_budget_runs_few_copies_and_gives_the_same(tiny, batch, copies, shapes):
    want = attribute(tiny, batch, METHOD, steps=4).relevance
    needed = smallest_budget(tiny, batch)
    shapes.clear()
    got = attribute(tiny, batch, METHOD, steps=4, memory=copies * needed).relevance
    close(got, want, tolerance=EXACT)
    run = shapes[5:]  # behind both ends of the path, and the counting of bytes
    assert run[0] == (min(copies, 4), 6)
    assert sum(n for n, tokens in run if tokens == 6) == 4
    assert max(n * tokens for n, tokens in run) <= copies * 6


def smallest_budget(model, inputs):
    """As the error says it."""
    message = refused(ValueError, model, inputs, METHOD, memory=100)
    contains(message, "memory=100", "one copy of the longest text needs about")
    return int(message.split("about ")[1].split()[0])


SIZES = dict(
    hidden_size=96, intermediate_size=384, num_attention_heads=4, max_position_embeddings=64
)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("copies", [1, 4, 16])
def test_what_a_copy_needs_is_what_it_takes(copies, attention):
    model = cases.tiny_bert(**SIZES, attn_implementation=attention).float()
    ids = torch.randint(1, 11, (1, 64), generator=torch.Generator().manual_seed(0))
    budget = copies * smallest_budget(model, {"input_ids": ids})
    run = lambda: attribute(model, {"input_ids": ids}, METHOD, steps=16, memory=budget)
    assert budget / 1.5 < peak_memory(run) < 1.1 * budget


def test_the_model_is_left_as_it_was_by_an_error_on_the_way(tiny, batch, monkeypatch):
    before = snapshot(tiny)
    monkeypatch.setattr(torch.autograd, "grad", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        attribute(tiny, batch, METHOD)
    assert_same(before, snapshot(tiny))


@pytest.mark.parametrize("name", ["bert", "roberta", "electra", "albert", "distilbert"])
def test_curves_compute_removed_tokens_only_beside_copies_of_like_length(name):
    model, inputs = cases.family(name)[0], texts(name)
    batch = prepare(model, inputs)
    seen = []
    relevance = torch.randn(6, 12, generator=torch.Generator().manual_seed(0))
    with watch(model.get_input_embeddings(), lambda out: seen.append(out.shape[:2].numel())):
        perturbation_curves(model, batch, [relevance], torch.zeros(6).long())
    whole, *run = seen
    assert whole == (6 + 1) * 12  # the batch, and a witness with every second token
    # Two orders share the whole text alone.
    kept = [k for n in LENGTHS for k in (*range(1, n), *range(1, n + 1))] + [max(LENGTHS) // 2]
    # A copy has k of n tokens, and the first runs even when removed; no copy is padded by more
    # than one token or a tenth.
    assert sum(kept) <= sum(run) <= sum(k + 1 + max(1, k // 9) for k in kept)
    assert len(run) <= max(LENGTHS)
