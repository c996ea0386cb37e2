"""Code of a user's own, put into a model, is audited as it computes, or refused by name.

Models that an audit would mislead about, or has no rules for, are refused, too.
"""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, GRADIENT_X_INPUT, Composite, UnassignedOperation
from numeric import attribute, audit
from tests.support import cases
from tests.support.audits import audit_of, eager, with_graph


class Fusing(nn.Module):
    """Code that calls the fused kernel itself, whatever the model is set to."""

    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(x, x, x)


class Learned(nn.Module):
    """Attention by a query that is a parameter: its scores are a linear map of the keys."""

    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.linspace(-1, 1, 24, dtype=torch.float64).expand(1, 6, 24))

    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(self.query, x, x)


class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Writing(nn.Module):
    """Code that writes into parts of tensors, and into tensors that it has used before."""

    def forward(self, x):
        whole = torch.zeros_like(x)
        first = whole[..., :7]
        first.copy_(x[..., :7] * 2)
        whole[..., 7:] += x[..., 7:].relu()
        before = first + 1.0
        first.mul_(3.0)
        whole[:, 1].add_(before.mean())
        return whole + first.sum()


class Routed(nn.Module):
    """Products by the output of a softmax, on either side; by CP-LRP they are linear maps."""

    def forward(self, x):
        best, _ = x.softmax(dim=1).topk(3, dim=-1)
        mixed = torch.einsum("btk,bsk->bts", best, x[..., :3]).softmax(dim=-2) @ x
        turned = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (12, 2))) * (1 + 2j))
        return best[..., :1] * x + mixed + x.mT.softmax(dim=-1).mT.roll(1, 1) * turned.flatten(-2)


class Fixed(nn.Module):
    """Numbers beside moved entries, sums that look like moves, and attention to fixed values."""

    def forward(self, x):
        numbers = torch.where(x > 0.5, x, 0.5).masked_fill(x > 2, 1.5)
        padded = nn.functional.pad(x[..., :-1], (0, 1), value=1.0)
        first, third = torch.tensor([0, 0]), torch.tensor([2, 2])
        added = x.index_put((first, third), x[0, :2], accumulate=True)
        pieces = nn.functional.unfold(added[:, None], (3, 3), padding=1)
        folded = nn.functional.fold(pieces, added.shape[1:], (3, 3), padding=1)[:, 0]
        values = torch.linspace(-1, 1, 24 * 24, dtype=x.dtype).view(24, 24)
        hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)
        attended = (x @ x.mT).masked_fill(hidden, -torch.inf).softmax(dim=-1) @ x
        put = x.scatter(2, first[None, :, None], 2.0).index_put((first, third), x.new_tensor(0.5))
        put[..., 3].copy_(torch.tensor(1.5))
        return numbers + padded + folded + torch.softmax(input=x, dim=-1) @ values + attended + put


class InPlace(nn.Module):
    """Operators that write into their operands, before and after others read these."""

    def forward(self, x):
        whole = x.clone()
        first, second = whole[..., :12], whole[..., 12:]
        first += second
        second *= first
        gated = nn.functional.glu(torch.cat([whole, x], dim=-1))
        gated **= 2
        curved = x.relu()
        curved /= x.new_full((24,), 3.0)
        shifted = gated + 1.0
        gated.mul_(2.0)
        return torch.add(input=shifted.relu(), other=torch.mul(input=curved, other=gated))


class Windowed(nn.Module):
    """Scores written into a table, tokens cut out by strides, and a norm over several axes."""

    def forward(self, x):
        scores = torch.einsum("btd,bsd->bts", (x, x))
        table = scores.new_zeros(*scores.shape[:2], 7)
        table[..., :6] = scores
        table[:, 0, 1:].copy_(torch.einsum("bd,bsd->bs", x[:, 1], x))
        heads = x.unflatten(-1, (2, 12)).transpose(1, 2).reshape(-1, 6, 12)
        there, row, column = heads.stride()
        chunks = heads.as_strided((2, 2, 4, 12), (there, 2 * row, row, column))
        normed = nn.functional.layer_norm(x, (6, 24), x.detach().cos()[0], x.detach().sin()[0])
        attended = table.softmax(dim=-1)[..., :6] @ x
        return attended + normed + chunks.sum((1, 2)).reshape(1, 1, 24)


class StraightThrough(nn.Module):
    """A choice with the gradient of its probabilities: these cancel where it is 0."""

    def forward(self, x):
        soft = x[..., :4].softmax(dim=-1)
        hard = nn.functional.one_hot(soft.argmax(dim=-1), 4).to(x.dtype)
        chosen, again = hard + soft - soft.detach(), (hard - soft).detach() + soft
        rounded = x + (x.round() - x).detach()
        mixed = chosen[..., :1] * x + chosen[..., 1:2] * x.roll(1, -1)
        return mixed + (again @ x[0, :4]).tanh() + rounded


def with_activation(module):
    model, inputs = eager()
    for layer in model.bert.encoder.layer:
        layer.intermediate.intermediate_act_fn = module.eval()
    return model, inputs


@cache
def captured(module):
    """A model with an activation, its example and its graph, once for all tests."""
    return with_graph(*with_activation(module()))


OWN = [Fusing, Learned, Branching, Writing, Routed, Fixed, InPlace, Windowed, StraightThrough]


@pytest.mark.filterwarnings("ignore::numeric.methods.amplification.AmplifiedRelevance")
@pytest.mark.parametrize("module", OWN)
@pytest.mark.parametrize("epsilon", [0.0, 0.25])
@pytest.mark.parametrize("composite", [ATTNLRP, CP_LRP], ids=lambda c: c.name)
def test_code_of_a_users_own_is_audited_as_it_is(module, composite, epsilon):
    model, inputs, _ = captured(module)
    found = audit_of(captured(module), composite, epsilon)
    assert found.forward_error < 1e-12
    a = attribute(model, inputs, composite, target=1, epsilon=epsilon)
    np.testing.assert_allclose(found.relevance, a.relevance[0].numpy(), rtol=1e-8, atol=1e-10)
    assert abs(sum(found.by_cause().values()) - found.residual) <= 1e-9
    assert max(abs(line.numerical) for line in found.ledger.lines) <= 1e-9


@pytest.mark.parametrize("composite", [ATTNLRP, CP_LRP], ids=lambda c: c.name)
def test_what_cancels_has_in_the_limit_what_a_small_stabiliser_gives_it(composite):
    model, inputs, _ = captured(StraightThrough)
    limit, near = (
        attribute(model, inputs, composite, target=1, epsilon=epsilon).relevance
        for epsilon in (0.0, 1e-12)
    )
    np.testing.assert_allclose(near, limit, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
def test_a_softmax_without_an_axis_has_the_one_that_torch_takes():
    model, inputs, _ = made = with_graph(*with_activation(nn.Softmax()))
    found, a = audit_of(made, ATTNLRP, 0.0), attribute(model, inputs, target=1)
    np.testing.assert_allclose(found.relevance, a.relevance[0].numpy(), rtol=1e-8, atol=1e-10)


def test_a_mask_absorbs_nothing_where_every_row_sees_something():
    (kept, *_) = audit(*eager("llama"), target=1).verdicts  # which adds a mask
    assert "softmax" in kept.reason
    assert " add" not in kept.reason


class Strange(nn.Module):
    """Two functions that no rule covers, as an activation."""

    def forward(self, x):
        return torch.erfinv(x.tanh()) * torch.logcumsumexp(x, dim=-1)


def test_all_operations_without_a_rule_are_listed_at_once():
    with pytest.raises(UnassignedOperation, match="have no propagation rule") as caught:
        audit(*with_activation(Strange()))
    for text in ("erfinv", "logcumsumexp", "layer.0.intermediate", "test_audit_own_code.py:"):
        assert text in str(caught.value)


class Late(nn.Module):
    """Code that reads a function of a tensor only after it wrote into that tensor."""

    def forward(self, x):
        y = x + x.flip(1)
        z = y.relu()
        y.zero_()
        return z + x


@pytest.mark.parametrize("explain", [attribute, audit])
def test_a_function_that_is_read_after_a_write_into_its_input_is_refused(explain):
    with pytest.raises(
        UnassignedOperation, match="relu, whose input or output is written to before"
    ):
        explain(*with_activation(Late()))


# Models whose audit would mislead


def quantised(model):
    model.is_quantized = True
    return model


REFUSED = {
    "half precision": (lambda model: model.half(), "half precision"),
    "quantised": (quantised, "quantised weights"),
    "train mode": (lambda model: model.train(), "train mode"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_a_model_whose_numbers_would_mislead_is_refused(change, message):
    model, inputs = eager("bert")
    with pytest.raises(ValueError, match=message):
        audit(change(model), inputs)


@pytest.mark.filterwarnings("ignore")  # torch.ao is deprecated
def test_weights_in_few_bits_are_refused_by_name():
    model, inputs = eager("bert")
    packed = torch.ao.quantization.quantize_dynamic(model.float(), {nn.Linear}).eval()
    with pytest.raises(UnassignedOperation, match="linear_dynamic by weights in few bits"):
        audit(packed, inputs)


def test_two_texts_at_once_are_refused():
    with pytest.raises(ValueError, match="2 examples; audit one text at a time"):
        audit(*cases.family("bert"))


def test_a_composite_without_lemmas_is_refused():
    with pytest.raises(LookupError, match="by gradient"):
        audit(*eager(), GRADIENT_X_INPUT)


def test_a_composite_that_lacks_rules_lists_all_operations():
    few = {k: rule for k, rule in ATTNLRP.rules.items() if k not in (kinds.ADD, kinds.SOFTMAX)}
    with pytest.raises(LookupError, match="no rule for 8 of") as caught:
        audit(*eager(), Composite("few", few))
    assert "bert.encoder.layer.1.attention.self" in str(caught.value)


@pytest.mark.parametrize("eps", [0.0, 0.25])
def test_a_bias_inside_a_function_is_a_cause(eps):
    torch.manual_seed(0)
    layers = nn.Conv1d(2, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2, bias=False)
    net = nn.Sequential(*layers).double().eval()
    x = torch.randn(1, 2, 4, dtype=torch.float64)
    found = audit(net, x, "attnlrp", of="input", read=lambda y: y[:, 1], epsilon=eps)
    assert abs(found.by_cause()["bias"]) > 1e-3
    kept, *_ = found.verdicts
    assert kept.verdict == "refuted"
    assert "bias at 1 x linear" in kept.reason
    nn.init.zeros_(net[0].bias)
    kept, *_ = audit(net, x, "attnlrp", of="input", read=lambda y: y[:, 1]).verdicts
    assert kept.verdict == "open"  # with another bias it is not so


def test_tables_of_an_audit_name_causes_as_its_list_does():
    found = audit_of(with_graph(*eager("bert")))
    causes = found.by_cause()
    for table in (found.by_layer(), found.by_kind()):
        for cause in ("bias", "LayerNorm beta"):
            assert sum(row.get(cause, 0) for row in table.values()) == pytest.approx(causes[cause])
