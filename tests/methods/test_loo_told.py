"""Leave-One-Out tells losses as they come, and ends where its listener raises an error."""

import copy

import pytest
import torch

from benchmarks.sources import data
from numeric import attribute, explain
from numeric.targets import logit

TEXTS = ["not a bad film", "a film"]


@pytest.fixture(scope="module", params=["loaded", "lm"])
def each_model(request):
    return request.getfixturevalue(request.param)


def inputs_of(loaded):
    if loaded.name == "embedded":
        return loaded.tokenizer(TEXTS, return_tensors="pt", padding=True)
    return loaded.tokenizer(["anna apple bert pen ; anna"], return_tensors="pt")


@pytest.mark.parametrize(("size", "options"), [
    (1, {}), (2, {}), (100, {}), (2, {"budget": 3}), (2, {"removal": 5}),
    (2, {"dtype": "bfloat16"}),
])  # fmt: skip
def test_the_losses_that_are_told_are_the_relevance(each_model, size, options):
    inputs, told = inputs_of(each_model), []
    a = attribute(
        each_model.model, inputs, "loo", batch_size=size, each=lambda *x: told.append(x), **options
    )
    assert "each" not in a.options
    assert all(len(example) <= size for example, _, _ in told)
    example, part, lost = (torch.cat(x) for x in zip(*told, strict=True))
    if "budget" in options:
        passes = a.details["passes"].tolist()
        assert example.bincount().tolist() == passes
    own = part.sum(dim=1) == 1
    again = torch.zeros_like(a.relevance)
    again[example[own], part[own].int().argmax(dim=1)] = lost[own, 0].to(again)
    alone = a.details.get("by_token", inputs["attention_mask"]) == 1
    assert torch.equal(again[alone], a.relevance[alone])
    if not options:
        plain = attribute(each_model.model, inputs, "loo")
        assert torch.allclose(plain.relevance, a.relevance, atol=1e-5)


def test_parts_of_a_text_behind_the_row_that_is_read_lose_nothing(lm):
    inputs = inputs_of(lm)
    target, options = logit(5, at=1), {"batch_size": 2, "each": lambda *_: None}
    found = attribute(lm.model, inputs, "loo", target, **options)
    whole = attribute(lm.model, inputs, "loo", target).relevance
    assert torch.allclose(found.relevance, whole, atol=1e-5)
    assert found.relevance[:, 2:].abs().max() < 1e-5


def test_an_error_of_the_listener_ends_the_passes(each_model):
    class Enough(Exception):
        pass

    told = []

    def each(*found):
        told.append(found)
        if len(told) == 2:
            raise Enough

    with pytest.raises(Enough):
        attribute(each_model.model, inputs_of(each_model), "loo", batch_size=1, each=each)
    assert len(told) == 2


def test_a_result_that_was_told_is_saved(loaded, tmp_path):
    how = {"method": "loo", "each": lambda *_: None}
    a = explain(loaded.model, loaded.tokenizer, TEXTS[0], **how)
    a.save(tmp_path / "a.safetensors")
    assert torch.equal(type(a).load(tmp_path / "a.safetensors").relevance, a.relevance)


def test_a_token_that_moves_no_rounded_logit_is_no_sign_of_a_dropped_mask(lm):
    model = copy.deepcopy(lm.model).bfloat16()
    text = next(x for x in data.load().texts if len(lm.tokenizer(x)["input_ids"]) == 16)
    inputs = lm.tokenizer([text], return_tensors="pt")
    told = []
    attribute(model, inputs, "loo", batch_size=1, each=lambda *x: told.append(x[2].item()))
    assert 0 in told
