"""Any torch module is explained at the tensors that its user names."""

import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map

from axioms.composites import CP_LRP, UnassignedOperation
from numeric import Attribution, attribute, audit, evaluate, plan, propagation
from tests.support.own_modules import IDS, MODULES, Cnn, Encoder, Gpt, Two, make, read


def in_float64(inputs):
    return tree_map(lambda x: x.double() if x.is_floating_point() else x, inputs)


def run(module, inputs):
    return module(**inputs) if isinstance(inputs, dict) else module(inputs)


@pytest.fixture(params=MODULES)
def case(request):
    cls, inputs, of = MODULES[request.param]
    return make(cls).double(), in_float64(inputs), of


def test_cp_lrp_conserves_in_a_module_without_constants(case):
    module, inputs, of = case
    found = attribute(module, inputs, "cp-lrp", of=of, read=read)
    torch.testing.assert_close(found.logit, read(run(module, inputs)))
    assert [*found.inside] == of
    assert found.relevance.abs().amax() > 1e-3
    torch.testing.assert_close(found.residual, torch.zeros(2).double(), atol=1e-9, rtol=0)


def test_gradient_x_input_is_autograds(case):
    module, inputs, of = case
    found = attribute(module, inputs, "gradient-x-input", of=of[-1], read=read)
    seen = []

    def look(_module, _inputs, output):
        seen.append(output.detach().requires_grad_())
        return seen[0].clone()

    hook = dict(module.named_modules()).get(of[-1])
    if hook is None:
        seen.append((inputs["numbers"] if isinstance(inputs, dict) else inputs).clone())
        seen[0].requires_grad_()
        inputs = inputs | {"numbers": seen[0]} if isinstance(inputs, dict) else seen[0]
    handle = hook and hook.register_forward_hook(look)
    (gradient,) = torch.autograd.grad(read(run(module, inputs)).sum(), seen)
    if handle:
        handle.remove()
    torch.testing.assert_close(found.inside[of[-1]], seen[0].detach() * gradient)


def test_an_example_alone_has_its_relevance_in_the_batch(case):
    module, inputs, of = case
    whole = attribute(module, inputs, "attnlrp", of=of, read=read)
    first = attribute(module, tree_map(lambda x: x[:1], inputs), "attnlrp", of=of, read=read)
    torch.testing.assert_close(whole.relevance[:1], first.relevance)


def test_the_module_is_left_as_it_was(case):
    module, inputs, of = case
    before = {k: v.clone() for k, v in module.state_dict().items()}
    hooks = [len(m._forward_hooks) for m in module.modules()]
    attribute(module, inputs, "attnlrp", of=of, read=read)
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    assert [len(m._forward_hooks) for m in module.modules()] == hooks
    assert all(p.requires_grad for p in module.parameters())


def test_a_plan_lists_all_operations_with_their_rules(case):
    module, inputs, of = case
    found = plan(module, inputs, "cp-lrp", of=of)
    assert found.refusal is None
    assert len(found.operations) > 3
    assert all(op.rule for op in found.operations)


def test_axes_of_channels_are_summed():
    module = make(Cnn)
    images = MODULES["CNN"][1]
    found = attribute(module, images, "cp-lrp", of="input", read=read, axes=1)
    torch.testing.assert_close(found.relevance, found.inside["input"].sum(dim=1).flatten(1))


def test_an_epsilon_of_numpy_is_saved_as_a_number(tmp_path):
    module, given = make(Cnn), {"of": "input", "read": read, "epsilon": np.float32(0.5)}
    images = MODULES["CNN"][1]
    attribute(module, images, "cp-lrp", **given).save(tmp_path / "map")
    assert Attribution.load(tmp_path / "map").options["epsilon"] == 0.5
    found = audit(module, images[:1], "cp-lrp", **given)
    assert type(found.epsilon) is float
    assert (
        found.relevance.tolist()
        == audit(module, images[:1], "cp-lrp", **given | {"epsilon": 0.5}).relevance.tolist()
    )


def test_the_output_of_a_module_with_an_arguments_name_is_explained():
    found = attribute(make(Named), X, "cp-lrp", of="output of map", read=read)
    assert found.inside["output of map"][:, [0, 2]].eq(0).all()  # another output is read


def test_a_block_of_rules_takes_any_module():
    module, points = make(MODULES["sets"][0]), MODULES["sets"][1].clone().requires_grad_()
    with propagation(module, "cp-lrp"):
        (gradient,) = torch.autograd.grad(read(module(points)).sum(), points)
    found = attribute(module, points.detach(), "cp-lrp", of="points", read=read)
    torch.testing.assert_close(points.detach() * gradient, found.inside["points"])


class Twice(nn.Module):
    """Calls one module twice, and another never."""

    def __init__(self):
        super().__init__()
        self.map, self.idle = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        return self.map(torch.relu(self.map(x)))


class Named(nn.Module):
    """Has a module and an argument of one name."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(3, 3)

    def forward(self, map):
        return self.map(map)


class Largest(Twice):
    """Divides by the largest entry of the batch."""

    def forward(self, x):
        return self.map(x / x.abs().max())


class Noisy(Twice):
    def forward(self, x):
        return self.map(x + torch.randn_like(x))


class Placed(nn.Module):
    """Samples an image at places that the image itself says."""

    def forward(self, x):
        grid = torch.cat([x, x], dim=1).permute(0, 2, 3, 1)
        return nn.functional.grid_sample(x, grid, align_corners=False).flatten(1)


class Counting(Twice):
    """Counts its calls, and multiplies by their number."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return self.map(x) * self.calls


X = torch.ones(2, 3)
MIXED = lambda y: (y * y.flip(0))[:, 0]
SWAPPED = lambda y: y[[0, 2, 1, 3][: len(y)], 0]  # the first and the last are their own
WRONG = {
    "no such name": (Encoder, IDS, {"of": "embd"}, "did you mean 'embed'?"),
    "nothing": (Encoder, IDS, {"of": []}, "of=[]: pass names of arguments (ids)"),
    "ids": (Encoder, IDS, {"of": "ids"}, "of='ids' is a tensor of torch.int64; name floats"),
    "the whole": (Twice, X, {"of": ""}, "of='': pass names of arguments (x) or of modules"),
    "two of one name": (Named, X, {"of": "map"}, "pass 'output of map' for the output of the"),
    "called twice": (Twice, X, {"of": "map"}, "of=['map']: these modules are called more than"),
    "never called": (Twice, X, {"of": "idle"}, "of=['idle']: these modules are not called"),
    "all classes": (Twice, X, {"of": "x", "read": lambda y: y}, "read returns (2, 3); return"),
    "one number": (Twice, X, {"of": "x", "read": lambda y: y.sum()}, "read returns (); return"),
    "a list": (Twice, X, {"of": "x", "read": lambda _: [1.0]}, "read returns list; return"),
    "one example": (Twice, X, {"of": "x", "read": lambda y: y[:1, 0]}, "read returns 1 numbers"),
    "detached": (Twice, X, {"of": "x", "read": lambda y: y.detach()[:, 0]}, "does not depend on x"),
    "the batch's statistics": (Largest, X + IDS[:, :3], {"of": "x"}, "alone: it depends on other"),
    "noise": (Noisy, X, {"of": "x"}, "alone: it depends on other examples, or on chance"),
    "not a number": (Twice, X * torch.nan, {"of": "x"}, "non-finite relevance of x in examples"),
    "mixed": (Twice, X + IDS[:, :3], {"of": "x", "read": MIXED}, "alone: it depends on other"),
    "mixed within": (
        Twice, torch.eye(4, 3), {"of": "x", "read": SWAPPED}, "examples depend on x of others",
    ),
    "missing arguments": (Two, IDS, {"of": "words"}, "Two.forward does not take inputs"),
    "another method": (Twice, X, {"of": "x", "method": "loo"}, "method 'loo' has no rules"),
    "a target": (Twice, X, {"of": "x", "target": 1}, "target and tokenizer would be ignored"),
    "no name": (Twice, X, {"of": None, "read": "logits"}, "of=None: pass the name"),
    "no function": (Twice, X, {"of": None, "read": "logits"}, "read='logits': pass a function"),
    "no axis": (Twice, X, {"of": "x", "axes": None}, "axes=None: pass a number"),
    "an axis too many": (Twice, X, {"of": "x", "axes": 2}, "axes=2: x has the shape (2, 3)"),
    "the axis of examples": (Twice, X, {"of": "x", "axes": 0}, "axes=0: x has the shape (2, 3)"),
    "no examples": (Twice, X[:0], {"of": "x"}, "x has no examples: its shape is (0, 3)"),
    "in train mode": (Twice, X, {"of": "x", "train": True}, "train mode: 3 modules"),
    "a fault of its own": (Encoder, IDS + 99, {"of": "embed"}, "Encoder itself fails on this"),
    "a bad stabiliser": (Twice, X, {"of": "x", "epsilon": -1.0}, "eps=-1.0 (float): the stab"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_explained_is_refused_with_the_next_step(name):
    cls, inputs, options, message = WRONG[name]
    options = dict(options)
    module = make(cls).train(options.pop("train", False))
    with pytest.raises(ValueError, match=re.escape(message)):
        attribute(module, inputs, **({"method": "cp-lrp", "read": read} | options))


@pytest.mark.parametrize("name", ["called twice", "never called"])
def test_a_plan_of_a_module_that_is_not_called_once_is_refused(name):
    cls, inputs, options, message = WRONG[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        plan(make(cls), inputs, of=options["of"])


def test_buffers_that_a_forward_writes_to_stay_as_they_were():
    module = make(Counting)
    first = attribute(module, X, "cp-lrp", of="x", read=read)
    assert torch.equal(first.relevance, attribute(module, X, "cp-lrp", of="x", read=read).relevance)
    plan(module, X, of="x")
    assert module.calls.item() == 0


def test_autocast_around_the_call_changes_nothing():
    module, images = make(Cnn), MODULES["CNN"][1]
    plain = attribute(module, images, "cp-lrp", of="input", read=read)
    columns = torch.arange(images.shape[-1]).expand(len(images), -1)
    numbers = lambda: [
        audit(module, images[:1], "cp-lrp", of="input", read=read).relevance.tolist(),
        evaluate(module, images, columns, measures=["Δ"], of="input", axes=(1, 2), read=read),
    ]
    want = numbers()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = attribute(module, images, "cp-lrp", of="input", read=read)
        assert str(numbers()) == str(want)
    assert torch.equal(found.relevance, plain.relevance)


def test_places_that_depend_on_the_image_have_no_rule():
    with pytest.raises(UnassignedOperation, match="grid_sample by weights that depend on the inp"):
        attribute(make(Placed), torch.ones(2, 1, 3, 3), CP_LRP, of="x", read=read)


def test_a_function_without_a_rule_is_named_with_its_place():
    class Sorted(nn.Module):
        def forward(self, x):
            return torch.linalg.svdvals(x[:, None] * x[:, :, None])

    with pytest.raises(UnassignedOperation, match="svd"):
        attribute(Sorted().eval(), X, CP_LRP, of="x", read=lambda y: y[:, 0])


def test_a_transformers_model_without_its_own_call_is_told_of_both():
    with pytest.raises(ValueError, match="or call attribute\\(module, inputs, of=NAME, read="):
        attribute(make(Gpt), {"input_ids": IDS})


def first(inputs):
    return tree_map(lambda x: x[:1], inputs)


@pytest.mark.parametrize("method", ["cp-lrp", "attnlrp"])
def test_an_audit_accounts_for_the_relevance_of_the_named_tensors(case, method):
    module, inputs, of = case
    inputs = first(inputs)
    a = attribute(module, inputs, method, of=of, read=read)
    b = audit(module, inputs, method, of=of, read=read)
    torch.testing.assert_close(torch.from_numpy(b.relevance), a.relevance[0], atol=1e-12, rtol=0)
    assert b.logit == pytest.approx(a.logit.item(), abs=1e-12)
    assert sum(b.by_cause().values()) == pytest.approx(a.residual.item(), abs=1e-12)
    assert b.verdicts


NO_AUDIT = {
    "two examples": (lambda x: x, {}, "has 2 examples; audit one at a time"),
    "a target": (first, {"target": 1}, "would be ignored: `read` returns the number"),
    "no number": (first, {"read": lambda out: out.detach()[:, 0]}, "does not depend on embed"),
    "a matrix": (first, {"read": lambda out: out}, r"read returns \(1, 3\); return a float"),
    "axes": (first, {"axes": 3, "of": "embed"}, "axes=3: embed has the shape"),
    "no name": (first, {"of": "embedding"}, "of='embedding': pass names .* did you mean"),
}


@pytest.mark.parametrize("case", NO_AUDIT)
def test_an_audit_of_a_module_refuses_what_attribute_refuses(case):
    change, options, said = NO_AUDIT[case]
    module = make(Encoder)
    call = {"of": "embed", "read": read} | options
    with pytest.raises(ValueError, match=said):
        audit(module, change(IDS), "cp-lrp", **call)
