"""The errors of softmax propagation against loops, real removal, and what theorems 18 to 20 say."""

from dataclasses import asdict, fields, replace
from functools import partial

import mpmath
import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertForTokenClassification, BertModel

from axioms.composites import ATTNLRP
from numeric.evaluation import softmax_errors as module
from numeric.evaluation.softmax_errors import SoftmaxErrors, row_messages, softmax_errors
from numeric.fast import scope
from numeric.reference import bert
from tests import cases
from tests.test_bad_models import mpnet
from tests.traces import assert_same, contains, snapshot

FIELDS = [field.name for field in fields(SoftmaxErrors)]
MESSAGES = ("removal", "value", "unseen", "taylor", "zeroing")
TARGET = [1, 0]  # not the predicted classes
close = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12)


def holed():
    """Two texts of 6 and 3 tokens, one of them with a token masked out in its middle."""
    batch = cases.tiny_batch()
    batch["attention_mask"][0, 3] = 0
    return batch


def readout_of(model, layer):
    return model.bert.encoder.layer[layer].attention.self


# The slow text: NumPy activations of one text at a time, and loops over heads, queries and keys.


def activations(model, batch, example):
    """Of one text: its tokens, and per layer logits (h, j, i), values (h, i, p), readout, g."""
    kept = batch["attention_mask"][example].numpy() == 1
    at = bert.forward(
        cases.reference_of(model),
        batch["input_ids"][example].numpy(),
        token_type_ids=batch["token_type_ids"][example].numpy(),
        keep=kept,
    )
    tokens = np.flatnonzero(kept)
    heads, layers = model.config.num_attention_heads, model.config.num_hidden_layers
    for layer, g in zip(range(layers), gradients(model, batch, example), strict=True):
        path = f"bert.encoder.layer.{layer}.attention.self"
        v = bert.split_heads(at[f"{path}.value"], heads)
        g = bert.split_heads(g, heads)
        z = at[f"{path}.scores"][:, tokens][:, :, tokens]
        yield z, v[:, tokens], at[f"{path}.readout"][:, tokens], g[:, tokens]


def gradients(model, batch, example):
    """df_c/dO of one text in every layer, by autograd of the stock model, (token, channel)."""
    outs = []
    layers = range(model.config.num_hidden_layers)
    keep = lambda _m, _i, output: outs.append(output[0])
    handles = [readout_of(model, layer).register_forward_hook(keep) for layer in layers]
    logits = model(**{key: x[[example]] for key, x in batch.items()}).logits
    for handle in handles:
        handle.remove()
    return [g[0].numpy() for g in torch.autograd.grad(logits[0, TARGET[example]], outs)]


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def loop(z, v, o, g):
    """(messages by name, (h, j, i), and all fields) of one layer of one text."""
    heads, n, _ = z.shape
    found = {name: np.zeros((heads, n, n)) for name in MESSAGES}
    entropies, default, mean_square, square = [], 0.0, 0.0, 0.0
    for h, j in np.ndindex(heads, n):
        a = softmax(z[h, j])
        entropies.append(-sum(p * np.log(p) for p in a))
        mean_square += (o[h, j] @ g[h, j]) ** 2
        for i in range(n):
            without, zeroed = z[h, j].copy(), z[h, j].copy()
            without[i], zeroed[i] = -np.inf, 0.0
            found["removal"][h, j, i] = (o[h, j] - softmax(without) @ v[h]) @ g[h, j]
            found["zeroing"][h, j, i] = (o[h, j] - softmax(zeroed) @ v[h]) @ g[h, j]
            found["value"][h, j, i] = a[i] * v[h, i] @ g[h, j]
            found["unseen"][h, j, i] = a[i] * o[h, j] @ g[h, j]
            row = [z[h, j, i] * a[i] * ((k == i) - a[k]) * v[h, k] @ g[h, j] for k in range(n)]
            found["taylor"][h, j, i] = sum(row)
            default += min(a[i], 1 / n) * abs(v[h, i] @ g[h, j])
            square += a[i] * (v[h, i] @ g[h, j]) ** 2
    removal, value, unseen, taylor, zeroing = (found[name].ravel() for name in MESSAGES)
    tokens = {name: x.sum(axis=(0, 1)) for name, x in found.items()}
    size = lambda x: sum(map(abs, x))
    return found, {
        "entropy": np.mean(entropies),
        "flatness": np.mean(entropies) / np.log(n),
        "default_share": default / size(value),
        "structural_bias": size(unseen) / size(value),
        "unseen_share": mean_square / square,
        "linearization_error": size(taylor - removal) / size(removal),
        "first_order_error": size(taylor - zeroing) / size(zeroing),
        "centred_error": size(value - unseen - removal) / size(removal),
        "taylor_r": np.corrcoef(taylor, removal)[0, 1],
        "value_r": np.corrcoef(value, removal)[0, 1],
        "taylor_token_r": np.corrcoef(tokens["taylor"], tokens["removal"])[0, 1],
        "value_token_r": np.corrcoef(tokens["value"], tokens["removal"])[0, 1],
    }


def check_the_loop(model, batch):
    errors, layers = (f(model, batch, target=TARGET) for f in (softmax_errors, row_messages))
    for example in range(len(TARGET)):
        tokens = batch["attention_mask"][example] == 1
        for layer, rows in enumerate(activations(model, batch, example)):
            messages, want = loop(*rows)
            for name in FIELDS:
                close(getattr(errors, name)[example, layer], want[name], err_msg=name)
            for name in MESSAGES:
                got = getattr(layers[layer], name)[example]
                close(got[:, tokens][:, :, tokens], messages[name], err_msg=name)
                assert not got[:, ~tokens].any()
                assert not got[:, :, ~tokens].any()


def check_real_removal(model, batch, *, example=0, step=1e-4):
    """The target logit's slope as one key goes out of one row, all later layers running."""
    layers = row_messages(model, batch, target=TARGET)
    rows = list(activations(model, batch, example))
    tokens = np.flatnonzero(batch["attention_mask"][example])
    places = ((0, 0, 0, 1), (0, 1, 2, 0), (0, 1, 4, 4), (0, 0, 1, 3), (1, 0, 0, 2), (1, 1, 0, 0))
    for layer, h, j, i in places:
        removal, (z, v, o, _) = layers[layer].removal[example], rows[layer]
        without = z[h, j].copy()
        without[i] = -np.inf
        moved = np.zeros((v.shape[0], v.shape[2]))
        moved[h] = softmax(without) @ v[h] - o[h, j]
        ends = [shifted(model, batch, layer, example, tokens[j], t * moved) for t in (-step, step)]
        slope = (ends[0] - ends[1]) / (2 * step)
        close(removal[h, tokens[j], tokens[i]], slope, rtol=1e-5, atol=1e-8)


def shifted(model, batch, layer, example, token, change):
    """The target logit with ``change`` (head, channel) added to one row of one readout."""

    def add(_module, _inputs, output):
        out = output[0].clone()
        out[example, token] += torch.tensor(change.ravel())
        return out, output[1]

    handle = readout_of(model, layer).register_forward_hook(add)
    with torch.no_grad():
        logits = model(**batch).logits
    handle.remove()
    return logits[example, TARGET[example]].item()


CHECKS = (check_the_loop, check_real_removal)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("texts", [cases.tiny_batch, holed])
def test_messages_and_errors_are_what_they_are_called(tiny, texts, check):
    check(tiny, texts())


# Wrong texts: name -> the function of the module that is exchanged, given the right one.


def change_messages(**changes):
    def wrong(right):
        def exact(z, u, keys):
            m = right(z, u, keys)
            return m | {name: change(z, u, m) for name, change in changes.items()}

        return exact

    return "_exact", wrong


def change_errors(**changes):
    def wrong(right):
        return lambda m: right(m) | {name: change(right(m), m) for name, change in changes.items()}

    return "errors_of", wrong


def attend_to_padding(right):
    return lambda seen, gradient, present: right(replace(seen, mask=None), gradient, present)


def count_padding_as_queries(right):
    everything = torch.ones(2, 6).bool()
    return lambda seen, gradient, _: right(seen, gradient, everything)


def scaling_forgotten(right):
    return lambda seen, gradient, present: right(replace(seen, scaling=1.0), gradient, present)


def predicted_class(right):
    return lambda logits, _target: right(logits, None)


def signed(name, other):
    """The error without absolute values."""
    return lambda _, m: (
        (getattr(m, name) - getattr(m, other)).sum((1, 2, 3)) / getattr(m, other).sum((1, 2, 3))
    ).numpy()


LOOP, REMOVAL = CHECKS
WRONG = {
    "1/(1 - A) missing": (
        change_messages(removal=lambda z, u, m: m["value"] - m["unseen"]), {LOOP, REMOVAL},
    ),
    "value-only as removal": (change_messages(removal=lambda z, u, m: m["value"]), {LOOP, REMOVAL}),
    "set to 0 instead of removed": (
        change_messages(removal=lambda z, u, m: m["zeroing"]), {LOOP, REMOVAL},
    ),
    "logit not in Eq. 5": (change_messages(taylor=lambda z, u, m: m["taylor"] / z), {LOOP}),
    "mean not subtracted in Eq. 5": (
        change_messages(taylor=lambda z, u, m: z * m["value"]), {LOOP},
    ),
    "Eq. 5 halved": (change_messages(taylor=lambda z, u, m: m["taylor"] / 2), {LOOP}),
    "bias spread evenly": (
        change_messages(unseen=lambda z, u, m: m["unseen"].mean(-1, keepdim=True) + 0 * u), {LOOP},
    ),
    "removed instead of set to 0": (
        change_messages(zeroing=lambda z, u, m: m["removal"]), {LOOP},
    ),
    "padding as keys": (("_messages", attend_to_padding), {LOOP, REMOVAL}),
    "padding as queries": (("_messages", count_padding_as_queries), {LOOP}),
    "logits not scaled": (("_messages", scaling_forgotten), {LOOP, REMOVAL}),
    "another class": (("choose", predicted_class), {LOOP, REMOVAL}),
    "entropy in bits": (change_errors(entropy=lambda e, m: e["entropy"] / np.log(2)), {LOOP}),
    "flatness by the padded length": (
        change_errors(flatness=lambda e, m: e["entropy"] / np.log(6)), {LOOP},
    ),
    "linearization error without absolute values": (
        change_errors(linearization_error=signed("taylor", "removal")), {LOOP},
    ),
    "error against setting to 0": (
        change_errors(linearization_error=lambda e, m: e["first_order_error"]), {LOOP},
    ),
    "what is left instead of the bias": (
        change_errors(structural_bias=lambda e, m: 1 - e["structural_bias"]), {LOOP},
    ),
    "r over entries as r over tokens": (
        change_errors(value_token_r=lambda e, m: e["value_r"]), {LOOP},
    ),
    "unseen share by size": (
        change_errors(unseen_share=lambda e, m: e["structural_bias"] ** 2), {LOOP},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_text_is_rejected(tiny, monkeypatch, name):
    (function, wrong), checks = WRONG[name]
    monkeypatch.setattr(module, function, wrong(getattr(module, function)))
    for check in checks:
        with pytest.raises(AssertionError):
            check(tiny, holed())


# One row by its definitions, at logits where a weight rounds to 1 and where all are far from 0.

ROWS = {
    "generic": [0.5, -1.25, 2.0, 0.25],
    "uniform": [0.0, 0.0, 0.0, 0.0],
    "large but similar": [60.0, 60.5, 59.75, 60.25],
    "very negative": [-60.0, -60.5, -59.75, -60.25],
    "one weight rounds to 1": [60.0, 1.0, 0.0, -2.0],
    "two share the weight": [60.0, 60.0, 1.0, -2.0],
}


U = [1.5, -2.0, 0.25, 3.0]


def check_row(exact, z, dtype):
    row = lambda x: torch.tensor(x, dtype=dtype)[None, None, None]
    got = exact(row(z), row(U), torch.ones(1, 1, 1, 4).bool())
    with mpmath.workdps(120):
        e = [mpmath.exp(x) for x in z]
        readout = lambda e: mpmath.fdot(e, U) / sum(e)
        put = lambda i, x: readout([x if k == i else e[k] for k in range(4)])
        o, weights = readout(e), [x / sum(e) for x in e]
        want = {
            "weights": weights,
            "removal": [o - put(i, 0) for i in range(4)],
            "zeroing": [o - put(i, 1) for i in range(4)],
            "value": [a * x for a, x in zip(weights, U, strict=True)],
            "unseen": [a * o for a in weights],
            "taylor": [z[i] * weights[i] * (U[i] - o) for i in range(4)],
        }
    # The exponential of 60 is off by 60 units where 60 is off by one; the rest is arithmetic.
    rtol = 64 * 60 * torch.finfo(dtype).eps
    for name, values in want.items():
        close(got[name].flatten().numpy(), [float(x) for x in values], rtol=rtol, atol=1e-30)


precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@precisions
@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_exact_where_weights_round_to_one(name, dtype):
    check_row(module._exact, ROWS[name], dtype)


@precisions
def test_one_minus_a_rounded_weight_is_rejected(dtype):
    def exact(z, u, keys):
        a, found = z.softmax(dim=-1), module._exact(z, u, keys)
        return found | {"removal": a / (1 - a) * (u - (a * u).sum(dim=-1, keepdim=True))}

    check_row(exact, ROWS["generic"], dtype)
    with pytest.raises(AssertionError):
        check_row(exact, ROWS["one weight rounds to 1"], dtype)


# What the theorems say about it.


def change(model, **parameters):
    """``model`` after adding tensors to parameters of the first readout, by child and name."""
    with torch.no_grad():
        for path, x in parameters.items():
            child, name = path.split("_")
            getattr(getattr(readout_of(model, 0), child), name).add_(x)
    return model


def with_uniform_attention(model):
    query = readout_of(model, 0).query
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


def shift_the_values(model):
    """The same function: what the next bias gets less, all values of the first layer have more."""
    c = torch.linspace(-2, 3, 8).double()
    dense = model.bert.encoder.layer[0].attention.output.dense
    change(model, value_bias=c)
    with torch.no_grad():
        dense.bias -= dense.weight @ c


def shift_the_logits(model):
    """The same function: the bias of the keys adds one number to all logits of a row."""
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


# How it is called.


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


def fail(*_):
    raise ArithmeticError("in mid-forward")


def test_an_exception_in_mid_forward_leaves_the_model_as_it_was(tiny, batch):
    before = snapshot(tiny)
    handle = tiny.bert.encoder.layer[1].output.register_forward_pre_hook(fail)
    with pytest.raises(ArithmeticError, match="in mid-forward"):
        softmax_errors(tiny, batch)
    handle.remove()
    assert_same(before, snapshot(tiny))


def with_own_attention():
    model = cases.tiny_bert()
    attention = readout_of(model, 1)
    attention.__class__ = type("OwnAttention", (type(attention),), {})
    return model


def in_train_mode():
    return cases.tiny_bert().train()


def one_token(batch):
    batch["attention_mask"][1, 1:] = 0
    return batch


def without_types(batch):
    return batch | {"token_type_ids": None}


plain = lambda batch: batch
BAD = {
    "train mode": (in_train_mode, plain, {}, "train mode", "model.eval()"),
    "no classifier": (lambda: cases.perturbed(BertModel), plain, {}, "model is a BertModel"),
    "a name": (lambda: "bert-base-uncased", plain, {}, "model is a str"),
    "MPNet": (mpnet, without_types, {}, "no attention that is known in MPNet", "BertSelfAttention"),
    "GPT-2": (
        lambda: cases.family("gpt2")[0], without_types, {}, "one key only in examples [0, 1]",
    ),
    "own attention": (with_own_attention, plain, {}, "no attention that is known", "BertSelf"),
    "logits of tokens": (
        lambda: cases.perturbed(BertForTokenClassification), plain, {}, "(batch, class)",
    ),
    "causal": (
        lambda: cases.tiny_bert(is_decoder=True), plain, {}, "one key only in examples [0, 1]",
    ),
    "one token": (cases.tiny_bert, one_token, {}, "one key only in examples [1]", "leave texts"),
    "class": (cases.tiny_bert, plain, {"target": 3}, "target [3] out of range", "0 to 2"),
    "label": (cases.tiny_bert, plain, {"target": "good"}, "target='good'", "pass None"),
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


def test_nested_use_is_an_error(tiny, batch):
    with scope.applied(tiny, ATTNLRP), pytest.raises(RuntimeError, match="leave the first scope"):
        softmax_errors(tiny, batch)
