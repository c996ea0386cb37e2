"""Leave-One-Out within a budget: groups first, then the tokens of important groups."""

from itertools import pairwise

import pytest
import torch

from numeric import attribute
from numeric.attribution import attribute_each
from numeric.methods.budget import by_groups
from numeric.targets import logit, span
from tests.census.measure import conditions
from tests.support import cases
from tests.support.cases import close
from tests.support.loops import hide, logits_of, losses
from tests.support.tools import language_model
from tests.support.writers import model_of

NUMBERS = torch.tensor([[0, 0, 1, 1, 1, 2, 2, 2, 2, 3]])


def text(tokens=10, seed=0):
    ids = torch.randint(5, 40, (1, tokens), generator=torch.Generator().manual_seed(seed))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def lost(model, inputs, columns, target):
    """The loss of the logit without some columns, by two plain forward passes."""
    return losses(inputs, logits_of(model, target), hide, [(columns,)]).item()


@pytest.fixture
def model():
    return cases.family("roberta")[0]


@pytest.mark.parametrize("budget", [4, 5, 6, 7, 8, 9])
def test_tokens_of_the_largest_groups_come_one_by_one_as_far_as_it_reaches(model, budget):
    inputs = text()
    a = attribute(model, inputs, "loo", budget=budget, groups=NUMBERS)
    target = a.target[0]
    columns = {n: (NUMBERS[0] == n).nonzero()[:, 0].tolist() for n in range(4)}
    of_group = {n: lost(model, inputs, x, target) for n, x in columns.items()}
    largest_first = sorted(range(3), key=lambda n: -abs(of_group[n]))
    in_turn = [column for n in largest_first for column in columns[n]]
    alone = {9, *in_turn[: budget - 4]}  # the group of one token needs no pass of its own
    for n, places in columns.items():
        for column in places:
            by_itself = column in alone
            want = lost(model, inputs, [column], target) if by_itself else of_group[n] / len(places)
            assert a.relevance[0, column].item() == pytest.approx(want, abs=1e-10)
            assert a.details["by_token"][0, column] == by_itself
    assert a.details["passes"].tolist() == [budget]


def within(weights, budget, groups=None):
    """``by_groups`` of losses that do not add up: relevance, details, passes that it ran."""
    ran = []

    def without(example, part):
        ran.append(len(example))
        return saturated(weights, part)[:, None]

    present = torch.ones(1, len(weights), dtype=torch.bool)
    relevance, details = by_groups(without, present, budget=budget, groups=groups)
    return relevance[0, 0], {key: x[0] for key, x in details.items()}, sum(ran)


def saturated(weights, part):
    total = (part * weights).sum(dim=-1)
    return total / (1 + total.abs())


def best_first(weights, budget, levels):
    """Returns shares by a list of parts: the largest is replaced by its parts, a pass at a time."""
    tokens = len(weights)
    levels = [*levels, list(range(tokens))]

    def loss(part):
        return saturated(weights, torch.isin(torch.arange(tokens), torch.tensor(part))).item()

    def split(part):
        for numbers in levels:
            found = [[t for t in part if numbers[t] == n] for n in sorted({*numbers})]
            if len(found := [x for x in found if x]) > 1:
                return found
        return []

    share, left = [0.0] * tokens, budget
    waiting = [[t for t in range(tokens) if levels[0][t] == n] for n in sorted({*levels[0]})]
    parts = []
    while waiting and left:
        for part in waiting[:left]:
            value = loss(part)
            parts.append((abs(value), part))
            for t in part:
                share[t] = value / len(part)
        left -= len(waiting[:left])
        several = [x for x in parts if len(x[1]) > 1]
        if not several:
            break
        largest = max(several, key=lambda x: x[0])  # the first of equals
        parts.remove(largest)
        waiting = split(largest[1])
    return share


@pytest.mark.parametrize("seed", range(6))
def test_the_largest_part_is_opened_next_through_all_levels(seed):
    drawn = torch.Generator().manual_seed(seed)
    tokens = 40
    weights = torch.randn(tokens, generator=drawn).double() ** 3
    coarse = torch.arange(tokens) // 10
    fine = torch.randint(0, 4, (tokens,), generator=drawn)  # cuts across, in any order
    for groups in ([coarse, fine], [coarse], [10, 5, 2], [coarse, 3]):
        as_lists = [(torch.arange(tokens) // x if type(x) is int else x).tolist() for x in groups]
        given = [x if type(x) is int else x[None] for x in groups]
        for budget in range(4, tokens):
            relevance, details, ran = within(weights, budget, given)
            assert relevance.tolist() == pytest.approx(best_first(weights, budget, as_lists))
            assert ran == details["passes"] == budget
    assert torch.equal(within(weights, 20, [5])[0], within(weights, 20, 5)[0])


def test_a_token_that_acts_alone_is_found_through_levels_in_few_passes():
    """4,096 tokens: 16 parts, 16 of one of these, and the 16 tokens of one of these."""
    weights = torch.zeros(4096).double()
    weights[2345] = -3.0
    relevance, details, ran = within(weights, 48, [256, 16])
    assert ran == 48
    assert details["by_token"].sum() == 16
    assert relevance.nonzero()[:, 0].tolist() == [2345]
    assert relevance[2345] == saturated(weights, torch.ones(4096))
    in_pairs, _, _ = within(weights, 48)  # neighbours alone: as many passes spread it
    assert (in_pairs != 0).sum() > 1


def test_levels_of_a_language_model_are_plain_losses_of_their_tokens():
    model = language_model()
    inputs = {"input_ids": text(tokens=24)["input_ids"] % 8}
    inputs |= {"attention_mask": torch.ones_like(inputs["input_ids"])}
    levels = [torch.arange(24)[None] // size for size in (8, 4)]
    a = attribute(model, inputs, "loo", budget=13, groups=levels)
    assert a.details["passes"].tolist() == [13]
    value = lambda given: model(**given).logits[:, -1, a.target[0]]
    parts = [[*range(n, n + size)] for size in (8, 4, 1) for n in range(0, 24, size)]
    lost = losses(inputs, value, hide, [(part,) for part in parts])[0]
    shares = {1: {}, 4: {}, 8: {}}
    for part, loss in zip(parts, lost, strict=True):
        shares[len(part)] |= {column: loss / len(part) for column in part}
    for column, found in enumerate(a.relevance[0]):
        sizes = (1,) if a.details["by_token"][0, column] else (4, 8)
        assert any(torch.isclose(found, shares[size][column], atol=1e-6) for size in sizes)
    assert a.details["by_token"].sum() >= 4


@pytest.mark.parametrize("levels", [1, 2])
def test_a_text_of_one_document_begins_with_its_sentences(model, levels):
    """Beside a text of two documents, it has the values that its sentences alone give."""
    inputs = {key: x.repeat(2, 1) for key, x in text().items()}
    sentences = torch.arange(10)[None].repeat(2, 1) // 3
    one, two = torch.zeros(10), torch.arange(10) // 6
    documents = torch.stack([one.long(), two])
    groups = [*levels * [documents], sentences]
    found = attribute(model, inputs, "loo", budget=6, groups=groups)
    for row, own in enumerate(([sentences[:1]], [documents[1:], sentences[:1]])):
        alone = attribute(model, text(), "loo", budget=6, groups=own)
        close(found.relevance[row], alone.relevance[0])
        assert torch.equal(found.details["by_token"][row], alone.details["by_token"][0])
    with pytest.raises(ValueError, match=r"all 10 tokens of example 0 .* are one group"):
        attribute(model, inputs, "loo", budget=6, groups=[documents, documents])


@pytest.mark.parametrize("tokens", [2, 3, 4, 5, 17, 18, 27, 40, 101])
def test_the_whole_budget_is_spent_and_more_of_it_never_costs_a_token_its_value(tokens):
    generator = torch.Generator().manual_seed(tokens)
    weights = torch.randint(-9, 10, (tokens,), generator=generator).double()
    exact, found = weights / (1 + weights.abs()), {}
    for budget in range(2, tokens + 3):
        relevance, details, ran = within(weights, budget)
        alone = details["by_token"] == 1
        assert ran == details["passes"] == min(budget, tokens)
        assert torch.equal(relevance[alone], exact[alone])
        assert alone.all() if budget >= tokens else alone.sum() >= min(budget - 2, budget // 2)
        found[budget] = alone, (relevance - exact).abs()
    same_groups = [found[n] for n in found if n >= 2 * round(tokens**0.5)]
    for (fewer, error), (more, smaller) in pairwise(same_groups):
        assert (more >= fewer).all()
        assert (smaller <= error).all()


def test_more_passes_never_take_a_sentence_further_from_exact(loaded):
    sentence = "The plot is thin, but the acting is a quiet joy and it lasts"
    inputs = loaded.tokenizer([sentence], return_tensors="pt")
    tokens = inputs["input_ids"].shape[1]
    exact = attribute(loaded.model, inputs, "loo").relevance
    errors = []
    for budget in range(8, tokens + 1):  # from 2 sqrt(18) on the groups stay the same
        found = attribute(loaded.model, inputs, "loo", budget=budget)
        assert found.details["passes"].tolist() == [budget]
        errors.append((found.relevance - exact).square().sum().item())
    rounding = 1e-5 * exact.square().sum().item()
    assert all(after <= before + rounding for before, after in pairwise(errors))
    assert errors[-1] <= rounding


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
    model, inputs = cases.one_text("llama")
    size = inputs["input_ids"].shape[1]
    targets = [logit(0), logit(1)]
    options = {"budget": size - 1, "groups": 2}
    together = attribute_each(model, inputs, "loo", targets=targets, **options)
    whole = attribute_each(model, inputs, "loo", targets=targets)
    for found, exact in zip(together, whole, strict=True):
        alone = found.details["by_token"] == 1
        close(found.relevance[alone], exact.relevance[alone], tolerance=1e-5)
        assert alone.any()


@pytest.mark.parametrize("read", [2, 3, 4])
@pytest.mark.parametrize("written", [2, 6, 12])
def test_a_short_source_is_never_left_out_as_a_whole(read, written):
    with conditions():
        model = model_of("t5")
        ids = torch.randint(10, 50, (1, read + written), generator=torch.Generator().manual_seed(7))
        inputs = {"input_ids": ids[:, :read], "decoder_input_ids": ids[:, read:]}
        exact = attribute(model, inputs, "loo").relevance
        tokens = read + written - 1  # without the token that starts the decoder
        for budget in (3, 4, 6, 100):
            a = attribute(model, inputs, "loo", budget=budget)
            alone = a.details["by_token"] == 1
            close(torch.where(alone, a.relevance, exact), exact)
            assert a.details["passes"].tolist() == [min(budget, tokens)]
            if budget >= tokens:
                close(a.relevance, exact)


@pytest.mark.parametrize("budget", [3, 5, 7])
def test_what_the_first_row_sees_is_never_left_out_as_a_whole(budget):
    model = language_model()
    inputs = text(tokens=20) | {"input_ids": text(tokens=20)["input_ids"] % 8}
    exact = attribute(model, inputs, "loo", target=span(3, 20)).relevance
    a = attribute(model, inputs, "loo", target=span(3, 20), budget=budget)
    alone = a.details["by_token"] == 1
    close(a.relevance[alone], exact[alone], tolerance=1e-5)
    assert a.details["passes"].tolist() == [budget]


WRONG = {
    "no pass": ({"budget": 0}, "budget=0: pass a whole number of forward passes, at least 1"),
    "one pass": ({"budget": 1}, "budget=1: example 0 has 2 groups, each of which takes a pass"),
    "half a pass": ({"budget": 0.5}, "budget=0.5: pass a whole number"),
    "too few passes": ({"budget": 3, "groups": NUMBERS},
        "budget=3: example 0 has 4 groups, each of which takes a pass; pass a larger budget"),
    "one group": ({"budget": 4, "groups": 16},
        "all 10 tokens of example 0 in columns 0 to 9 are one group"),
    "no size": ({"budget": 4, "groups": 0}, "groups=0: pass tokens per group, at least 1"),
    "another shape": (
        {"budget": 4, "groups": NUMBERS[:, 1:]},
        "groups has shape (1, 9) and dtype torch.int64; pass whole numbers (batch, token), here "
        "(1, 10)",
    ),
    "no level": ({"budget": 4, "groups": []}, "groups=[]: pass tokens per group"),
    "a level of fractions": ({"budget": 4, "groups": [NUMBERS, 0.5]},
        "groups=0.5: pass tokens per"),
    "fractions": ({"budget": 4, "groups": NUMBERS / 2}, "dtype torch.float32; pass whole numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_named(model, name):
    options, says = WRONG[name]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        attribute(model, text(), "loo", **options)
    assert says in str(caught.value)


def test_groups_without_a_budget_would_be_ignored(model):
    with pytest.raises(ValueError, match=r"groups has no use without a budget"):
        attribute(model, text(), "loo", groups=NUMBERS)
