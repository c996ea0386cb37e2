"""Whole BERT classifiers: PyTorch and NumPy give the same, token by token, to 1e-9.

Both receive the parameters and the tokens, nothing else.  The fast implementation runs on padded
batches, the reference sees one text at a time without padding.
"""

import numpy as np
import pytest

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, Composite, bypass_softmax
from numeric import attribute
from tests.oracles import bert, bert_relevance
from tests.support import cases

MIX = bypass_softmax(range(6, 12))
COMPOSITES = {composite.name: composite for composite in (ATTNLRP, CP_LRP, MIX)}


def composite(name, rules=(), **overrides):
    return Composite(name, ATTNLRP.rules | dict(rules), **overrides)


EPSILONS = [1e-6, 1e-2, 0.25]
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


def check(models, reference, batch, composite, *, eps=0.0, target=None):
    """Raises AssertionError unless all shares of all tokens agree; padding must have none."""
    options = {"target": target, "epsilon": eps}
    wholes = [attribute(x, batch, composite, **options) for x in models]
    words = [attribute(x, batch, composite, share="word", **options) for x in models]
    for row, n, arguments in rows(batch):
        want = bert_relevance.relevance(
            reference, composite=composite, target=target, eps=eps, **arguments
        )
        for whole, word in zip(wholes, words, strict=True):
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


ONE, ALL = cases.SENTENCES[:1], cases.SENTENCES
EMBEDDED = [(name, x, 0.0) for name in COMPOSITES for x in (ONE, ALL)]
EMBEDDED += [(name, ALL, eps) for name, eps in zip(COMPOSITES, EPSILONS, strict=True)]


@pytest.mark.parametrize(("name", "sentences", "eps"), EMBEDDED)
def test_the_embedded_model(embedded, reference, name, sentences, eps):
    models, batch = embedded.values(), cases.encode(sentences)
    check(models, reference, batch, COMPOSITES[name], eps=eps, target=1 if eps else None)


def tiny_check(composite, *, eps, batch=None, **options):
    model = cases.tiny_bert(**options)
    batch = batch or cases.tiny_batch()
    check([model], cases.reference_of(model), batch, composite, eps=eps)


# The identity rule of LayerNorm has a pole, and may amplify relevance.
@pytest.mark.filterwarnings("ignore::numeric.methods.amplification.AmplifiedRelevance")
@pytest.mark.parametrize("eps", [0.0, 1e-2])
@pytest.mark.parametrize("composite", TINY_COMPOSITES, ids=lambda c: c.name)
def test_every_variant_of_the_rules(composite, eps):
    tiny_check(composite, eps=eps)


ACTIVATIONS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh"]
UNUSUAL = [*({"hidden_act": act} for act in ACTIVATIONS), {"chunk_size_feed_forward": 3}, {}]


@pytest.mark.parametrize("eps", [0.0, 0.25])
@pytest.mark.parametrize("options", UNUSUAL, ids=str)
def test_every_activation_chunks_and_a_mask_with_a_hole(options, eps):
    batch = cases.tiny_batch()
    if not options:
        batch["attention_mask"][0, 2] = 0
    tiny_check(ATTNLRP, eps=eps, batch=batch, **options)
