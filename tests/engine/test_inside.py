"""Relevance at what modules return: as others find it, conserved, and of no other effect."""

import re

import pytest
import torch
from torch import nn
from transformers import BertForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

from axioms.composites import ATTNLRP, CP_LRP
from axioms.graph import MOVE
from benchmarks.architectures.build import CAUSAL, IMAGES, build, inputs
from benchmarks.architectures.measure import conditions, without_shifts
from numeric import attribute, audit, propagation
from numeric.fast.places import numbered_layers
from numeric.reference import bert
from tests.layers.test_fast_matches_reference import rows
from tests.support import cases
from tests.support.cases import close
from tests.support.traces import assert_same, contains, refused, snapshot

CLASSES = "sequence classification"
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
        want = bert.relevance(reference, target=1, **options, **arguments).outputs
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
    """Of every module behind the embeddings that ends in an operation of its own."""
    model, batch = cases.family(name)
    one = {key: x[:1] for key, x in batch.items()}
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


# Modules of other people.


def with_part(part):
    """A model whose pooled output passes through ``part`` on its way to the classifier."""
    model = cases.tiny_bert()
    model.dropout = part.eval()
    return model


class Calls(nn.Module):
    """A module that computes with what its part returns."""

    def __init__(self, around, part=None):
        super().__init__()
        self.part, self.around = part or nn.Identity(), around

    def forward(self, x):
        return self.around(self.part, x)


class Returns(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward_of = function

    def forward(self, x):
        return self.forward_of(x)


POOLED = "bert.pooler"


def test_what_is_written_in_place_later_does_not_count(batch):
    """The output of a tanh, whose rule still waits."""
    writes, copies = with_part(Returns(lambda x: x.add_(1))), with_part(Returns(lambda x: x + 1))
    got, want = (
        attribute(model, batch, at=[POOLED, "dropout"]).inside for model in (writes, copies)
    )
    for path, r in want.items():
        close(got[path], r)
    assert not torch.allclose(got[POOLED], got["dropout"])  # 1 keeps its share


def test_what_passes_a_module_by_does_not_count(batch):
    model = with_part(Calls(lambda part, x: part(x) / 4 + 3 * x / 4))
    found = attribute(model, batch, at=[POOLED, "dropout.part"])
    close(found.inside["dropout.part"], found.inside[POOLED] / 4)
    close(found.relevance, attribute(model, batch).relevance)


def test_what_a_hook_of_the_user_changes_is_what_is_looked_at(batch):
    model = cases.tiny_bert()
    model.bert.pooler.register_forward_hook(lambda _m, _x, y: y + 1)
    found = attribute(model, batch, at=[POOLED, "dropout"]).inside
    close(found[POOLED], found["dropout"])  # dropout does nothing here


class ReadsStates(BertForSequenceClassification):
    """A head that reads the output of every layer, which hooks of Transformers keep."""

    def forward(self, **inputs):
        states = self.bert(**inputs, output_hidden_states=True).hidden_states
        return SequenceClassifierOutput(logits=self.classifier(sum(states)[:, 0]))


def test_states_that_transformers_keeps_are_what_the_layers_return(batch):
    model = cases.perturbed(ReadsStates)
    first = attribute(model, batch, at=LAYERS)
    model(**batch)
    assert model.bert.encoder.layer[0]._forward_hooks  # from now on, before ours
    again = attribute(model, batch, at=LAYERS)
    for path, r in again.inside.items():
        assert torch.equal(r, first.inside[path])
    assert r[:, 0].all()


def test_every_call_has_a_row_in_order():
    model, inputs = cases.family("albert")
    group = "albert.encoder.albert_layer_groups.0"
    found = attribute(model, inputs, at=["albert.pooler", group]).inside
    assert list(found) == [f"{group}#0", f"{group}#1", "albert.pooler"]
    assert not torch.allclose(found[f"{group}#0"], found[f"{group}#1"])


PACKED = {
    "tuple": (lambda x: (x, x + 1), lambda y: y[0]),
    "list": (lambda x: [None, x], lambda y: y[1]),
    "dict": (lambda x: {"n": 3, "x": x}, lambda y: y["x"]),
    "nested": (lambda x: ((3, x), x + 1), lambda y: y[0][1]),
    "named": (lambda x: x[:, None].max(dim=1), lambda y: y.values),
}


@pytest.mark.parametrize("kind", PACKED)
def test_of_several_outputs_the_first_tensor_is_read(batch, kind):
    pack, unpack = PACKED[kind]
    model = with_part(Calls(lambda part, x: unpack(part(x)), Returns(pack)))
    found = attribute(model, batch, at=[POOLED, "dropout.part"])
    close(found.inside["dropout.part"], found.inside[POOLED])
    assert torch.equal(found.relevance, attribute(model, batch).relevance)


# What is asked, and how it is answered.


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
        whole, summed = (attribute(model, image, at=at, channels=x).inside[at] for x in (1, 0))
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


def listed(model, batch, method, at):
    """The modules without relevance that one error lists, each with its reason."""
    first, *lines, last = refused(ValueError, model, batch, method, at=at).splitlines()
    assert first == "no relevance can be read at these modules:"
    assert last == "leave them out"
    return dict(line.split(maxsplit=1) for line in lines)


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


NOTHING = "returns nothing that relevance reaches by these rules"


def test_modules_without_relevance_are_all_listed_with_the_reason(tiny, batch):
    query, tables = "bert.encoder.layer.0.attention.self.query", "bert.embeddings"
    at = [query, f"{tables}.position_embeddings", "bert.encoder.*", LAYERS]
    assert listed(tiny, batch, "cp-lrp", at) == {
        query: NOTHING,
        f"{tables}.position_embeddings": NOTHING,
        "bert.encoder.layer": "is not called in this forward pass",
    }
    assert query in attribute(tiny, batch, at=query).inside


ODD = {
    "returns a product of two activations, which its user splits": (
        lambda x: x[:, :, None] @ x[:, None, :],
        lambda part, x: part(x).sum(dim=-1),
    ),
    "has relevance that is not finite": (
        lambda x: nn.functional.pad(x, (0, 1), value=-torch.inf),
        lambda part, x: part(x)[:, :-1],
    ),
    NOTHING: (lambda x: [x.shape], lambda part, x: part(x) and x),
}


@pytest.mark.parametrize("reason", ODD)
def test_what_a_module_returns_may_be_nothing_to_read_relevance_at(batch, reason):
    returned, around = ODD[reason]
    model = with_part(Calls(around, Returns(returned)))
    assert attribute(model, batch).relevance.any()
    assert listed(model, batch, "attnlrp", "dropout.part") == {"dropout.part": reason}


STEP = "returns a step of a function whose rule is for the whole"
STEPS = {
    "GELU": (torch.tanh, lambda part, x: 0.5 * x * (1 + part(0.8 * x))),
    "sum": (torch.tanh, lambda part, x: x + part(x)),
    "straight": (lambda x: x + 1, lambda part, x: x * part(x)),
    "inner": (torch.tanh, lambda part, x: x * torch.sigmoid(part(x))),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_an_activation_that_is_spelled_out_is_no_place_to_look_at(batch, name):
    step, around = STEPS[name]
    model = with_part(Calls(around, Returns(step)))
    assert listed(model, batch, "attnlrp", ["dropout.part"]) == {"dropout.part": STEP}
    whole = attribute(model, batch, at="dropout", epsilon=0.1)
    close(whole.relevance, attribute(model, batch, epsilon=0.1).relevance)


def in_steps(line):
    return with_part(nn.Sequential(nn.Tanh(), Returns(line), nn.GELU()))


def test_a_function_is_looked_at_after_every_step_that_keeps_nothing(batch):
    model = in_steps(lambda x: 3 * x)
    found = attribute(model, batch, at="dropout.*")
    close(found.inside["dropout.0"], found.inside["dropout.2"])
    close(found.relevance, attribute(model, batch).relevance)


def test_a_constant_within_a_function_keeps_nothing_and_is_no_place_to_look_at(batch):
    model = in_steps(lambda x: 3 * x + 1)
    assert listed(model, batch, "attnlrp", "dropout.*") == {"dropout.1": STEP}
    found = attribute(model, batch, at=["dropout.0", "dropout.2"])
    close(found.relevance, attribute(model, batch).relevance)


@pytest.mark.parametrize("method", ["loo", "attention-rollout", "integrated-gradients"])
def test_methods_without_relevance_inside_are_refused_by_name(tiny, batch, method):
    message = refused(TypeError, tiny, batch, method, at=LAYERS)
    contains(message, f"method '{method}' has no option 'at'", "at is of attnlrp, cp-lrp, grad")


def test_backward_hooks_of_the_user_are_refused_as_ever(tiny, batch):
    tiny.bert.register_full_backward_hook(print)
    contains(refused(ValueError, tiny, batch, at=LAYERS), "hooks on 1 modules, bert:")
