"""What is known of a family is known of its class, wherever its model stands."""

import importlib

import pytest
import torch

from numeric.models import check_model
from numeric.stock import families
from tests.support import cases


def test_positions_that_are_counted_from_padding_are_found_at_any_depth():
    model, inputs = cases.family("roberta")
    ids = inputs["input_ids"]
    within = torch.nn.ModuleDict({"classifier": model})
    found = families.position_ids(within, ids)
    assert found.equal(families.position_ids(model, ids))
    assert (found != torch.arange(ids.shape[1])).any()
    assert families.position_ids(cases.family("bert")[0], ids) is None


@pytest.mark.parametrize("name", cases.ALL)
def test_modules_come_as_torch_names_them_shared_ones_once(name):
    model, _ = cases.family(name)
    model.again = next(model.children())
    assert check_model(model) == list(model.named_modules())


@pytest.mark.parametrize("name", [*families.FAMILIES, *families.ATTENTION, *families.JOINS])
def test_what_is_known_is_known_of_a_class_of_transformers(name):
    model, _, cls = name.partition(".")
    module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    assert families.name(getattr(module, cls)) == name


def test_a_subclass_is_not_what_it_is_made_from():
    model, _ = cases.family("bert")
    mine = type("BertForSequenceClassification", (type(model),), {"__module__": "mine"})
    assert families.reads(model) == families.FIRST
    assert families.name(mine) == ""
