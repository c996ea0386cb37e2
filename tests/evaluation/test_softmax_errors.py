"""The errors of softmax propagation against loops, removal, and exact numbers."""

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

    with readout_of(model, layer).register_forward_hook(add), torch.no_grad():
        logits = model(**batch).logits
    return logits[example, TARGET[example]].item()


@pytest.mark.parametrize("check", [check_the_loop, check_real_removal])
@pytest.mark.parametrize("texts", [cases.tiny_batch, holed])
def test_messages_and_errors_are_what_they_are_called(tiny, texts, check):
    check(tiny, texts())


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_exact_where_weights_round_to_one(name, dtype):
    row, z = lambda x: torch.tensor(x, dtype=dtype)[None, None, None], ROWS[name]
    got = module._exact(row(z), row(U), torch.ones(1, 1, 1, 4).bool())
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
