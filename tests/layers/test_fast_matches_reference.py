"""Whole BERT classifiers: PyTorch and NumPy give the same, token by token, to 1e-9.

Both receive the parameters and the tokens, nothing else.  The fast implementation runs on padded
batches, the reference sees one text at a time without padding.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, Composite, bypass_softmax
from numeric import attribute
from numeric.fast import at_output, attention, norms, rules
from numeric.fast.entries import Entries
from numeric.reference import bert
from tests.support import cases

MIX = bypass_softmax(range(6, 12))
COMPOSITES = {composite.name: composite for composite in (ATTNLRP, CP_LRP, MIX)}


def composite(name, rules=(), **overrides):
    return Composite(name, ATTNLRP.rules | dict(rules), **overrides)


SELF = "bert.encoder.layer.1.attention.self"
WITHOUT_BIAS = {kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS}
TINY_COMPOSITES = [
    ATTNLRP,
    CP_LRP,
    bypass_softmax([0]),
    bypass_softmax([1]),
    composite("without bias", WITHOUT_BIAS),
    composite("LayerNorm identity", {kinds.LAYER_NORM: kinds.IDENTITY}),
    composite("both", WITHOUT_BIAS | {kinds.LAYER_NORM: kinds.IDENTITY}),
    composite("softmax constant, product halved", {kinds.SOFTMAX: kinds.CONSTANT}),
    composite("scores constant, product halved", {kinds.SCORES: kinds.CONSTANT}),
    composite("value-only alone", {kinds.READOUT: kinds.VALUE_ONLY}),
    composite("one layer without bias", layers={0: WITHOUT_BIAS}),
    composite("one module without bias", modules={f"{SELF}.value": WITHOUT_BIAS}),
    composite("one attention constant", modules={SELF: {kinds.SOFTMAX: kinds.CONSTANT}}),
]


def rows(batch):
    """Every example alone and unpadded, as keyword arguments of the reference."""
    for row, mask in enumerate(batch["attention_mask"]):
        n = int(mask.nonzero().max()) + 1
        arrays = {key: value[row, :n].numpy() for key, value in batch.items()}
        keep = arrays.pop("attention_mask").astype(bool)
        yield row, n, arrays | {"keep": keep}


def check(model, reference, batch, composite, *, eps=0.0, target=None):
    """Raises AssertionError unless all shares of all tokens agree; padding must have none."""
    options = {"target": target, "epsilon": eps}
    whole = attribute(model, batch, composite, **options)
    word = attribute(model, batch, composite, share="word", **options)
    for row, n, arguments in rows(batch):
        want = bert.relevance(reference, composite=composite, target=target, eps=eps, **arguments)
        assert whole.target[row] == want.target
        close(whole.logit[row], want.logit)
        close(whole.relevance[row, :n], want.tokens * arguments["keep"])
        close(word.relevance[row, :n], want.word * arguments["keep"])
        assert not whole.relevance[row, n:].any()
        assert not word.relevance[row, n:].any()
        assert np.abs(want.tokens[arguments["keep"]]).min() > 0


def close(got, want):
    """Relative to each value; rounding is allowed for in units of the largest."""
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-12 * np.abs(want).max())


@pytest.fixture(scope="module")
def reference():
    return bert.load(cases.EMBEDDED)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("sentences", [cases.SENTENCES[:1], cases.SENTENCES], ids=["one", "padded"])
@pytest.mark.parametrize("name", COMPOSITES)
def test_the_embedded_model_in_the_limit(embedded, reference, name, sentences, attention):
    check(embedded[attention], reference, cases.encode(sentences), COMPOSITES[name])


@pytest.mark.parametrize(("name", "eps"), list(zip(COMPOSITES, [1e-6, 1e-2, 0.25], strict=True)))
def test_the_embedded_model_at_finite_epsilon(embedded, reference, name, eps):
    check(embedded["sdpa"], reference, cases.encode(cases.SENTENCES), COMPOSITES[name], eps=eps)


def test_the_class_that_was_not_predicted(embedded, reference):
    predicted = attribute(embedded["sdpa"], cases.encode(cases.SENTENCES[:1])).target.item()
    batch = cases.encode(cases.SENTENCES[:1])
    check(embedded["sdpa"], reference, batch, ATTNLRP, target=1 - predicted)


def tiny_check(composite, *, eps, batch=None, **options):
    model = cases.tiny_bert(**options)
    batch = batch or cases.tiny_batch()
    check(model, cases.reference_of(model), batch, composite, eps=eps)


@pytest.mark.parametrize("eps", [0.0, 1e-2])
@pytest.mark.parametrize("composite", TINY_COMPOSITES, ids=lambda c: c.name)
def test_every_variant_of_the_rules(composite, eps):
    tiny_check(composite, eps=eps)


@pytest.mark.parametrize("eps", [0.0, 0.25])
@pytest.mark.parametrize("act", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh"])
def test_every_activation(act, eps):
    tiny_check(ATTNLRP, eps=eps, hidden_act=act)


@pytest.mark.parametrize("eps", [0.0, 0.25])
def test_a_mask_with_a_hole(eps):
    batch = cases.tiny_batch()
    batch["attention_mask"][0, 2] = 0
    tiny_check(ATTNLRP, eps=eps, batch=batch)


@pytest.mark.parametrize("eps", [0.0, 0.25])
def test_feed_forward_in_chunks(eps):
    tiny_check(ATTNLRP, eps=eps, chunk_size_feed_forward=3)


def without_one(model, batch):
    """(row, relevance by leave-one-out) of every text, from the reference."""
    reference = cases.reference_of(model)
    for row, n, arguments in rows(batch):
        yield row, n, bert.leave_one_out(reference, **arguments)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_leave_one_out(attention):
    model, batch = cases.tiny_bert(attn_implementation=attention), cases.tiny_batch()
    got = attribute(model, batch, "loo").relevance
    for row, n, want in without_one(model, batch):
        close(got[row, :n], want)
        assert not got[row, n:].any()
        assert np.abs(want).min() > 1e-4  # a mask that is dropped on the way gives exactly 0


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_leave_one_out_of_the_embedded_model(embedded, reference, attention):
    batch = cases.encode(cases.SENTENCES[1:])
    got = attribute(embedded[attention], batch, "loo").relevance
    for row, n, arguments in rows(batch):
        want = bert.leave_one_out(reference, **arguments)
        np.testing.assert_allclose(got[row, :n].numpy(), want, rtol=1e-9, atol=1e-11)
        assert np.abs(want).min() > 1e-4


# Each of these breaks one rule of the fast implementation, and the check above must see it.


def half_instead_of_quarter(monkeypatch):
    monkeypatch.setitem(attention.TO_SCORES, kinds.BILINEAR_EPSILON, 0.5**0.5)


def values_not_halved(monkeypatch):
    right = attention.shares
    monkeypatch.setattr(attention, "shares", lambda *rules: (*right(*rules)[:2], 1))


def stabiliser_without_sign(monkeypatch):
    monkeypatch.setattr(rules, "stabilize", lambda z, eps: z + eps)


def stabiliser_in_single_precision(monkeypatch):
    right = rules.stabilize
    monkeypatch.setattr(rules, "stabilize", lambda z, eps: right(z, float(np.float32(eps))))


def softmax_passes_nothing(monkeypatch):
    monkeypatch.setitem(attention.TO_SCORES, kinds.TAYLOR, 0.0)
    monkeypatch.setitem(at_output.AT_OUTPUT, (kinds.SOFTMAX, kinds.TAYLOR), at_output._cut)


def plain_rule(kind):
    def mistake(monkeypatch):
        place, plain = (kind, ATTNLRP.rules[kind]), (kind, kinds.GRADIENT)
        table = next(x for x in (at_output.AT_OUTPUT, norms.RULES) if place in x)
        monkeypatch.setitem(table, place, table[plain])

    return mistake


def plain_activation(monkeypatch):
    monkeypatch.setattr(rules, "slope", lambda x, y, slope_at_zero: torch.nn.functional.gelu(x))


def embeddings_read_elsewhere(monkeypatch):
    right = Entries.rise

    def rise(self, *arguments):
        out = right(self, *arguments)
        if not self.rising and isinstance(out, torch.Tensor) and out.requires_grad:
            self.all[0].embedding = out  # what the LayerNorm gives
        return out

    monkeypatch.setattr(Entries, "rise", rise)


LIMIT = {
    "1/4 is 1/2": half_instead_of_quarter,
    "values not halved": values_not_halved,
    "softmax passes nothing": softmax_passes_nothing,
    "plain LayerNorm": plain_rule(kinds.LAYER_NORM),
    "plain activation": plain_activation,
    "relevance after the LayerNorm": embeddings_read_elsewhere,
}
FINITE = {
    "stabiliser without sign": stabiliser_without_sign,
    "epsilon in float32": stabiliser_in_single_precision,
    "linear not stabilised": plain_rule(kinds.LINEAR),
    "sums not stabilised": plain_rule(kinds.ADD),
    "softmax passes nothing": softmax_passes_nothing,
}


@pytest.mark.parametrize("mistake", LIMIT)
def test_a_wrong_factor_is_rejected(mistake, monkeypatch):
    LIMIT[mistake](monkeypatch)
    with pytest.raises(AssertionError):
        tiny_check(ATTNLRP, eps=0.0)


@pytest.mark.parametrize("mistake", FINITE)
def test_a_wrong_stabiliser_is_rejected(mistake, monkeypatch):
    FINITE[mistake](monkeypatch)
    with pytest.raises(AssertionError):
        tiny_check(ATTNLRP, eps=0.01)


def test_another_composite_is_rejected(tiny, batch):
    wrong = replace(ATTNLRP, rules=CP_LRP.rules)
    got = attribute(tiny, batch, wrong).relevance[0].numpy()
    _, n, arguments = next(rows(batch))
    want = bert.relevance(cases.reference_of(tiny), composite=ATTNLRP, **arguments)
    with pytest.raises(AssertionError):
        close(torch.tensor(got[:n]), want.tokens)
