"""The table of operations: its page is current, and other spellings have the same rules."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

import axioms
from axioms.composites import UnassignedOperation
from axioms.kinds import RULES
from numeric import attribute, audit, propagation
from numeric.engine.operations import ROLES, TABLE
from numeric.engine.refusals import REASONS
from tests.census import build
from tests.census import operations as page_of
from tests.census.measure import audited
from tests.support import cases
from tests.support.changes import ACT, LAYER, on, then

CASES = [case for role in TABLE.values() for case in role.cases]


def test_the_page_says_what_the_table_says():
    assert page_of.PAGE.read_text(encoding="utf-8") == page_of.page()


def test_a_reason_names_theorems_and_kinds_that_there_are():
    texts = [x.read_text("utf-8") for x in Path(axioms.__file__).parent.glob("theorems/test_*.py")]
    known = {int(n) for text in texts for n in re.findall(r"theorem\(\n +(\d+),", text)}
    named = [number for case in CASES for number in case.theorems]
    named += [int(n) for why in REASONS.values() for n in re.findall(r"theorem (\d+)", why)]
    assert known.issuperset(named)
    assert {case.kind for case in CASES} - {None} == {*RULES}


def test_a_function_has_one_role_or_is_refused():
    names = [name for role in TABLE.values() for name in role.functions.split()]
    assert len(names) == len({*names})
    assert ROLES.keys().isdisjoint(REASONS)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_handlers_need_five_functions_of_the_engine_and_nothing_else(name):
    model, batch = cases.family(name)
    want = attribute(model, batch, target=1).relevance
    with propagation(model) as block:
        book = block.book
        functions = ("rule", "apply", "settle", "hold", "refuse")
        five = SimpleNamespace(**{each: getattr(book, each) for each in functions})
        for role, handler in block.handlers.items():
            block.handlers[role] = lambda _, use, handler=handler: handler(five, use)
        logits = model(**batch).logits
        rows = logits if logits.ndim == 2 else logits[:, -1]
        (c,) = torch.autograd.grad(rows[:, 1].sum(), block.entries.only.embedding)
    found = (block.entries.only.embedding * c).sum(-1) * batch["attention_mask"]
    assert torch.equal(found, want)


def explained(function):
    """A BERT with one more function behind its activation, its inputs, and its explanation."""
    model, inputs = cases.family("bert")
    on(then(function), LAYER(0) + ACT)({"model": model})
    found = attribute(model, inputs, target=1)
    torch.testing.assert_close(found.logit, model(**inputs).logits[:, 1].detach())
    return model, inputs, found


def with_its_mean(function):
    def standardised(x):
        deviation, mean = function(x, -1, keepdim=True)
        return (x - mean) / (deviation + 1)

    return standardised


MADE_OF_OTHERS = {
    "addcmul": lambda x: torch.addcmul(x, x.roll(1, -1), x.roll(2, -1), value=0.5),
    "addcdiv": lambda x: x.addcdiv_(x.roll(1, -1), 2 + x.roll(2, -1).square(), value=0.5),
    "lerp": lambda x: torch.lerp(x, x.roll(1, -1), 0.25),
    "addcmul by name": lambda x: torch.addcmul(
        input=x, tensor1=x.roll(1, -1), tensor2=x.roll(2, -1)
    ),
    "lerp by name": lambda x: torch.lerp(input=x, end=x.roll(1, -1), weight=0.25),
    "cosine_similarity": lambda x: x * functional.cosine_similarity(
        x[..., None, :], x.roll(1, -1)[..., None, :], dim=-1
    ),
    "instance_norm": lambda x: functional.instance_norm(x, weight=x.detach()[0, :, 0]),
    "instance_norm, running": lambda x: functional.instance_norm(
        x, torch.ones(6).double(), 2 * torch.ones(6).double(), use_input_stats=False
    ),
    "var_mean": with_its_mean(torch.var_mean),
    "var_mean, all positional": with_its_mean(
        lambda x, dim, keepdim: torch.var_mean(x, (dim,), False, keepdim)  # noqa: FBT003
    ),
    "std_mean": with_its_mean(torch.std_mean),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE_OF_OTHERS)
def test_a_function_made_of_others_is_explained_by_their_rules(name):
    """And the NumPy rules over the operations that it is made of say the same."""
    model, inputs, _ = explained(MADE_OF_OTHERS[name])
    assert audited(model, inputs, "sequence classification") < 1e-8


def solved(x, shift):
    lower = torch.eye(x.shape[1], dtype=x.dtype) + shift
    return torch.linalg.solve_triangular(lower, x, upper=False)


def test_a_linear_system_is_a_linear_map_of_its_right_side():
    """Solves for a model's 24 channels by a fixed matrix of its 6 tokens."""
    model, inputs, _ = explained(lambda x: solved(x, torch.full((6, 6), 0.5, dtype=x.dtype)))
    assert audited(model, inputs, "sequence classification") < 1e-8


def test_a_linear_system_by_a_matrix_that_depends_on_the_input_is_refused():
    with pytest.raises(UnassignedOperation, match="linalg_solve_triangular by weights that depend"):
        explained(lambda x: solved(x, x @ x.mT))


WEIGHT, SLOPES = torch.randn(24, 24), torch.rand(6)
ONES = torch.ones(24)


def attended(x, mask):
    return functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)


NARROWED = {
    "linear": (
        lambda x: functional.linear(x.float(), WEIGHT.float(), ONES).to(x.dtype),
        lambda x: functional.linear(x, WEIGHT.double(), ONES.double()),
    ),
    "matmul": (
        lambda x: (x.float() @ WEIGHT.float()).to(x.dtype), lambda x: x @ WEIGHT.double(),
    ),
    "layer_norm": (
        lambda x: functional.layer_norm(x.float(), (24,), WEIGHT[0]).to(x.dtype),
        lambda x: functional.layer_norm(x, (24,), WEIGHT[0].double()),
    ),
    "attention": (
        lambda x: attended(x.float(), WEIGHT[:6, :6]).to(x.dtype),
        lambda x: attended(x, WEIGHT[:6, :6].double()),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NARROWED)
def test_in_float64_weights_that_code_narrows_meet_activations_that_stay_wide(name):
    narrow, wide = NARROWED[name]
    model, inputs = cases.family("bert")
    on(then(narrow), LAYER(0) + ACT)({"model": model})
    *_, want = explained(wide)
    torch.testing.assert_close(attribute(model, inputs, target=1).relevance, want.relevance)


def test_a_mask_that_hides_nothing_is_none():
    """Also at a finite epsilon, or texts in one batch would depend on who needs padding."""
    layer = nn.TransformerEncoderLayer(24, 4, 8, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1).double().eval()
    nothing = lambda x: torch.zeros(x.shape[:2], dtype=torch.bool)
    found = []
    for mask in (lambda x: None, nothing):
        model, inputs = cases.family("bert")
        masked = then(lambda x, mask=mask: encoder(x, src_key_padding_mask=mask(x)))
        on(masked, LAYER(0) + ACT)({"model": model})
        found.append(attribute(model, inputs, target=1, epsilon=0.25).relevance)
        assert audited(model, inputs, "sequence classification") < 1e-8
    torch.testing.assert_close(*found)


def test_a_bias_of_scores_keeps_its_share_beside_a_mask():
    """T5 adds both to the scores as one tensor."""
    with build.float64():
        model, inputs = build.with_inputs("t5")
        together = attribute(model, inputs, epsilon=0.25).relevance
        one = cases.first(inputs)
        alone = attribute(model, one, epsilon=0.25).relevance
    torch.testing.assert_close(together[:1], alone)


@pytest.mark.parametrize("zero", [False, True])
def test_a_slope_of_each_channel_is_that_of_the_plain_gradient(zero):
    """It is piecewise linear through the origin, where both are the same, and 0 has a slope too."""
    inner = torch.relu if zero else torch.clone
    spelled = lambda x: torch.where(x > 0, x, x * SLOPES.double()[:, None])
    *_, found = explained(lambda x: functional.prelu(inner(x), SLOPES.double()))
    *_, want = explained(lambda x: spelled(inner(x)))
    torch.testing.assert_close(found.relevance, want.relevance)


def test_the_default_device_of_the_caller_does_not_matter_to_an_audit():
    model, one = cases.one_text("bert")
    want = audit(model, one).by_cause()
    with torch.device("meta"):
        assert audit(model, one).by_cause() == want
