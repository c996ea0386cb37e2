"""Specifications of Figure 2: rules, removals, places of relevance, and a path of gradients."""

import pytest
import torch

from axioms import kinds
from benchmarks.experiments import text
from benchmarks.research import patched_gradients, specifications
from benchmarks.sources import data, models
from numeric import attribute

TEXTS = data.unlabelled("two", ["a warm , funny film", "it is dull"])


@pytest.fixture(scope="module")
def classifier():
    found = models.load("embedded")
    found.model.double()
    return found


def inputs_of(classifier):
    return dict(text.in_batch(classifier, TEXTS, [0, 1])[0])


def test_half_of_the_readout_is_lost_where_the_softmax_is_bypassed(classifier):
    rules = specifications.DECLARED["few"]["rules"]
    made = specifications.composites(rules, 12)
    assert len(made) == 4 * 9
    half = made[9 + 8]  # by Eq. 5, bilinear-epsilon, all layers
    read = lambda kind, layer: half.rule(kind, layer=layer)
    assert {read(kinds.READOUT, n) for n in range(12)} == {kinds.BILINEAR_EPSILON}
    assert {read(kinds.SOFTMAX, n) for n in range(12)} == {kinds.CONSTANT}


def test_a_zero_embedding_leaves_position_and_type(classifier):
    read = text.read(classifier, TEXTS)
    zeroed, free = specifications.with_zero(classifier, read)
    inputs = inputs_of(classifier)
    found = attribute(zeroed.model, inputs, "loo", removal=free)
    words = classifier.model.get_input_embeddings()(inputs["input_ids"]).detach()
    words[:, 2] = 0
    del inputs["input_ids"]
    with torch.no_grad():
        without = classifier.model(inputs_embeds=words, **inputs).logits
    want = found.logit - without[[0, 1], found.target]
    torch.testing.assert_close(found.relevance[:, 2], want, rtol=1e-9, atol=1e-9)


def test_relevance_behind_the_layer_norm_also_has_what_its_bias_absorbs(classifier):
    model, inputs = classifier.model, inputs_of(classifier)
    mixed = specifications.composites(specifications.DECLARED["few"]["rules"], 12)[:1]
    read = lambda share: specifications.relevance(model, inputs, mixed, None, share)[0]
    embeddings, place = model.bert.embeddings, "bert.embeddings.LayerNorm"
    (at_channels,) = attribute(model, inputs, mixed[0], at=place, channels=True).inside.values()
    output = embeddings(inputs["input_ids"], inputs["token_type_ids"])
    absorbed = (embeddings.LayerNorm.bias * at_channels / output).sum(dim=-1).detach().numpy()
    keep = inputs["attention_mask"].numpy() == 1
    gap = read("first layer") - read("embedding") - absorbed
    assert abs(absorbed[keep]).max() > 1e-3
    assert abs(gap[keep]).max() < 1e-9


def test_every_specification_of_a_family_has_r_of_every_mix_and_text(classifier):
    family = specifications.DECLARED["second"]
    family = family | {"rules": {key: one[-1:] for key, one in family["rules"].items()}}
    r = specifications.measured(classifier, TEXTS, family)
    assert len(r) == 3 * 2 * 2 * 2
    assert {each.shape for each in r.values()} == {(9, 2)}
    assert len({each.tobytes() for each in r.values()}) == len(r)


def test_plain_gradients_along_the_path_are_integrated_gradients(classifier):
    inputs = inputs_of(classifier)
    want = attribute(classifier.model, inputs, "integrated-gradients", steps=8)
    (found,) = patched_gradients.along_path(
        classifier.model, inputs, ["gradient-x-input"], want.target, steps=8
    )
    torch.testing.assert_close(torch.from_numpy(found), want.relevance, rtol=1e-9, atol=1e-9)
