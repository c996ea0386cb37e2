"""Leave-One-Out within a budget: groups first, then the tokens of those that matter."""

import pytest
import torch

from numeric import attribute
from numeric.attribution import attribute_each
from numeric.targets import logit
from tests import cases
from tests.test_families import close

NUMBERS = torch.tensor([[0, 0, 1, 1, 1, 2, 2, 2, 2, 3]])


def text(tokens=10, seed=0):
    ids = torch.randint(5, 40, (1, tokens), generator=torch.Generator().manual_seed(seed))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@torch.no_grad()
def lost(model, inputs, columns, target):
    """What the logit loses without some columns, by two plain forward passes."""
    mask = inputs["attention_mask"].clone()
    mask[0, columns] = 0
    full, less = (
        model(input_ids=inputs["input_ids"], attention_mask=x).logits[0, target].item()
        for x in (inputs["attention_mask"], mask)
    )
    return full - less


@pytest.fixture
def model():
    return cases.family("roberta")[0]


def test_a_budget_of_all_tokens_is_leave_one_out(model):
    inputs = cases.family_inputs("roberta")
    want = attribute(model, inputs, "loo")
    found = attribute(model, inputs, "loo", budget=inputs["input_ids"].shape[1])
    close(found.relevance, want.relevance)
    assert (found.details["passes"] == inputs["attention_mask"].sum(dim=1)).all()
    assert (found.details["by_token"] == inputs["attention_mask"]).all()
    assert want.details == {}


@pytest.mark.parametrize("budget", [4, 5, 6, 7, 8, 9])
def test_tokens_of_the_largest_groups_come_one_by_one_as_far_as_it_reaches(model, budget):
    inputs = text()
    a = attribute(model, inputs, "loo", budget=budget, groups=NUMBERS)
    target = a.target[0]
    columns = {n: (NUMBERS[0] == n).nonzero()[:, 0].tolist() for n in range(4)}
    of_group = {n: lost(model, inputs, x, target) for n, x in columns.items()}
    left, expanded = budget - len(columns), set()
    for n in sorted(columns, key=lambda n: -abs(of_group[n])):
        if 1 < len(columns[n]) <= left:
            left -= len(columns[n])
            expanded.add(n)
    for n, places in columns.items():
        alone = n in expanded
        for column in places:
            want = lost(model, inputs, [column], target) if alone else of_group[n] / len(places)
            assert a.relevance[0, column].item() == pytest.approx(want, abs=1e-10)
            assert a.details["by_token"][0, column] == alone
    assert a.details["passes"].tolist() == [budget - left]
    assert bool(expanded) == (budget > 5)  # the group of one token needs no pass of its own


def test_short_texts_of_a_batch_are_exact_beside_long_ones(model):
    inputs = cases.family_inputs("roberta")
    lengths = inputs["attention_mask"].sum(dim=1)
    budget = int(lengths.max()) - 1
    assert lengths.min() <= budget
    exact = attribute(model, inputs, "loo")
    found = attribute(model, inputs, "loo", budget=budget, groups=2)
    short = lengths <= budget
    close(found.relevance[short], exact.relevance[short])
    assert (found.details["passes"] <= budget).all()


def test_every_target_has_its_own_losses():
    model, inputs = cases.family("llama")
    inputs = {key: x[:1] for key, x in inputs.items()}
    size = inputs["input_ids"].shape[1]
    targets = [logit(0), logit(1)]
    options = {"budget": size - 1, "groups": 2}
    together = attribute_each(model, inputs, "loo", targets=targets, **options)
    whole = attribute_each(model, inputs, "loo", targets=targets)
    for found, exact in zip(together, whole, strict=True):
        alone = found.details["by_token"] == 1
        close(found.relevance[alone], exact.relevance[alone], tolerance=1e-5)
        assert alone.any()


WRONG = {
    "no pass": ({"budget": 0}, "budget=0: pass a whole number of forward passes, at least 1"),
    "half a pass": ({"budget": 0.5}, "budget=0.5: pass a whole number"),
    "too few passes": (
        {"budget": 3, "groups": NUMBERS},
        "budget=3: example 0 has 4 groups, each of which takes a pass; pass a larger budget",
    ),
    "one group": ({"budget": 4, "groups": 16}, "all 10 tokens of example 0 are one group"),
    "no size": ({"budget": 4, "groups": 0}, "groups=0: pass tokens per group, at least 1"),
    "another shape": (
        {"budget": 4, "groups": NUMBERS[:, 1:]},
        "groups has shape (1, 9) and dtype torch.int64; pass whole numbers (batch, token), here "
        "(1, 10)",
    ),
    "fractions": ({"budget": 4, "groups": NUMBERS / 2}, "dtype torch.float32; pass whole numbers"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_named(model, name):
    options, says = WRONG[name]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        attribute(model, text(), "loo", **options)
    assert says in str(caught.value)
