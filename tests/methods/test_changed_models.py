"""A changed model is explained as the function that it now computes, or refused."""

import copy
from functools import partial

import numpy as np
import pytest
import torch

from axioms.composites import UnassignedOperation
from numeric import attribute
from tests.support.cases import close
from tests.support.user_changes import CASES, changed, with_hooks_that_look
from tests.support.uses import USES

pytestmark = pytest.mark.filterwarnings("ignore:attention_mask hides the first column")
TARGET = 1
SINGLE = {"bert": 1e-9, "llama": 1e-5}  # LLaMA passes through float32


@pytest.fixture
def case(request, monkeypatch):
    model, inputs = changed(*request.param, monkeypatch)
    yield model, inputs, SINGLE[request.param[1]]
    getattr(model, "undo", lambda: None)()


of_every_change = pytest.mark.parametrize("case", CASES, ids="-".join, indirect=True)


def by_loops(model, inputs):
    """Leave-One-Out, gradient x input and Integrated Gradients, one text and one pass at a time."""
    embed = model.get_input_embeddings()
    loo, gradient, integrated = [], [], []
    for row, mask in enumerate(inputs["attention_mask"]):
        one = {key: x[row, None] for key, x in inputs.items()}
        with torch.no_grad():
            whole = model(**one).logits[0, TARGET]
            without = [
                model(**one | {"attention_mask": one["attention_mask"].index_fill(1, n, 0)})
                for n in torch.arange(mask.shape[0])
            ]
        loo.append((whole - torch.stack([x.logits[0, TARGET] for x in without])) * mask)
        end = embed(one.pop("input_ids")).detach()
        total = torch.zeros_like(end)
        for node, weight in zip(*np.polynomial.legendre.leggauss(3), strict=True):
            total += weight / 2 * slope(model, (node + 1) / 2 * end, one)
        integrated.append((end * total).sum(-1)[0] * mask)
        gradient.append((end * slope(model, end, one)).sum(-1)[0] * mask)
    return {
        "loo": torch.stack(loo),
        "gradient-x-input": torch.stack(gradient),
        "integrated-gradients": torch.stack(integrated),
    }


def slope(model, words, rest):
    words = words.clone().requires_grad_()
    logit = model(inputs_embeds=words, **rest).logits[0, TARGET]
    return torch.autograd.grad(logit, words)[0]


REFUSED = {"a function of torch", "a column of a method of tensors"}
"""Changes that methods by rules refuse."""


@of_every_change
def test_relevance_is_the_plain_loop(case, request):
    model, inputs, tolerance = case
    options = {"integrated-gradients": {"steps": 3}}
    for method, want in by_loops(model, inputs).items():
        explain = partial(attribute, model, inputs, method, TARGET, **options.get(method, {}))
        if method == "gradient-x-input" and request.node.callspec.id.split("-")[0] in REFUSED:
            with pytest.raises(UnassignedOperation, match="in place of a function of torch"):
                explain()
            continue
        found = explain().relevance
        assert (found - want).abs().max() <= tolerance * want.abs().max(), method


def outcome(use, model, inputs):
    try:
        return use(model, inputs)
    except (ValueError, UnassignedOperation) as error:
        return type(error)


@of_every_change
def test_a_copy_or_a_hook_that_looks_changes_nothing(case):
    model, inputs, tolerance = case
    for name, use in USES.items():
        want = outcome(use, model, inputs)
        for other in (copy.deepcopy, with_hooks_that_look):
            found = outcome(use, other(model), inputs)
            if isinstance(want, type) or isinstance(found, type):
                assert found is want, (name, other)
            else:
                close(found, want, tolerance=tolerance)


@of_every_change
def test_a_sweep_is_attribute_by_each_composite(case):
    model, inputs, tolerance = case
    found = outcome(USES["sweep"], model, inputs)
    for number, method in enumerate(("attnlrp", "cp-lrp")):
        want = outcome(USES[method], model, inputs)
        if not isinstance(found, type):
            close(found[number], want, tolerance=tolerance)
