"""With ``midpoint`` the gradient is that of a pass in which masks are a half."""

import math

import pytest
import torch

from numeric import attribute
from tests.census.measure import conditions
from tests.methods.test_mask_relevance import (
    ANY,
    CAUSAL,
    CLASSES,
    METHOD,
    Watched,
    by_loops,
    made,
    read,
)
from tests.support.cases import close


class Halved(Watched):
    """Every ``count``-th token of a text, from the ``first``, has half of its weight elsewhere."""

    def __init__(self, present, *, count=1, first=0):
        super().__init__(present.shape[1])
        chosen = (present.cumsum(dim=1) - 1) % count == first
        others = 1 - torch.eye(self.tokens, dtype=torch.float64)
        self.added = chosen[:, None] * others * math.log(0.5)

    def _weights(self, z):
        scores = z.reshape(len(self.added), -1, *z.shape[-2:]).clone()
        scores[..., : self.tokens] += self.added[:, None]
        self.found.append(torch.softmax(scores.reshape(z.shape), dim=-1))
        return self.found[-1]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("name", "task"), [("bert", CLASSES), *ANY])
def test_weights_are_those_of_the_text_and_gradients_those_of_half_masks(name, task, count):
    model, batch = made(name, task)
    with conditions():
        a = attribute(model, batch, METHOD, midpoint=count)
    present = batch["attention_mask"]
    plain = Watched(present.shape[1])
    read(model, batch, a.target, watched=plain)
    want = torch.zeros_like(a.relevance)
    for first in range(count):
        halved = Halved(present, count=count, first=first)
        logits = read(model, batch, a.target, watched=halved)
        chosen = (present.cumsum(dim=1) - 1) % count == first
        layers = zip(plain.found, torch.autograd.grad(logits.sum(), halved.found), strict=True)
        for weights, gradients in layers:
            by_text = [
                x.detach().reshape(len(want), -1, *x.shape[-2:]) for x in (weights, gradients)
            ]
            for row, heads in enumerate(zip(*by_text, strict=True)):
                for head in zip(*heads, strict=True):
                    part = by_loops(*(x.numpy() for x in head))
                    want[row] += torch.tensor(part)[: want.shape[1]] * chosen[row]
    close(a.relevance, want * present, tolerance=1e-9)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_does_not_change_which_tokens_are_halved_together(side):
    model, batch = made("opt", CAUSAL)  # which counts positions by the mask
    text = batch["input_ids"][:1, :5]
    place = (1, 0) if side == "left" else (0, 1)
    pad = lambda x: torch.nn.functional.pad(x, place)
    padded = {"input_ids": pad(text), "attention_mask": pad(torch.ones_like(text))}
    with conditions():
        alone = attribute(model, {"input_ids": text}, METHOD, midpoint=2)
        a = attribute(model, padded, METHOD, target=alone.target, midpoint=2)
    close(a.relevance[:, padded["attention_mask"][0] == 1], alone.relevance, tolerance=1e-12)


def test_there_are_no_more_passes_than_tokens():
    model, batch = made("bert", CLASSES)
    tokens = batch["input_ids"].shape[1]
    ran = []
    model.register_forward_hook(lambda *_: ran.append(1))
    with conditions():
        each = attribute(model, batch, METHOD, midpoint=tokens)
        count = len(ran)
        more = attribute(model, batch, METHOD, midpoint=tokens + 5)
    assert len(ran) == 2 * count
    close(more.relevance, each.relevance)


@pytest.mark.parametrize("midpoint", [-1, 1.0, True])
def test_the_number_of_passes_is_a_whole_number(midpoint):
    model, batch = made("bert", CLASSES)
    with pytest.raises(ValueError, match="the number of passes at half masks, such as 1"):
        attribute(model, batch, METHOD, midpoint=midpoint)


def test_a_model_that_attends_elsewhere_at_half_masks_is_refused():
    model, batch = made("bert", CLASSES)
    runs = []

    def twice(module, inputs):
        runs.append(module)
        if len(runs) > 1:
            torch.softmax(inputs[0], dim=-1)

    model.get_submodule("bert.encoder.layer.0").register_forward_pre_hook(twice)
    one = {name: x[:1] for name, x in batch.items()}
    with pytest.raises(ValueError, match="in 3 calls instead of 2; pass midpoint=0"):
        attribute(model, one, METHOD, midpoint=1)
