"""Relevance at outputs of modules: as others find it, conserved, and of no other effect."""

import re

import pytest
import torch
from torch import nn

from axioms.composites import ATTNLRP, CP_LRP
from axioms.graph import MOVE
from numeric import attribute, audit, propagation
from numeric.models.places import numbered_layers
from tests.census.build import CAUSAL, CLASSES, IMAGES, build, inputs
from tests.census.measure import conditions, without_shifts
from tests.layers.test_fast_matches_reference import rows
from tests.oracles import bert_relevance
from tests.support import cases
from tests.support.cases import close
from tests.support.traces import NOTHING, assert_same, contains, listed, refused, snapshot

LAYERS = "bert.encoder.layer.*"


def readable(model, inputs, *arguments):
    """Relevance at every module that has any."""
    known = [path for path, _ in model.named_modules()]
    with pytest.raises(ValueError, match="no relevance can be read at") as caught:
        attribute(model, inputs, *arguments, at=known)
    without = {line.split()[0] for line in str(caught.value).splitlines()}
    return attribute(model, inputs, *arguments, at=[path for path in known if path not in without])


@pytest.mark.parametrize("eps", [0.0, 0.25])
@pytest.mark.parametrize("composite", [ATTNLRP, CP_LRP], ids=lambda c: c.name)
def test_in_bert_it_is_that_of_the_numpy_text_channel_by_channel(tiny, batch, composite, eps):
    reference, options = cases.reference_of(tiny), {"composite": composite, "eps": eps}
    for row, n, arguments in rows(batch):
        want = bert_relevance.relevance(reference, target=1, **options, **arguments).outputs
        if composite is CP_LRP:  # gives them nothing
            want = {path: r for path, r in want.items() if not path.endswith(("query", "key"))}
        found = attribute(tiny, batch, composite, 1, epsilon=eps, at=want, channels=True).inside
        assert len(found) == len(want) == (22 if composite is ATTNLRP else 18)
        for path, r in found.items():
            close(r[row] if r.ndim == 2 else r[row, :n], torch.from_numpy(want[path]))
            assert want[path].any()


@pytest.mark.parametrize("composite", [ATTNLRP, CP_LRP], ids=lambda c: c.name)
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_in_decoders_it_is_that_of_the_numpy_rules_module_by_module(name, composite):
    """Reads every module behind the embeddings that ends in an operation of its own."""
    model, one = cases.one_text(name)
    received = audit(model, one, composite, target=1, epsilon=0.25).ledger.received
    last = {x.origin.module: r for x, r in received.items() if x.origin and x.op != MOVE}
    others = r".*\.(attn|self_attn|mlp)|transformer|.*\.(wte|wpe|embed_tokens)"
    want = {path: r for path, r in last.items() if not re.fullmatch(others, path) and r.any()}
    found = attribute(model, one, composite, 1, epsilon=0.25, at=want, channels=True).inside
    assert len(want) > 15
    for path, r in found.items():
        close(r, torch.from_numpy(want[path]).reshape(r.shape))


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", "gradient-x-input"])
@pytest.mark.parametrize("name", cases.FAMILIES)
def test_it_is_what_plain_autograd_finds_in_the_public_block(name, method):
    model, inputs = cases.family(name)
    first, *_ = numbered_layers(model)
    found, seen = attribute(model, inputs, method, 1, at=first, channels=True).inside, []
    hook = model.get_submodule(first).register_forward_hook(lambda _m, _x, y: seen.append(y))
    with propagation(model, method):
        logit = model(**inputs).logits[:, 1].sum()
        xs = [y if isinstance(y, torch.Tensor) else y[0] for y in seen]
        gradients = torch.autograd.grad(logit, xs)
    hook.remove()
    for r, x, c in zip(found.values(), xs, gradients, strict=True):
        assert torch.equal(r, (x * c).detach())


# Conservation, where CP-LRP meets no bias.


STREAMS = [
    ("bert", CLASSES), ("gpt2", CLASSES), ("llama", CLASSES), ("modernbert", CLASSES),
    ("albert", CLASSES), ("gemma3_text", CAUSAL), ("vit", IMAGES), ("pvt_v2", IMAGES),
    ("resnet", IMAGES),
]  # fmt: skip
"""All that the logit depends on passes every layer; in some within tuples, and tuples of these."""


@pytest.mark.parametrize(("name", "task"), STREAMS)
def test_every_layer_passes_the_whole_logit_on(name, task):
    with conditions():
        model = build(name, task)
        with without_shifts(model):
            found = attribute(model, inputs(model, task), CP_LRP, at=numbered_layers(model))
    assert len(found.inside) >= 2
    for r in found.inside.values():
        close(r.flatten(1).sum(dim=1), found.logit)
    assert found.logit.abs().min() > 1e-3


@pytest.mark.parametrize(
    ("name", "read"),
    {"t5": "transformer.decoder.embed_tokens", "bart": "model.decoder.layernorm_embedding"}.items(),
)
def test_what_an_encoder_and_the_text_of_its_decoder_receive_adds_up(name, read):
    with conditions():
        model = build(name, CLASSES)
        at = [*numbered_layers(model), read]
        with without_shifts(model):
            found = attribute(model, inputs(model, CLASSES), CP_LRP, at=at)
    passed = {path: r.sum(dim=1) for path, r in found.inside.items()}
    start, *encoder = [r for path, r in passed.items() if "encoder." in path.split("decoder")[0]]
    for r in encoder:
        close(r, start)
    close(list(passed.values())[-1], found.logit)
    close(start + passed[read], found.logit)
    assert start.abs().min() > 1e-3


# Looking changes nothing.


@pytest.mark.parametrize("name", cases.FAMILIES)
def test_the_explanation_is_the_same_to_the_last_bit(name):
    model, inputs = cases.family(name)
    want, before = attribute(model, inputs), snapshot(model)
    found = readable(model, inputs)
    assert_same(before, snapshot(model))
    assert len(found.inside) > 25
    for part in ("relevance", "logit", "residual"):
        assert torch.equal(getattr(found, part), getattr(want, part))


# Paths, and the answers to them.


def test_a_star_stands_for_one_name(tiny, batch):
    found = attribute(tiny, batch, at=LAYERS).inside
    assert list(found) == ["bert.encoder.layer.0", "bert.encoder.layer.1"]
    one = attribute(tiny, batch, at="bert.encoder.layer.1").inside
    assert torch.equal(one["bert.encoder.layer.1"], found["bert.encoder.layer.1"])
    dense = attribute(tiny, batch, at=["classifier", "bert.*.layer.*.output.dense"]).inside
    assert list(dense) == [*(f"{path}.output.dense" for path in found), "classifier"]
    assert attribute(tiny, batch).inside == {}


def test_channels_add_up_to_tokens_and_logits_are_their_own_relevance(tiny, batch):
    whole = attribute(tiny, batch, target=2, at=[LAYERS, ""], channels=True)
    for path, r in attribute(tiny, batch, target=2, at=[LAYERS, ""]).inside.items():
        close(r, whole.inside[path].sum(dim=-1))
    close(whole.inside[""], nn.functional.one_hot(whole.target, 3) * whole.logit[:, None])


@pytest.mark.parametrize(
    ("name", "at", "axis"),
    [("resnet", "", 1), ("convnext", "", 1), ("convnext", ".pwconv1", 3), ("convnext", ".act", 3)],
)
def test_a_map_of_an_image_keeps_its_height_and_width(name, at, axis):
    """ConvNeXT has channels last between the maps that it passes on."""
    with conditions():
        model = build(name, IMAGES)
        image, at = inputs(model, IMAGES), numbered_layers(model)[0] + at
        whole, summed = (
            attribute(model, image, at=at, channels=x).inside[at] for x in (True, False)
        )
    close(summed, whole.sum(dim=axis))


def test_the_word_table_gives_the_share_of_words_and_no_more(tiny, batch):
    found = attribute(tiny, batch, share="word", at="bert.embeddings.word_embeddings")
    close(found.inside["bert.embeddings.word_embeddings"], found.relevance)


def test_positions_and_places_inside_come_from_the_same_pass():
    model, inputs = cases.family("llama")
    both = attribute(model, inputs, positions="signed", at="model.layers.*")
    split = attribute(model, inputs, positions="signed")
    assert list(both.details) == list(split.details)
    assert all(torch.equal(both.details[name], part) for name, part in split.details.items())
    close(both.inside["model.layers.1"].sum(dim=1)[0], both.inside["model.layers.1"][0, -1])


def test_it_is_wide_where_the_model_is_narrow(tiny, batch):
    found = attribute(tiny.to(torch.bfloat16), batch, at=LAYERS).inside
    assert {r.dtype for r in found.values()} == {torch.float32}


def test_unknown_paths_are_all_listed_with_those_that_are_spelled_alike(tiny, batch):
    asked = ["bert.encoder.layers.0", "encoder.layer.1", 3, "bert.encoder.layer.0", "*.layer.*"]
    message = refused(ValueError, tiny, batch, at=[*asked, "bert.encoder.layers.*"])
    first, second, third, fourth, stack, last = message.splitlines()
    contains(stack, "'bert.encoder.layers.*' is no", "did you mean 'bert.encoder.layer.*'")
    contains(first, "at='bert.encoder.layers.0' is no module of BertForSequenceClassification")
    contains(first, "did you mean 'bert.encoder.layer.0' or")
    contains(second, "'encoder.layer.1'", "did you mean 'bert.encoder.layer.1' or")
    contains(third, "at=3 is no module")
    contains(fourth, "'*.layer.*'")
    contains(last, "pass paths of model.named_modules(), in which * stands for any one name")
    contains(refused(ValueError, tiny, batch, at=[]), "at=[] names no module")
    contains(refused(ValueError, tiny, batch, at=3), "at=3 is no module")


def test_modules_without_relevance_are_all_listed_with_the_reason(tiny, batch):
    query, tables = "bert.encoder.layer.0.attention.self.query", "bert.embeddings"
    at = [query, f"{tables}.position_embeddings", "bert.encoder.*", LAYERS]
    assert listed(tiny, batch, "cp-lrp", at) == {
        query: NOTHING,
        f"{tables}.position_embeddings": NOTHING,
        "bert.encoder.layer": "is not called in this forward pass",
    }
    assert query in attribute(tiny, batch, at=query).inside


def test_calls_without_relevance_count():
    """XLNet drops out its words, its positions, which are constant, and its last states."""
    model = build("xlnet", CLASSES)
    text = cases.first(inputs(model, CLASSES))
    calls = []
    hook = model.transformer.dropout.register_forward_hook(lambda *_: calls.append(1))
    found = attribute(model, text, at="transformer.dropout").inside
    hook.remove()
    assert len(calls) == 3
    assert list(found) == ["transformer.dropout#0", "transformer.dropout#2"]
