"""Relevance at outputs of other people's modules: tuples, steps of functions, and hooks."""

import pytest
import torch
from torch import nn
from transformers import BertForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

from numeric import attribute
from tests.support import cases
from tests.support.cases import close
from tests.support.traces import NOTHING, listed

LAYERS = "bert.encoder.layer.*"


def with_part(part):
    """A model whose pooled output passes through ``part`` on its way to the classifier."""
    model = cases.tiny_bert()
    model.dropout = part.eval()
    return model


class Calls(nn.Module):
    """A module that computes with the output of its part."""

    def __init__(self, around, part=None):
        super().__init__()
        self.part, self.around = part or nn.Identity(), around

    def forward(self, x):
        return self.around(self.part, x)


class Returns(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward_of = function

    def forward(self, x):
        return self.forward_of(x)


POOLED = "bert.pooler"


def test_what_is_written_in_place_later_does_not_count(batch):
    """The output of a tanh, whose rule still waits."""
    writes, copies = with_part(Returns(lambda x: x.add_(1))), with_part(Returns(lambda x: x + 1))
    got, want = (
        attribute(model, batch, at=[POOLED, "dropout"]).inside for model in (writes, copies)
    )
    for path, r in want.items():
        close(got[path], r)
    assert not torch.allclose(got[POOLED], got["dropout"])  # 1 keeps its share


def test_what_passes_a_module_by_does_not_count(batch):
    model = with_part(Calls(lambda part, x: part(x) / 4 + 3 * x / 4))
    found = attribute(model, batch, at=[POOLED, "dropout.part"])
    close(found.inside["dropout.part"], found.inside[POOLED] / 4)
    close(found.relevance, attribute(model, batch).relevance)


def test_what_a_hook_of_the_user_changes_is_what_is_looked_at(batch):
    model = cases.tiny_bert()
    model.bert.pooler.register_forward_hook(lambda _m, _x, y: y + 1)
    found = attribute(model, batch, at=[POOLED, "dropout"]).inside
    close(found[POOLED], found["dropout"])  # dropout does nothing here


class ReadsStates(BertForSequenceClassification):
    """A head that reads the output of every layer, which hooks of Transformers keep."""

    def forward(self, **inputs):
        states = self.bert(**inputs, output_hidden_states=True).hidden_states
        return SequenceClassifierOutput(logits=self.classifier(sum(states)[:, 0]))


def test_states_that_transformers_keeps_are_what_the_layers_return(batch):
    model = cases.perturbed(ReadsStates)
    first = attribute(model, batch, at=LAYERS)
    model(**batch)
    assert model.bert.encoder.layer[0]._forward_hooks  # from now on, before ours
    again = attribute(model, batch, at=LAYERS)
    for path, r in again.inside.items():
        assert torch.equal(r, first.inside[path])
    assert r[:, 0].all()


def test_every_call_has_a_row_in_order():
    model, inputs = cases.family("albert")
    group = "albert.encoder.albert_layer_groups.0"
    found = attribute(model, inputs, at=["albert.pooler", group]).inside
    assert list(found) == [f"{group}#0", f"{group}#1", "albert.pooler"]
    assert not torch.allclose(found[f"{group}#0"], found[f"{group}#1"])


PACKED = {
    "tuple": (lambda x: (x, x + 1), lambda y: y[0]),
    "list": (lambda x: [None, x], lambda y: y[1]),
    "dict": (lambda x: {"n": 3, "x": x}, lambda y: y["x"]),
    "nested": (lambda x: ((3, x), x + 1), lambda y: y[0][1]),
    "named": (lambda x: x[:, None].max(dim=1), lambda y: y.values),
}


@pytest.mark.parametrize("kind", PACKED)
def test_of_several_outputs_the_first_tensor_is_read(batch, kind):
    pack, unpack = PACKED[kind]
    model = with_part(Calls(lambda part, x: unpack(part(x)), Returns(pack)))
    found = attribute(model, batch, at=[POOLED, "dropout.part"])
    close(found.inside["dropout.part"], found.inside[POOLED])
    assert torch.equal(found.relevance, attribute(model, batch).relevance)


# Where there is nothing to look at


ODD = {
    "returns a product of two activations, which its user splits": (
        lambda x: x[:, :, None] @ x[:, None, :],
        lambda part, x: part(x).sum(dim=-1),
    ),
    "has relevance that is not finite": (
        lambda x: nn.functional.pad(x, (0, 1), value=-torch.inf),
        lambda part, x: part(x)[:, :-1],
    ),
    NOTHING: (lambda x: [x.shape], lambda part, x: part(x) and x),
}


@pytest.mark.parametrize("reason", ODD)
def test_what_a_module_returns_may_be_nothing_to_read_relevance_at(batch, reason):
    returned, around = ODD[reason]
    model = with_part(Calls(around, Returns(returned)))
    assert attribute(model, batch).relevance.any()
    assert listed(model, batch, "attnlrp", "dropout.part") == {"dropout.part": reason}


STEP = "returns a step of a function whose rule is for the whole"
STEPS = {
    "GELU": (torch.tanh, lambda part, x: 0.5 * x * (1 + part(0.8 * x))),
    "sum": (torch.tanh, lambda part, x: x + part(x)),
    "straight": (lambda x: x + 1, lambda part, x: x * part(x)),
    "inner": (torch.tanh, lambda part, x: x * torch.sigmoid(part(x))),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_an_activation_that_is_spelled_out_is_no_place_to_look_at(batch, name):
    step, around = STEPS[name]
    model = with_part(Calls(around, Returns(step)))
    assert listed(model, batch, "attnlrp", ["dropout.part"]) == {"dropout.part": STEP}
    whole = attribute(model, batch, at="dropout", epsilon=0.1)
    close(whole.relevance, attribute(model, batch, epsilon=0.1).relevance)


def in_steps(line):
    return with_part(nn.Sequential(nn.Tanh(), Returns(line), nn.GELU()))


def test_a_function_is_looked_at_after_every_step_that_keeps_nothing(batch):
    model = in_steps(lambda x: 3 * x)
    found = attribute(model, batch, at="dropout.*")
    close(found.inside["dropout.0"], found.inside["dropout.2"])
    close(found.relevance, attribute(model, batch).relevance)


def test_a_constant_within_a_function_keeps_nothing_and_is_no_place_to_look_at(batch):
    model = in_steps(lambda x: 3 * x + 1)
    assert listed(model, batch, "attnlrp", "dropout.*") == {"dropout.1": STEP}
    found = attribute(model, batch, at=["dropout.0", "dropout.2"])
    close(found.relevance, attribute(model, batch).relevance)
