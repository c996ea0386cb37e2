"""All uses of a model, by name, and models that are compared by them."""

from functools import partial

import torch

from axioms.composites import ATTNLRP, CP_LRP
from numeric import attribute, audit, compiled, sweep
from numeric.methods.catalogue import METHODS
from tests.support import cases

BY_RULES = ["attnlrp", "cp-lrp", "gradient-x-input"]


def relevance(model, inputs, method="attnlrp", **options):
    return attribute(model, inputs, method, 1, **options).relevance


def swept(model, inputs):
    return sweep(model, inputs, [ATTNLRP, CP_LRP], 1).relevance


def audited(model, inputs):
    return torch.tensor(audit(model, cases.first(inputs), target=1).relevance)


def in_a_block(model, inputs):
    with compiled(model, disable=True) as explain:
        return explain(inputs)


USES = {method: partial(relevance, method=method) for method in METHODS}
USES |= {"finite epsilon": partial(relevance, epsilon=0.25), "sweep": swept, "audit": audited}


def case(name):
    """A model and a batch that every method takes, of a decoder without padding."""
    model, inputs = cases.family(name)
    if name == "llama":
        inputs = {key: x[:, :4] for key, x in inputs.items()}
    return model, inputs


def assert_alike(got, want, rtol=1e-9):
    assert got.isfinite().all()
    assert (got - want).abs().max() <= rtol * want.abs().max()


def put(model, path, make):
    model.set_submodule(path, make(model.get_submodule(path)))
    return model.eval()
