"""A changed model is explained as the function that it now computes, or refused."""

import copy
from functools import partial, reduce

import numpy as np
import pytest
import torch

from axioms.composites import UnassignedOperation
from numeric import attribute
from tests.support import cases
from tests.support import user_code as own
from tests.support.cases import close
from tests.support.loops import left_out, logits_of
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
    """Leave-One-Out, gradient x input and Integrated Gradients, by one pass for each change."""
    rest = dict(inputs)
    end = model.get_input_embeddings()(rest.pop("input_ids")).detach()

    def slope(words):
        words = words.clone().requires_grad_()
        logits = model(inputs_embeds=words, **rest).logits[:, TARGET]
        return torch.autograd.grad(logits.sum(), words)[0]

    nodes, weights = np.polynomial.legendre.leggauss(3)
    total = sum(w / 2 * slope((x + 1) / 2 * end) for x, w in zip(nodes, weights, strict=True))
    read = lambda gradient: (end * gradient).sum(-1) * inputs["attention_mask"]
    return {
        "loo": left_out(inputs, logits_of(model, TARGET)),
        "gradient-x-input": read(slope(end)),
        "integrated-gradients": read(total),
    }


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
def test_a_copy_or_a_hook_that_looks_changes_nothing_and_a_sweep_is_each_method(case):
    model, inputs, tolerance = case
    wanted = {name: outcome(use, model, inputs) for name, use in USES.items()}
    for name, use in USES.items():
        want = wanted[name]
        others = (copy.deepcopy, with_hooks_that_look)  # the second copies, too
        for other in others[name == "audit" :]:  # an audit takes long
            found = outcome(use, other(model), inputs)
            if isinstance(want, type) or isinstance(found, type):
                assert found is want, (name, other)
            else:
                close(found, want, tolerance=tolerance)
    if not isinstance(wanted["sweep"], type):
        for number, method in enumerate(("attnlrp", "cp-lrp")):
            close(wanted["sweep"][number], wanted[method], tolerance=tolerance)


class Mean(torch.nn.Module):
    def forward(self, states):
        return states.mean(dim=1).tanh()


def test_rollout_has_the_row_that_a_pooler_of_the_user_reads():
    model, inputs = cases.tiny_bert(), cases.first(cases.tiny_batch())
    plain = attribute(model, inputs, "attention-rollout")
    model.bert.pooler = own.LastToken().eval()
    found = attribute(model, inputs, "attention-rollout")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = model(**inputs, output_attentions=True).attentions
    rollout = reduce(lambda below, a: a @ below, (a.mean(dim=1) for a in attentions))
    close(found.relevance, rollout[:, -1])
    assert not torch.allclose(found.relevance, plain.relevance)
    model.bert.pooler = Mean().eval()
    with pytest.raises(ValueError, match="of one token"):
        attribute(model, inputs, "attention-rollout")
