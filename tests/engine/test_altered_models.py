"""Explains or refuses models with altered tables, heads and inner tensors."""

import copy
from functools import partial
from types import MethodType

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize

from axioms.composites import UnassignedOperation
from numeric import attribute
from tests.support import cases
from tests.support import user_code as own
from tests.support.traces import contains, refused
from tests.support.uses import case, put

METHODS = [
    ("gradient-x-input", {}), ("attnlrp", {"share": "word"}), ("attnlrp", {"positions": "signed"}),
    ("cp-lrp", {}),
]  # fmt: skip


class AdaptedTable(nn.Module):
    """Rows of a table, and beside them rows of a small one by a matrix, as LoRA has them."""

    def __init__(self, base):
        super().__init__()
        drawn = torch.Generator().manual_seed(5)
        draw = lambda *shape: torch.randn(*shape, generator=drawn, dtype=base.weight.dtype) / 4
        self.base, self.scaling = base, 2.0
        self.a = nn.Parameter(draw(3, base.num_embeddings))
        self.b = nn.Parameter(draw(base.embedding_dim, 3))

    weight = property(lambda self: self.base.weight)

    def forward(self, ids):
        return self.base(ids) + (functional.embedding(ids, self.a.T) @ self.b.T) * self.scaling

    def merged(self):
        table = copy.deepcopy(self.base)
        table.weight.data += self.scaling * (self.b @ self.a).T
        return table


PATHS = {"bert": "bert.embeddings.word_embeddings", "roberta": "roberta.embeddings.word_embeddings"}


@pytest.mark.parametrize("name", PATHS)
def test_an_adapter_of_the_words_is_a_part_of_the_words(name):
    (model, inputs), path = cases.family(name), PATHS[name]
    adapted = put(copy.deepcopy(model), path, AdaptedTable)
    merged = put(copy.deepcopy(model), path, lambda table: AdaptedTable(table).merged())
    for method, options in METHODS:
        found, want = (
            attribute(x, inputs, method, 1, **options).relevance for x in (adapted, merged)
        )
        torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-12, msg=method)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_a_parametrized_table_of_words_is_the_table(name):
    model, inputs = case(name)
    plain = copy.deepcopy(model)
    plain.get_input_embeddings().weight.data *= 2
    parametrize.register_parametrization(model.get_input_embeddings(), "weight", own.Doubled())
    model.eval()
    for method in ("attnlrp", "gradient-x-input"):
        found, want = (attribute(x, inputs, method, 1).relevance for x in (model, plain))
        torch.testing.assert_close(found, want, rtol=1e-9, atol=1e-12)


class GatedHead(nn.Module):
    """A head that maps each row alone, by ``torch.vmap`` or not."""

    def __init__(self, base, *, run, outside):
        super().__init__()
        self.base, self.run, self.outside = base, run, outside

    def forward(self, x):
        if self.outside:  # an activation that is not mapped
            return self.base(self.run(lambda row: torch.cat([row * x[0], row])[: len(row)])(x))
        return self.base(self.run(lambda row: functional.gelu(row) * row)(x))


def looped(function):
    return lambda x: torch.stack([function(row) for row in x])


@pytest.mark.parametrize("outside", [False, True])
def test_functions_of_activations_inside_vmap_have_no_rule(outside):
    model, inputs = case("bert")
    heads = [
        put(copy.deepcopy(model), "classifier", partial(GatedHead, run=run, outside=outside))
        for run in (looped, torch.vmap)
    ]
    assert attribute(heads[0], inputs, "attnlrp", 1).relevance.isfinite().all()
    for method in ("attnlrp", "gradient-x-input"):
        message = refused(UnassignedOperation, heads[1], inputs, method)
        contains(message, "mul inside torch.vmap or torch.func", "without them")


def test_functions_of_constants_inside_vmap_are_constants():
    model, inputs = case("bert")
    gate = torch.linspace(0.5, 1.5, model.config.hidden_size, dtype=torch.float64)
    layer = model.bert.encoder.layer[0]
    hook = layer.register_forward_hook(scaled(2 * gate))
    want = attribute(model, inputs, "attnlrp", 1).relevance
    hook.remove()
    mapped = lambda module, args, out: scaled(torch.vmap(lambda x: 2 * x)(gate))(module, args, out)
    layer.register_forward_hook(mapped)
    assert torch.equal(attribute(model, inputs, "attnlrp", 1).relevance, want)


def scaled(gate):
    def change(_module, _inputs, output):
        first, *rest = output if isinstance(output, tuple) else (output,)
        return (first * gate, *rest) if rest else first * gate

    return change


@pytest.mark.parametrize("options", [{}, {"checkpoint": True}], ids=str)
def test_a_tensor_that_needs_gradients_beside_the_words_is_refused(options):
    model, inputs = case("bert")
    gate = torch.linspace(0.5, 1.5, model.config.hidden_size, dtype=torch.float64)
    model.bert.encoder.layer[0].register_forward_hook(scaled(gate))
    want = attribute(model, inputs, "attnlrp", 1, **options).relevance
    gate.requires_grad_()
    message = refused(ValueError, model, inputs, **options)
    contains(message, "1 tensors that need gradients", str(tuple(gate.shape)), "nn.Parameter")
    plain = attribute(model, inputs, "gradient-x-input", 1).relevance  # shares no product
    gate.requires_grad_(requires_grad=False)
    assert torch.equal(attribute(model, inputs, "attnlrp", 1, **options).relevance, want)
    assert torch.equal(attribute(model, inputs, "gradient-x-input", 1).relevance, plain)


def test_a_weight_that_is_computed_with_gradients_is_refused():
    model, inputs = cases.family("gpt2")
    dense = model.transformer.h[0].mlp.c_fc
    want = attribute(model, inputs, "attnlrp", 1).relevance
    trained = nn.Parameter(dense.weight.detach() / 2)
    del dense.weight
    dense.weight = 2 * trained
    contains(refused(ValueError, model, inputs), "1 tensors that need gradients")
    dense.weight = (2 * trained).detach()
    assert torch.equal(attribute(model, inputs, "attnlrp", 1).relevance, want)


def test_a_compiled_forward_is_refused():
    model, inputs = case("bert")
    model.forward = torch.compile(model.forward, backend="eager")
    contains(refused(ValueError, model, inputs), "compiled: 1 modules, first (root)")
    del model.forward
    want = attribute(model, inputs, "attnlrp", 1).relevance
    model.forward = torch.compiler.disable(model.forward)
    assert torch.equal(attribute(model, inputs, "attnlrp", 1).relevance, want)


class Around:
    """Code of a user that holds a module and stands in for its forward."""

    def __init__(self, module):
        self.module, self.plain = module, module.forward

    def forward(self, *args, **kwargs):
        return self.plain(*args, **kwargs)

    __call__ = forward


@pytest.mark.parametrize(
    "stands_in",
    [
        lambda x: Around(x).forward,
        Around,
        lambda x: partial(Around(x)),
        lambda x: partial(Around(x).forward),
    ],
)
def test_a_forward_that_holds_a_module_outside_of_modules_has_no_twin(stands_in):
    model, inputs = case("bert")
    layer = model.bert.encoder.layer[0]
    want = attribute(model, inputs, "attnlrp", 1).relevance
    layer.forward = stands_in(layer)
    assert torch.equal(attribute(model, inputs, "attnlrp", 1).relevance, want)
    message = refused(ValueError, model, inputs, at="bert.encoder.layer.1")
    contains(message, "replaced forward of 1 modules, bert.encoder.layer.0")
    at = ["bert.encoder.layer.0.output", "bert.encoder.layer.1"]
    del layer.forward
    inside = attribute(model, inputs, "attnlrp", 1, at=at).inside
    for forward in (layer.forward, partial(layer.forward), MethodType(type(layer).forward, layer)):
        layer.forward = forward
        found = attribute(model, inputs, "attnlrp", 1, at=at)
        assert torch.equal(found.relevance, want)
        assert all(torch.equal(found.inside[path], inside[path]) for path in at)
