"""The errors of softmax propagation against loops and removal; wrong ones are rejected."""

from dataclasses import replace
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
import torch

from numeric.evaluation import softmax_errors as module
from numeric.evaluation.softmax_errors import row_messages, softmax_errors
from tests.support import cases
from tests.support.softmax_loop import (
    FIELDS,
    MESSAGES,
    TARGET,
    activations,
    close,
    loop,
    readout_of,
    softmax,
)


def holed():
    """Two texts of 6 and 3 tokens, one of them with a token masked out in its middle."""
    batch = cases.tiny_batch()
    batch["attention_mask"][0, 3] = 0
    return batch


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
    return lambda seen, gradient, present: right(
        replace(seen, keys=torch.ones_like(seen.keys)), gradient, present
    )


def count_padding_as_queries(right):
    everything = torch.ones(2, 6).bool()
    return lambda seen, gradient, _: right(seen, gradient, everything)


def scaling_forgotten(right):
    return lambda seen, gradient, present: right(replace(seen, scaling=1.0), gradient, present)


def predicted_class(right):
    return SimpleNamespace(of=lambda model, batch, _targets: right.of(model, batch, [None]))


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
    "another class": (("Readout", predicted_class), {LOOP, REMOVAL}),
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
