"""Accelerate, which most users of Transformers have installed: models that it places and hooks."""

import accelerate
import pytest
import torch
from accelerate.hooks import ModelHook, add_hook_to_module

from numeric import attribute
from numeric.models.identity import is_stock
from tests.support import cases

PLACED = {
    "weights that wait elsewhere": lambda model: accelerate.cpu_offload(model, "cpu"),
    "one device": lambda model: accelerate.dispatch_model(model, {"": "cpu"}, force_hooks=True),
    "one hook": lambda model: add_hook_to_module(model.bert.encoder.layer[0], ModelHook()),
}


def test_a_stock_model_is_known_beside_accelerate():
    model, _ = cases.family("bert")
    assert is_stock(model)


@pytest.mark.parametrize("method", ["attnlrp", "loo"])
@pytest.mark.parametrize("name", PLACED)
def test_a_placed_model_is_explained_alike_and_no_shortcut_knows_it(name, method):
    model, batch = cases.family("bert")
    want = attribute(model, batch, method).relevance
    PLACED[name](model)
    assert not is_stock(model)
    torch.testing.assert_close(attribute(model, batch, method).relevance, want)
