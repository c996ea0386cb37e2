"""Verdicts on modules of a user's own name only operations that they are about."""

import pytest
import torch
from torch import nn

from axioms.audit import EXACT, NO_RULE, OPEN, PROVED, REFUTED
from axioms.composites import CP_LRP, Composite
from numeric import assert_conserves, audit
from tests.support.audits import eager

X = torch.randn(1, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class Two(nn.Module):
    """Two maps without biases, and a step between them."""

    def __init__(self, between):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 6, bias=False), nn.Linear(6, 3, bias=False)
        self.norm = nn.LayerNorm(6, bias=False)
        self.between = between

    def forward(self, x):
        return self.b(self.between(self, self.a(x)))


def audited(between, **options):
    module = Two(between).double().eval()
    read = lambda y: y.flatten(1)[:, 1]
    return audit(module, {"x": X}, "cp-lrp", of="x", read=read, **options)


def of(found, rewrite):
    return [x for x in found.verdicts if x.statement.startswith(f"invariant under: {rewrite}")]


CHOICES = {
    "amax": lambda _, h: h.amax(dim=1),
    "max": lambda _, h: h.max(dim=1).values,
    "topk": lambda _, h: h.topk(1, dim=1).values,
    "sort": lambda _, h: h.sort(dim=1).values,
    "where": lambda _, h: torch.where(h > 0, h, 0),
    "masked_fill": lambda _, h: h.masked_fill(h < 0, 0),
    "gather": lambda _, h: h.gather(1, h.argmax(1, keepdim=True)),
    "max_pool": lambda _, h: nn.functional.max_pool1d(h.mT, 5).mT,
}


@pytest.mark.parametrize("name", CHOICES)
def test_layers_are_not_folded_through_a_choice_of_entries(name):
    found = audited(CHOICES[name])
    assert of(found, "fold linear") == []
    assert found.structure.merges["linear layers of linear layers"] == 0


def test_layers_are_folded_through_a_move_of_entries():
    (moved,) = of(audited(lambda _, h: h.flip(1)), "fold linear")
    assert moved.verdict == PROVED


def test_a_mean_has_no_stabiliser_at_any_epsilon():
    found = audited(lambda _, h: h.mean(1), epsilon=0.25)
    kept = found.verdicts[0]
    assert "stabiliser at 2 x linear" in kept.reason
    (fold,) = of(found, "fold linear")
    assert (fold.verdict, fold.reason) == (OPEN, EXACT)


def test_a_norm_without_a_bias_absorbs_none():
    kept = audited(lambda m, h: m.norm(h)).verdicts[0]
    assert (kept.verdict, kept.nodes) == (PROVED, ())


def test_no_rewrite_changes_an_explanation_where_no_relevance_arrives():
    model, one = eager()
    by_rules = {
        name: of(audit(model, one, name), "decompose softmax") for name in ("cp-lrp", "attnlrp")
    }
    assert [x.verdict for x in by_rules["cp-lrp"]] == [PROVED]
    assert by_rules["cp-lrp"][0].reason.startswith("no relevance arrives; applies at 2 operations")
    assert REFUTED in [x.verdict for x in by_rules["attnlrp"]]


def test_a_rewrite_that_makes_operations_without_a_rule_is_open():
    rules = {kind: rule for kind, rule in CP_LRP.rules.items() if kind != "product"}
    found = audit(*eager(), Composite("own", rules))
    verdicts = of(found, "multiply by one")
    assert {x.verdict for x in verdicts} == {OPEN, PROVED}  # proved where no relevance arrives
    assert {x.reason for x in verdicts if x.verdict == OPEN} == {NO_RULE}


def test_a_failure_names_the_places_of_the_causes_that_are_not_allowed():
    model, one = eager()
    with pytest.raises(AssertionError) as caught:
        assert_conserves(model, one, absorbing=["Taylor term", "bias"])
    places = str(caught.value).split("most of it at")[1]
    assert "LayerNorm beta" in places
    assert "Taylor term" not in places
    assert ": bias" not in places


def test_operations_that_lose_nothing_else_are_no_places():
    module = Two(lambda m, h: m.norm(h)).double().eval()
    module.norm.bias = nn.Parameter(torch.linspace(1, 2, 6, dtype=torch.float64))
    with pytest.raises(AssertionError) as caught:
        assert_conserves(module, {"x": X}, "cp-lrp", of="x", read=lambda y: y.flatten(1)[:, 1])
    heading, *places = str(caught.value).split("most of it at")[1].strip().splitlines()
    assert "LayerNorm beta" in heading
    assert [x for x in places if x.startswith("  ") and "beta" not in x] == []
    assert "numerical" not in "".join(places)


def test_complex_numbers_are_no_half_precision():
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.turn = nn.Parameter(torch.ones(3, dtype=torch.complex64))

        def forward(self, x):
            return x[..., :3] * self.turn.abs()

    found = audit(Turned().eval(), {"x": X.float()}, of="x", read=lambda y: y.sum((1, 2)))
    assert abs(found.residual) < 1e-6
