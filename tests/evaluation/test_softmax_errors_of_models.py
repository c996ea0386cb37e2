"""Theorems 10, 18 and 20 about the errors of softmax propagation, and their calls."""

from dataclasses import asdict
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertForTokenClassification, BertModel

from numeric.evaluation.softmax_errors import row_messages, softmax_errors
from tests.census.build import build
from tests.support import cases
from tests.support.softmax_loop import FIELDS, MESSAGES, close, readout_of
from tests.support.traces import assert_same, contains, failing, snapshot

# Theorems


def change(model, **parameters):
    """``model`` after adding tensors to parameters of the first readout, by child and name."""
    with torch.no_grad():
        for path, x in parameters.items():
            child, name = path.split("_")
            getattr(getattr(readout_of(model, 0), child), name).add_(x)
    return model


def with_uniform_attention(model, layer=0):
    query = readout_of(model, layer).query
    nn.init.zeros_(query.weight)
    nn.init.zeros_(query.bias)
    return model


def test_uniform_attention_is_all_default_and_has_no_first_order(tiny, batch):
    errors = softmax_errors(with_uniform_attention(tiny), batch)
    close(errors.flatness[:, 0], 1)
    close(errors.entropy[:, 0], np.log([6, 3]))
    close(errors.default_share[:, 0], 1)
    close(errors.linearization_error[:, 0], 1)  # theorem 10: Eq. 5 loses everything
    close(errors.first_order_error[:, 0], np.nan)  # and 0 / 0: logits of 0 are set to 0
    close(errors.taylor_r[:, 0], np.nan)
    # Theorem 18: it is biased as far as the values are, not because attention is uniform.
    assert (errors.structural_bias[:, 0] < 0.95).all()
    assert (errors.unseen_share[:, 0] < 0.95).all()
    for name in ("flatness", "default_share"):
        assert (getattr(errors, name)[:, 1] < 0.99).all()


def test_equal_values_are_all_bias_and_removal_changes_nothing(tiny, batch):
    nn.init.zeros_(readout_of(with_uniform_attention(tiny), 0).value.weight)
    errors, (first, _) = softmax_errors(tiny, batch), row_messages(tiny, batch)
    close(errors.structural_bias[:, 0], 1)
    close(errors.unseen_share[:, 0], 1)
    n = batch["attention_mask"].sum(dim=1)[:, None, None, None]
    o = first.value.sum(dim=-1, keepdim=True)
    assert o[first.keep.any(dim=-1)].abs().max() > 0.01
    close(first.value, o / n * first.keep)  # spread evenly
    close(first.removal, torch.zeros_like(o).expand_as(first.removal), atol=1e-15)


@pytest.mark.parametrize("c", [-3.0, 0.5])
def test_equal_logits_do_to_attnlrp_what_theorem_59_says_and_nothing_to_cp_lrp(tiny, batch, c):
    one = cases.first(batch)  # without padding
    heads = tiny.config.num_attention_heads
    size = tiny.config.hidden_size // heads
    for layer in (0, 1):
        attention = readout_of(with_uniform_attention(tiny, layer), layer)
        nn.init.ones_(attention.query.bias)
        nn.init.zeros_(attention.key.weight)
        nn.init.constant_(attention.key.bias, c / size**0.5)
    for m in row_messages(tiny, one):
        close(m.logits, np.full_like(m.logits, c))
        for head in range(heads):  # and the first row, which alone is read of the last layer
            cp_lrp, taylor, loo = (x[0, head, 0] for x in (m.value, m.taylor, m.removal))
            close(np.corrcoef(cp_lrp, loo)[0, 1], 1)
            close(np.corrcoef(cp_lrp + taylor, loo)[0, 1], np.sign(1 + c))  # twice AttnLRP


def shift_the_values(model):
    """Keeps the function: all values of the first layer grow, and the next bias gets less."""
    c = torch.linspace(-2, 3, 8).double()
    dense = model.bert.encoder.layer[0].attention.output.dense
    change(model, value_bias=c)
    with torch.no_grad():
        dense.bias -= dense.weight @ c


def shift_the_logits(model):
    """Keeps the function: the bias of the keys adds one number to all logits of a row."""
    change(model, key_bias=torch.linspace(-2, 3, 8).double())


SEE_VALUES = {"default_share", "structural_bias", "unseen_share", "value_r", "value_token_r"}
SEE_LOGITS = {"linearization_error", "first_order_error", "taylor_r", "taylor_token_r"}
SHIFTS = [
    (shift_the_values, SEE_VALUES, {"value", "unseen", "u"}),
    (shift_the_logits, SEE_LOGITS, {"taylor", "zeroing"}),
]


@pytest.mark.parametrize(("shift", "errors", "messages"), SHIFTS)
def test_the_same_function_has_the_same_removals_and_other_messages(batch, shift, errors, messages):
    plain, shifted = cases.tiny_bert(), cases.tiny_bert()
    shift(shifted)
    close(*(m(**batch).logits.detach() for m in (plain, shifted)))
    before, after = (softmax_errors(m, batch, target=1) for m in (plain, shifted))
    for name in FIELDS:
        a, b = getattr(before, name), getattr(after, name)
        close(a[:, 1], b[:, 1], rtol=1e-7)  # the second layer is the same
        if name in errors:
            assert (abs(a - b)[:, 0] > 0.001).all(), name
        else:
            close(a[:, 0], b[:, 0], rtol=1e-7)
    first, second = (row_messages(m, batch, target=1)[0] for m in (plain, shifted))
    for name in ("weights", "u", *MESSAGES):
        a, b = getattr(first, name), getattr(second, name)
        assert np.allclose(a, b, rtol=1e-7, atol=1e-10) == (name not in messages), name
    seen = (second.value - second.unseen) - (first.value - first.unseen)
    close(seen, torch.zeros_like(seen), atol=1e-10)


def test_what_theorems_18_and_20_say_of_sums(tiny, batch):
    for m in row_messages(tiny, batch):
        o = m.value.sum(dim=-1)
        close(m.unseen.sum(dim=-1), o)
        close(((1 - m.weights) * m.removal).sum(dim=-1), torch.zeros_like(o))
        close(m.value - m.unseen, (1 - m.weights) * m.removal)


# Calls


def same(a, b, **tolerance):
    for name in FIELDS:
        close(getattr(a, name), getattr(b, name), **tolerance)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_padding_and_kernels_do_not_matter(tiny, batch, attention):
    together = softmax_errors(tiny, batch)
    model = cases.tiny_bert(attn_implementation=attention)
    for example, n in enumerate((6, 3)):
        alone = softmax_errors(model, {k: x[[example], :n] for k, x in batch.items()})
        for name in FIELDS:
            close(getattr(together, name)[[example]], getattr(alone, name))
    assert together.entropy.shape == (2, 2)


def test_the_class_is_the_predicted_one_unless_given(tiny, batch):
    with torch.no_grad():
        predicted = tiny(**batch).logits.argmax(dim=1)
    same(softmax_errors(tiny, batch), softmax_errors(tiny, batch, target=predicted))
    others = softmax_errors(tiny, batch, target=(predicted + 1) % 3)
    assert (softmax_errors(tiny, batch).value_r != others.value_r).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_lower_precision_is_summed_in_float32(batch, dtype):
    wide, narrow = cases.tiny_bert(), cases.tiny_bert().to(dtype)
    for m in row_messages(narrow, batch):
        assert {getattr(m, name).dtype for name in ("weights", *MESSAGES)} == {torch.float32}
    got, want = (softmax_errors(m, batch, target=0) for m in (narrow, wide))
    assert {x.dtype for x in asdict(got).values()} == {np.dtype(np.float64)}
    # The weights and activations of the model are rounded, the logits by about 10 units.
    eps = torch.finfo(dtype).eps
    close(got.flatness, want.flatness, rtol=10 * eps)


def test_modes_of_the_caller_do_not_matter(tiny, batch):
    want = softmax_errors(tiny, batch)
    for mode in (torch.no_grad, torch.inference_mode, partial(torch.autocast, "cpu")):
        with mode():
            same(softmax_errors(tiny, batch), want, rtol=0, atol=0)


def test_a_shared_layer_is_measured_at_both_places(batch):
    tied, copied = cases.tiny_bert(), cases.tiny_bert()
    tied.bert.encoder.layer[1] = tied.bert.encoder.layer[0]
    copied.bert.encoder.layer[1].load_state_dict(copied.bert.encoder.layer[0].state_dict())
    same(softmax_errors(tied, batch), softmax_errors(copied, batch), rtol=0, atol=0)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_model_is_left_as_it_was(batch, attention):
    model = cases.tiny_bert(attn_implementation=attention)
    model.bert.encoder.layer[0].attention.self.query.weight.requires_grad = False
    before, logits = snapshot(model), model(**batch).logits
    first = softmax_errors(model, batch)
    assert_same(before, snapshot(model))
    assert torch.equal(model(**batch).logits, logits)
    same(softmax_errors(model, batch), first, rtol=0, atol=0)


def test_an_exception_in_mid_forward_leaves_the_model_as_it_was(tiny, batch):
    before = snapshot(tiny)
    with (
        failing(tiny),
        pytest.raises(ArithmeticError, match="in mid-forward"),
    ):
        softmax_errors(tiny, batch)
    assert_same(before, snapshot(tiny))


def with_own_attention():
    model = cases.tiny_bert()
    attention = readout_of(model, 1)
    attention.__class__ = type("OwnAttention", (type(attention),), {})
    return model


def one_token(batch):
    batch["attention_mask"][1, 1:] = 0
    return batch


plain, without_types = dict, lambda batch: batch | {"token_type_ids": None}
mpnet = partial(build, "mpnet", "sequence classification")
BAD = {
    "train mode": (lambda: cases.tiny_bert().train(), plain, {}, "train mode", "model.eval()"),
    "no classifier": (lambda: cases.perturbed(BertModel), plain, {}, "BertModel gives"),
    "a name": (lambda: "bert-base-uncased", plain, {}, "model is a str"),
    "MPNet": (mpnet, without_types, {}, "no attention that is known in MPNet", "BertSelfAttention"),
    "GPT-2": (
        lambda: cases.family("gpt2")[0], without_types, {}, "one key only in examples [0, 1]",
    ),
    "own attention": (with_own_attention, plain, {}, "no attention that is known", "BertSelf"),
    "logits of tokens": (
        lambda: cases.perturbed(BertForTokenClassification), plain, {}, "every token has a tag",
    ),
    "causal": (
        lambda: cases.tiny_bert(is_decoder=True), plain, {}, "one key only in examples [0, 1]",
    ),
    "one token": (cases.tiny_bert, one_token, {}, "one key only in examples [1]", "leave texts"),
    "class": (cases.tiny_bert, plain, {"target": 3}, "target [3] out of range", "0 to 2"),
    "label": (cases.tiny_bert, plain, {"target": "good"}, "target='good'", "no class has this"),
    "text": (cases.tiny_bert, lambda _: "a fine film", {}, "inputs is a str", "tokenizer("),
    "left padding": (
        cases.tiny_bert, lambda b: {k: x.flip(1) for k, x in b.items()}, {}, "padding_side",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
@pytest.mark.filterwarnings("ignore:.*is_decoder.*")
def test_what_cannot_be_measured_is_refused(batch, name):
    make, put, options, *parts = BAD[name]
    model = make()
    before = snapshot(model) if isinstance(model, nn.Module) else None
    with pytest.raises(ValueError, match=r".+") as caught:
        softmax_errors(model, put(batch), **options)
    contains(str(caught.value), *parts)
    if before:
        assert_same(before, snapshot(model))
