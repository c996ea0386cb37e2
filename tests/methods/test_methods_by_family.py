"""Every other method is right on a family, or refused there; so is every input that is wrong."""

import pytest
import torch
from transformers import GemmaConfig, GemmaForSequenceClassification

from numeric import attribute
from tests.support import cases
from tests.support.cases import ALL, DECODERS, ENCODERS, SINGLE, close
from tests.support.loops import delete, left_out, logits_of, replace
from tests.support.traces import contains, refused


@pytest.mark.parametrize("removal", ["deletion", 7])  # by the mask: test_loo_fast.py
@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS, "mistral, with a window"])
def test_a_token_deleted_or_replaced_is_the_plain_loop(name, removal):
    name, *window = name.split(", ")
    model, inputs = cases.family(name, **({"sliding_window": 3} if window else {}))
    a = attribute(model, inputs, "loo", removal=removal)
    for row, length in ((0, 6), (1, 4)):
        one = {key: x[[row], :length] for key, x in inputs.items()}
        read = length - 1 if name in DECODERS else 0
        change = replace if removal == 7 else lambda batch, n, read=read: delete(batch, n, read)
        want = left_out(one, logits_of(model, a.target[row]), change)[0]
        close(a.relevance[row, :length], want, tolerance=cases.tolerance(name))


def test_positions_that_roberta_counts_are_kept_where_its_padding_id_is_read():
    model, inputs = cases.one_text("roberta")
    ids = inputs["input_ids"].clone()
    ids[0, 2] = model.config.pad_token_id  # in the text, and attended to
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    a = attribute(model, inputs, "loo")
    close(a.relevance, left_out(inputs, logits_of(model, a.target)))
    integrated = attribute(model, inputs, "integrated-gradients")
    close(integrated.logit, a.logit)


@pytest.mark.parametrize("name", ALL)
def test_rollout_is_the_product_at_the_row_that_is_read(name):
    model, inputs = cases.family(name, attn_implementation="eager")
    a = attribute(model, inputs, "attention-rollout")
    with torch.no_grad():
        layers = model(**inputs, output_attentions=True).attentions
    product = torch.stack([layer.mean(1) for layer in layers]).flip(0)
    product = product[0] @ product[1]
    rows = [5, 3] if name in DECODERS else [0, 0]
    want = torch.stack([product[0, rows[0]], product[1, rows[1]]])
    close(a.relevance, want * inputs.get("attention_mask", 1), tolerance=SINGLE)


def padded_left(inputs):
    return {key: x.roll(2, 1) for key, x in inputs.items()}


def with_other_padding(inputs):
    ids = inputs["input_ids"].clone()
    ids[1, 4:] = 9
    return inputs | {"input_ids": ids}


def with_types(inputs):
    return inputs | {"token_type_ids": torch.zeros_like(inputs["input_ids"])}


def longer(inputs):
    return {"input_ids": torch.full((1, 21), 5)}


same = dict
BAD = {  # families, change of inputs, method, options, parts of the message
    "no token to leave out": (["vit"], same, "budgeted-loo", {}, "model is a", "left out of texts"),
    "embeddings of images": (["vit"], same, "integrated-gradients", {}, "has no words"),
    "padding of another id": (
        DECODERS, with_other_padding, "attnlrp", {}, "examples [1]", "pad_token_id=0", "hides it",
    ),
    "left of encoders": (ENCODERS, padded_left, "cp-lrp", {}, "in examples [1]", "padding_side"),
    "token types": (
        ["distilbert", *DECODERS], with_types, "attnlrp", {}, "has no token types", "leave",
    ),
    "too long": (
        ["bert", "electra", "albert", "distilbert", "gpt2"], longer, "attnlrp", {},
        "text of 21 tokens", "20 positions",
    ),
    "too long, counted from the padding id": (
        ["roberta"], lambda _: {"input_ids": torch.full((1, 19), 5)}, "attnlrp", {},
        "text of 19 tokens", "18 positions",
    ),
    "ids for images": (
        ["vit"], lambda _: cases.family_inputs("bert"), "attnlrp", {}, "pixel_values", "float",
    ),
    "images for texts": (
        ["bert", "llama"], lambda _: cases.family_inputs("vit"), "attnlrp", {},
        "'pixel_values'", "input_ids",
    ),
    "other image": (
        ["vit"], lambda _: {"pixel_values": torch.zeros(2, 3, 6, 6)}, "attnlrp", {},
        "(2, 3, 6, 6)", "(batch, 2, 6, 6)",
    ),
    "whole numbers": (
        ["vit"], lambda _: {"pixel_values": torch.ones(1, 2, 6, 6).long()}, "attnlrp", {},
        "dtype torch.int64",
    ),
    "no images": (["vit"], lambda _: {"pixel_values": torch.ones(0, 2, 6, 6)}, "attnlrp", {}, "(0"),
}  # fmt: skip
PLACES = [(name, family) for name, (families, *_) in BAD.items() for family in families]


@pytest.mark.parametrize(("name", "family"), PLACES)
def test_what_a_family_cannot_do_is_refused(name, family):
    _, change, method, options, *parts = BAD[name]
    model, inputs = cases.family(family)
    contains(refused(ValueError, model, change(inputs), method, **options), *parts)


def test_an_unknown_classifier_that_may_read_padding_warns():
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 50}
    model = GemmaForSequenceClassification(GemmaConfig(**sizes, pad_token_id=0)).eval().double()
    inputs = cases.family_inputs("llama")
    one = {key: x[1:, :4] for key, x in inputs.items()}
    padded = attribute(model, inputs, target=1)
    close(padded.relevance[1, :4], attribute(model, one, target=1).relevance[0], tolerance=SINGLE)
    with pytest.warns(UserWarning, match=r"other than pad_token_id=0 behind examples \[1\]"):
        attribute(model, with_other_padding(inputs))


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("name", DECODERS)
def test_a_path_of_a_decoder_ends_at_the_token_that_it_reads(name, hooked):
    model, inputs = cases.family(name)
    if hooked:  # then the model's own code runs
        model.score.register_forward_hook(lambda *_: None)
    options = {"steps": 3, "tolerance": None}
    found = attribute(model, inputs, "integrated-gradients", **options)
    for row, length in enumerate(inputs["attention_mask"].sum(dim=1)):
        one = {key: x[row : row + 1, :length] for key, x in inputs.items()}
        alone = attribute(model, one, "integrated-gradients", **options)
        close(found.relevance[row, :length], alone.relevance[0], tolerance=cases.tolerance(name))
        assert not found.relevance[row, length:].any()


@pytest.mark.parametrize("name", DECODERS)
def test_without_padding_id_one_text_at_a_time_is_explained(name):
    padded, inputs = cases.family(name)
    model, _ = cases.family(name, pad_token_id=None)
    message = refused(ValueError, model, inputs)
    contains(message, "batch of 2 texts", "pad_token_id=None", "one text at a time")
    one = cases.first(inputs)
    model.load_state_dict(padded.state_dict())
    for method, options in (("attnlrp", {}), ("loo", {}), ("integrated-gradients", {"steps": 3})):
        found, want = (attribute(x, one, method, **options).relevance for x in (model, padded))
        close(found, want)


def test_the_word_share_of_an_image_is_all_but_its_positions():
    model, inputs = cases.family("vit")
    whole, words = (attribute(model, inputs, share=share) for share in ("embedding", "word"))
    assert (whole.relevance - words.relevance).abs().min() > 1e-6
    with torch.no_grad():
        model.vit.embeddings.position_embeddings.zero_()
    whole, words = (attribute(model, inputs, share=share) for share in ("embedding", "word"))
    close(words.relevance, whole.relevance)
