"""Methods besides LRP on an encoder and a decoder, each against plain loops and gradients."""

from functools import partial

import pytest
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    FSMTConfig,
    FSMTForConditionalGeneration,
    T5Config,
    T5ForTokenClassification,
    WhisperForConditionalGeneration,
)

from numeric import attribute
from numeric.attribution import attribute_each
from numeric.targets import logit, span
from tests.support.cases import close
from tests.support.loops import losses
from tests.support.traces import contains, refused
from tests.support.writers import model_of

NAMES = ["t5", "bart", "marian", "mbart", "t5gemma", "pegasus", "led"]
pytestmark = pytest.mark.usefixtures("float64")
made = partial(model_of, kind=AutoModelForSeq2SeqLM)
TARGETS = [logit(7, at=1) - logit(8), span(1, 4)]


def texts():
    """Two texts of 6 and 4 tokens, and 4 tokens that were written of each."""
    drawn = torch.Generator().manual_seed(1)
    mask = torch.ones(2, 6, dtype=torch.int64)
    mask[1, 4:] = 0
    ids, written = (torch.randint(10, 50, (2, n), generator=drawn) for n in (6, 4))
    written[:, 0] = 1
    return {"input_ids": ids * mask, "attention_mask": mask, "decoder_input_ids": written}


def values(logits, written, target):
    """The numbers that ``TARGETS`` name, by hand."""
    if target is TARGETS[0]:
        return logits[:, 1, 7] - logits[:, -1, 8]
    return logits[:, :3].gather(2, written[:, 1:, None]).sum(dim=(1, 2))


def plain(model, batch, target, change):
    """A forward pass per column of both texts; the token that starts the decoder stays."""
    columns = [(key, n) for key in KEYS if key in batch for n in range(batch[key].shape[1])]
    batch = batch | {"decoder_attention_mask": torch.ones_like(batch["decoder_input_ids"])}
    value = lambda given: values(model(**given).logits, batch["decoder_input_ids"], target)
    want = losses(batch, value, change, columns)
    want[:, columns.index((KEYS[1], 0))] = 0
    if "input_ids" in batch:
        want[:, : batch["input_ids"].shape[1]] *= batch["attention_mask"]
    return want


KEYS = ("input_ids", "decoder_input_ids")


def hide(batch, key, column):
    batch[key.replace("input_ids", "attention_mask")][:, column] = 0


def replace(batch, key, column):
    batch[key][:, column] = 7


@pytest.mark.parametrize("name", NAMES)
def test_tokens_of_both_texts_are_left_out_by_their_masks(name):
    model, batch = made(name), texts()
    found = attribute_each(model, batch, "loo", targets=TARGETS, batch_size=5)
    for target, each in zip(TARGETS, found, strict=True):
        close(each.relevance, plain(model, batch, target, hide), tolerance=1e-10)
        left = each.relevance[:, [0, 7]].abs().min()  # a token of each text
        assert left > 1e-6 * each.logit.abs().max()


def test_a_token_put_in_place_is_put_into_both_texts():
    model, batch = made("t5"), texts()
    a = attribute(model, batch, "loo", TARGETS[0], removal=7)
    close(a.relevance, plain(model, batch, TARGETS[0], replace))


def test_of_a_sound_only_what_was_written_is_left_out():
    model = made("whisper", kind=WhisperForConditionalGeneration)
    size = 2, model.config.num_mel_bins, 2 * model.config.max_source_positions
    sound = torch.randn(size, generator=torch.Generator().manual_seed(0))
    batch = {"input_features": sound, "decoder_input_ids": texts()["decoder_input_ids"]}
    a = attribute(model, batch, "loo", TARGETS[1])
    close(a.relevance, plain(model, batch, TARGETS[1], hide))
    start = {key: x[:, :1] if key == "decoder_input_ids" else x for key, x in batch.items()}
    assert not attribute(model, start, "loo").relevance.any()


def test_what_cannot_be_left_out_is_refused():
    message = refused(ValueError, made("fsmt"), texts(), "loo")
    contains(message, "decoder_attention_mask changes no logit of this FSMT", "removal=")
    batch = texts()
    batch["attention_mask"][1, 1:] = 0
    contains(refused(ValueError, made("t5"), batch, "loo"), "one token only in examples [1]")


@pytest.mark.parametrize("baseline", ["zero", "pad"])
@pytest.mark.parametrize("name", ["bart", "marian", "t5"])
def test_the_middle_of_the_path_is_that_of_both_texts(name, baseline):
    model, batch = made(name), texts()
    a = attribute(model, batch, "integrated-gradients", TARGETS[0], steps=1, baseline=baseline)
    tables = [x.get_input_embeddings() for x in (model.get_encoder(), model.get_decoder())]
    ends = [table(batch[key]).detach() for table, key in zip(tables, KEYS, strict=True)]
    pad = torch.tensor(model.config.pad_token_id)
    starts = [table(pad).detach() * (baseline == "pad") for table in tables]
    middle = [((x + y) / 2).requires_grad_() for x, y in zip(starts, ends, strict=True)]
    named = dict(zip(("inputs_embeds", "decoder_inputs_embeds"), middle, strict=True))
    logits = model(**named, attention_mask=batch["attention_mask"]).logits
    value = values(logits, batch["decoder_input_ids"], TARGETS[0])
    gradients = torch.autograd.grad(value.sum(), middle)
    parts = [((y - x) * c).sum(dim=-1) for x, y, c in zip(starts, ends, gradients, strict=True)]
    parts[0] = parts[0] * batch["attention_mask"]
    close(a.relevance, torch.cat(parts, dim=1))


def test_integrated_gradients_of_both_texts_are_complete():
    a = attribute(made("bart"), texts(), "integrated-gradients", TARGETS[1], steps=100)
    assert (a.details["completeness_gap"].abs() < 1e-6 * a.logit.abs()).all()


def test_padding_behind_a_written_text_is_refused():
    model, batch = made("t5"), texts()
    batch["decoder_input_ids"][1, 2:] = pad = model.config.pad_token_id
    message = refused(ValueError, model, batch)
    contains(message, f"decoder_input_ids ends with pad_token_id={pad} in examples [1]")
    alone = {key: x[1:, :4] for key, x in batch.items()}
    alone["decoder_input_ids"] = alone["decoder_input_ids"][:, :2]
    assert attribute(model, alone).relevance.isfinite().all()


@pytest.mark.parametrize("sizes", [(60, 40), (40, 60)])
def test_each_text_has_the_vocabulary_of_its_own_table(sizes):
    source, written = sizes
    about = {"src_vocab_size": source, "tgt_vocab_size": written, "d_model": 8, "max_length": 20}
    layers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
    wide = {"decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    config = FSMTConfig(**about, **layers, **wide, tie_word_embeddings=False)
    model = FSMTForConditionalGeneration(config).eval()
    ids = torch.tensor([[source - 1, 7, 2]])
    text = {"input_ids": ids, "decoder_input_ids": torch.tensor([[2, written - 1]])}
    assert attribute(model, text, "loo", removal=7).relevance.any()
    for key, size in (("input_ids", source), ("decoder_input_ids", written)):
        message = refused(ValueError, model, text | {key: torch.tensor([[2, size]])})
        contains(message, f"first {size} at example 0", f"the model has 0 to {size - 1}")


def test_an_encoder_without_its_decoder_has_one_text():
    config = T5Config(vocab_size=50, d_model=8, d_kv=4, d_ff=8, num_layers=2, num_heads=2)
    model, target = T5ForTokenClassification(config).eval(), logit(1, at=0)
    batch = {key: x for key, x in texts().items() if key != "decoder_input_ids"}
    for method in ("integrated-gradients", "mask-relevance", "atman", "loo", "attnlrp"):
        assert attribute(model, batch, method, target).relevance.any(), method
    assert attribute(model, batch, "loo", target, removal=7).relevance.any()
    value = lambda given: model(**given).logits[:, 0, 1]
    want = losses(batch, value, hide, [("input_ids", n) for n in range(6)])
    close(attribute(model, batch, "loo", target).relevance, want * batch["attention_mask"])
