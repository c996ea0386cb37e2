"""The public block: in it, plain autograd of the user's own code propagates relevance."""

import inspect
import textwrap
import warnings

import pytest
import torch

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, Composite, UnassignedOperation
from numeric import attribute, propagation
from tests.layers.test_families import SUMS, gradient_x_input
from tests.support import cases
from tests.support.traces import assert_same, snapshot

ALL = list(cases.FAMILIES)


def by_token(x, gradient, inputs):
    return (x * gradient).sum(-1).detach() * inputs.get("attention_mask", 1)


GIVEN = [(name, method, 0.0) for name in ALL for method in ("attnlrp", CP_LRP)]
GIVEN += [("bert", "cp-lrp", 0.1)]


@pytest.mark.parametrize(("name", "method", "epsilon"), GIVEN)
def test_gradients_of_many_passes_are_the_relevance_that_attribute_gives(name, method, epsilon):
    model, inputs = cases.family(name)
    want, before = attribute(model, inputs, method, [1, 1], epsilon=epsilon), snapshot(model)
    with propagation(model, method, epsilon=epsilon):
        found = [gradient_x_input(model, inputs, SUMS[name], want.target) for _ in range(2)]
    assert_same(before, snapshot(model))
    for each in found:
        assert torch.equal(each * inputs.get("attention_mask", 1), want.relevance)


def test_the_example_in_the_documentation_runs():
    model, inputs = cases.family("bert")
    found = {"propagation": propagation, "torch": torch, "model": model, "inputs": inputs}
    lines = inspect.getdoc(propagation).splitlines()
    code = textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))
    assert len(code.splitlines()) == 5
    exec(code, found)
    assert found["relevance"].shape == inputs["input_ids"].shape
    found["model"], _ = cases.without_biases("bert")
    exec(code.replace("propagation(model)", 'propagation(model, "cp-lrp")'), found)
    torch.testing.assert_close(found["relevance"][0].sum(), found["logit"].detach())


WAYS = {
    "grad": lambda logit, x: torch.autograd.grad(logit, x)[0],
    "grad of lists": lambda logit, x: torch.autograd.grad([logit], [x])[0],
    "named": lambda logit, x: torch.autograd.grad(outputs=logit, inputs=x)[0],
}


def by_backward(logit, x):
    logit.backward()
    return x.grad


def by_the_function_backward(logit, x):
    torch.autograd.backward([logit])
    return x.grad


def by_a_hook(logit, x):
    torch.autograd.backward(logit)
    return x.seen[0]


WAYS |= {"backward": by_backward, "function": by_the_function_backward, "hook": by_a_hook}


@pytest.mark.parametrize("way", WAYS)
def test_all_relevance_is_found_behind_an_activation_function_in_every_way_to_ask(way):
    """Its output is a rule that still waits for its use when a hook sees it."""
    model, inputs = cases.without_biases("bert")
    one, kept = cases.first(inputs), []

    def keep(module, args, x):
        assert x.requires_grad
        x.retain_grad()
        x.seen = []
        x.register_hook(x.seen.append)
        kept.append(x)

    with propagation(model, CP_LRP):
        hook = model.bert.pooler.activation.register_forward_hook(keep)
        logit = model(**one).logits[0, 2]
        hook.remove()
        gradient = WAYS[way](logit, kept[0])
    torch.testing.assert_close((kept[0] * gradient).sum().detach(), logit.detach())


def capped(model):
    """The model with a soft cap of its logits as the last operation."""

    class Capped(type(model)):
        def forward(self, *args, **kwargs):
            output = super().forward(*args, **kwargs)
            output.logits = 2 * torch.tanh(output.logits / 2)
            return output

    model.__class__ = Capped
    return model


def test_what_the_last_operation_leaves_waiting_acts_when_the_logit_is_taken():
    model, inputs = cases.without_biases("bert")
    model, seen = capped(model), []
    one = cases.first(inputs)
    with propagation(model, CP_LRP):
        model.classifier.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
        logits = model(**one).logits
        with_index = torch.autograd.grad(logits[0, 1], seen, retain_graph=True)[0]
        cotangent = torch.tensor([[0.0, 1.0, 0.0]], dtype=logits.dtype)
        at_once = torch.autograd.grad(logits, seen, cotangent)[0]
    assert torch.equal(with_index, at_once)
    torch.testing.assert_close((seen[0] * at_once).sum().detach(), logits[0, 1].detach())


def test_relevance_reaches_an_input_of_the_user():
    model, inputs = cases.family("llama")
    ids = inputs.pop("input_ids")
    x = model.get_input_embeddings()(ids).detach().requires_grad_()
    want = attribute(model, inputs | {"input_ids": ids}, target=1)
    with propagation(model):
        logits = model(inputs_embeds=x, **inputs).logits
        logit = logits[:, 1].sum()
        (gradient,) = torch.autograd.grad(logit, x)
    assert gradient.abs().max() > 0
    last = model(inputs_embeds=x, **inputs).logits  # reads the last token, padding or not
    torch.testing.assert_close(logits, last, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(by_token(x, gradient, inputs)[0], want.relevance[0])


def test_relevance_of_scores_is_refused_because_the_softmax_decides_on_it():
    q, k = (torch.ones(2, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    model, _ = cases.family("bert")
    with propagation(model):
        scores = q @ k.mT
        logit = (scores.softmax(-1) @ k).sum()
        for ask in (
            lambda: torch.autograd.grad(logit, scores),
            lambda: logit.backward(inputs=[scores]),
            scores.retain_grad,
            lambda: scores.register_hook(print),
        ):
            with pytest.raises(ValueError, match="at a product of two activations"):
                ask()
        halves = torch.autograd.grad(scores.sum(), [q, k])  # nothing uses it: any other product
    for x, c in zip((q, k), halves, strict=True):
        torch.testing.assert_close((x * c).sum().item(), scores.sum().item() / 2)


def test_what_cannot_be_propagated_is_refused():
    model, inputs = cases.family("bert")
    for given, says in (
        ({"model": model, "method": "loo"}, "'loo' has no rules; pass attnlrp"),
        ({"model": model, "epsilon": -1}, "the stabiliser must be finite"),
        ({"model": cases.tiny_bert().train()}, r"train mode: .* call model.eval"),
    ):
        with pytest.raises(ValueError, match=says):
            propagation(**given)
    rules = {kind: rule for kind, rule in ATTNLRP.rules.items() if kind != kinds.SOFTMAX}
    lacking = propagation(model, Composite("lacking", rules))
    with pytest.raises(UnassignedOperation, match="Add an entry for: softmax"), lacking:
        model(**inputs)


READ_BY_CAPTUM = SUMS | {"gpt2": "transformer.drop", "vit": "vit.embeddings.dropout"}
"""It takes no layer with an argument that is None."""


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp"])
@pytest.mark.parametrize("name", ALL)
def test_captum_gives_in_the_block_exactly_what_attribute_gives(name, method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the other library, at import
        attr = pytest.importorskip("captum.attr")
    model, inputs = cases.family(name)
    want = attribute(model, inputs, method, 1).relevance
    explain = attr.LayerGradientXActivation(
        lambda *values: model(**dict(zip(inputs, values, strict=True))).logits,
        model.get_submodule(READ_BY_CAPTUM[name]),
    )
    first, *others = inputs.values()
    with warnings.catch_warnings(), propagation(model, method):
        warnings.simplefilter("ignore")  # that ids have no gradient
        options = {"additional_forward_args": tuple(others), "attribute_to_layer_input": True}
        found = explain.attribute(first, target=1, **options)
    found = found[0] if isinstance(found, tuple) else found
    assert torch.equal(found.sum(-1).detach() * inputs.get("attention_mask", 1), want)


def test_an_input_of_ones_own_may_be_changed_between_passes():
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 1)).eval()
    x = torch.ones(1, 4, requires_grad=True)
    with propagation(net, "attnlrp"):
        for _ in range(2):
            (gradient,) = torch.autograd.grad(net(x).sum(), x)
            with torch.no_grad():
                x -= 0.1 * gradient
                x[0, 0] = 1
    assert (x[0, 1:] != 1).all()
