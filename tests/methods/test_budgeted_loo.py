"""Leave-One-Out of a few tokens, mask relevance of the others, and the reported errors."""

from itertools import pairwise

import pytest
import torch
from transformers import BertLMHeadModel

from numeric import attribute
from numeric.attribution import attribute_each
from numeric.targets import logit
from tests.census.build import with_inputs
from tests.census.measure import conditions
from tests.support import cases
from tests.support.cases import close
from tests.support.tools import language_model

TEXTS = [
    "The plot is thin, but the acting is a quiet joy and it lasts",
    "not a bad film",
    "Nobody laughed, and the second half of it was worse than the first.",
]


@pytest.fixture(scope="module")
def inputs(loaded):
    return loaded.tokenizer(TEXTS, return_tensors="pt", padding=True)


@pytest.fixture(scope="module")
def exact(loaded, inputs):
    return attribute(loaded.model, inputs, "loo").relevance


@pytest.fixture(scope="module")
def first_order(loaded, inputs):
    return attribute(loaded.model, inputs, "mask-relevance", heads=True)


ALL_TOKENS = [("loo", "roberta"), *(("budgeted-loo", x) for x in ("bert", "roberta", "llama"))]


@pytest.mark.parametrize(("method", "name"), ALL_TOKENS)
def test_a_budget_of_all_tokens_is_leave_one_out(method, name):
    model, inputs = cases.family(name)
    want = attribute(model, inputs, "loo")
    found = attribute(model, inputs, method, budget=inputs["input_ids"].shape[1])
    close(found.relevance, want.relevance)
    assert (found.details["passes"] == inputs["attention_mask"].sum(dim=1)).all()
    assert (found.details["by_token"] == inputs["attention_mask"]).all()
    assert method == "loo" or (found.details["error"] == 0).all()
    assert want.details == {}


def test_what_is_read_and_tokens_of_most_flow_are_left_out_and_the_others_keep_their_relevance(
    loaded, inputs, exact, first_order
):
    flow = first_order.details["heads"].abs().sum(dim=(1, 2))
    for budget in (1, 3, 5):
        found = attribute(loaded.model, inputs, "budgeted-loo", budget=budget)
        alone = found.details["by_token"] == 1
        want = torch.zeros_like(alone)
        for row, own in enumerate(flow.index_fill(1, torch.tensor([0]), torch.inf)):  # [CLS]
            want[row, own.argsort(descending=True)[:budget]] = True
        assert torch.equal(alone, want)
        close(found.relevance, torch.where(alone, exact, first_order.relevance), tolerance=1e-5)
        assert found.details["passes"].tolist() == [budget] * 3


READ = {"llama": -1, "gpt_neox": -1, "xlm-roberta": 0, "deberta-v2": 0}  # LLaMA has a record


@pytest.mark.parametrize("name", READ)
def test_the_token_that_is_read_comes_first(name):
    """Mask relevance ignores the effect of a mask in its own row, which can be the largest."""
    with conditions():
        model, batch = with_inputs(name)
        found = attribute(model, batch, "budgeted-loo", budget=1)
        kept = [row.nonzero()[:, 0].tolist() for row in batch["attention_mask"]]
        assert found.details["by_token"].argmax(dim=1).tolist() == [x[READ[name]] for x in kept]
        exact = attribute(model, batch, "loo", found.target).relevance
        sure = attribute(model, batch, "budgeted-loo", found.target, tolerance=1e-3).relevance
        assert (sure - exact).abs().max() <= 1e-3


def test_a_text_shorter_than_the_budget_is_exact_beside_longer_ones(loaded, inputs, exact):
    found = attribute(loaded.model, inputs, "budgeted-loo", budget=6)
    assert found.details["passes"].tolist() == [6, 6, 6]
    found = attribute(loaded.model, inputs, "budgeted-loo", budget=10)
    assert found.details["passes"].tolist() == [10, 6, 10]
    close(found.relevance[1], exact[1], tolerance=1e-5)


def assert_errors_are_of_the_flow(found, missed, flow):
    """Two root mean squares of the errors in the tokens left out, for each unit of flow."""
    for row in range(3):
        alone = found.details["by_token"][row] == 1
        ratio = missed[row, alone].square().sum().sqrt() / flow[row, alone].square().sum().sqrt()
        want = torch.where(alone, 0.0, 2 * ratio * flow[row])
        close(found.details["error"][row], want, tolerance=1e-4)


def test_an_error_is_the_flow_of_a_token_by_the_errors_of_those_left_out(
    loaded, inputs, exact, first_order
):
    flow = first_order.details["heads"].abs().sum(dim=(1, 2))
    found = attribute(loaded.model, inputs, "budgeted-loo", budget=3)
    assert_errors_are_of_the_flow(found, exact - first_order.relevance, flow)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_token_without_a_flow_says_nothing_of_the_errors_of_others(side):
    """The last token of a causal model, which no other row attends to."""
    model, inputs = cases.family("llama")[0], cases.family_inputs("llama")
    if side == "left":
        inputs = {key: x.flip(1) for key, x in inputs.items()}
    present = inputs["attention_mask"] == 1
    found = attribute(model, inputs, "budgeted-loo", budget=1)
    alone = found.details["by_token"] == 1
    assert (found.details["error"][alone | ~present] == 0).all()
    assert found.details["error"][present & ~alone].isinf().all()
    more = attribute(model, inputs, "budgeted-loo", budget=2).details["error"]
    assert more.isfinite().all()


@pytest.fixture(scope="module")
def prompts(lm):
    """The embedded language model, three prompts of one length, and the words that come next."""
    texts = ["anna apple bert pen ; anna", "carl egg dora ink ; dora", "( [ ] < > ;"]
    answers = lm.tokenizer.convert_tokens_to_ids(["apple", "ink", ")"])
    return lm.model, lm.tokenizer(texts, return_tensors="pt", padding=True), answers


def of_prompts(prompts, method, **options):
    model, inputs, answers = prompts
    inputs = {key: x for key, x in inputs.items() if key != "token_type_ids"}
    return attribute(model, inputs, method, logit(tuple(answers)), **options)


@pytest.mark.parametrize("budget", [2, 3, 5])
def test_before_a_next_token_every_flow_has_six_means_added(prompts, budget):
    first_order = of_prompts(prompts, "mask-relevance", heads=True)
    flow = first_order.details["heads"].abs().sum(dim=(1, 2))
    flow = flow + 6 * flow.mean(dim=1, keepdim=True)
    exact = of_prompts(prompts, "loo").relevance
    found = of_prompts(prompts, "budgeted-loo", budget=budget)
    assert_errors_are_of_the_flow(found, exact - first_order.relevance, flow)


def test_no_token_behind_the_row_that_is_read_is_left_out_or_has_an_error(prompts):
    model, inputs, answers = prompts
    inputs = {key: inputs[key] for key in ("input_ids", "attention_mask")}
    early = logit(answers[0], at=3)
    found = attribute(model, inputs, "budgeted-loo", early, budget=2)
    assert (found.details["error"][:, 4:] == 0).all()
    assert (found.details["error"] > 0).sum(dim=1).tolist() == [2, 2, 2]  # of four, two are exact
    exact = attribute(model, inputs, "loo", early).relevance
    sure = attribute(model, inputs, "budgeted-loo", early, budget=7)
    assert (sure.details["error"] == 0).all()
    assert sure.details["passes"].tolist() == [4, 4, 4]
    close(sure.relevance, exact, tolerance=1e-4)


def test_tokens_are_left_out_until_no_error_is_larger_than_the_tolerance(loaded, inputs):
    passes = []
    for tolerance in (10.0, 0.3, 0.1, 0.03, 0.0):
        found = attribute(loaded.model, inputs, "budgeted-loo", tolerance=tolerance)
        assert (found.details["error"] <= tolerance).all()
        passes.append(found.details["passes"])
    assert passes[0].tolist() == [4, 4, 4]
    assert all((fewer <= more).all() for fewer, more in pairwise(passes))
    assert torch.equal(passes[-1], inputs["attention_mask"].sum(dim=1))
    assert (passes[2] > passes[0]).any()


def test_a_budget_ends_what_a_tolerance_asks_for(loaded, inputs):
    found = attribute(loaded.model, inputs, "budgeted-loo", tolerance=0.0, budget=5)
    assert found.details["passes"].tolist() == [5, 5, 5]
    assert (found.details["error"] > 0).any(dim=1).tolist() == [True] * 3


def test_padding_changes_nothing(loaded, inputs):
    together = attribute(loaded.model, inputs, "budgeted-loo", budget=3)
    for row, text in enumerate(TEXTS):
        own = loaded.tokenizer([text], return_tensors="pt")
        alone = attribute(loaded.model, own, "budgeted-loo", budget=3).relevance[0]
        close(together.relevance[row, : len(alone)], alone, tolerance=1e-4)
        assert (together.relevance[row, len(alone) :] == 0).all()


def test_every_target_has_its_own_losses_at_the_same_tokens(loaded, inputs, exact):
    found = attribute_each(
        loaded.model, inputs, "budgeted-loo", targets=[logit(0), logit(1)], budget=3
    )
    alone = found[0].details["by_token"] == 1
    assert torch.equal(found[0].details["by_token"], found[1].details["by_token"])
    for n, each in enumerate(found):
        want = attribute(loaded.model, inputs, "loo", target=n).relevance
        close(each.relevance[alone], want[alone], tolerance=1e-5)


def test_each_of_several_targets_has_the_error_of_its_own_row():
    """Tokens behind the row of a target are exact for it, whichever rows other targets read."""
    model = language_model()
    ids = torch.randint(5, 11, (1, 12), generator=torch.Generator().manual_seed(6))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    columns = [3, 11]
    targets = [logit(5, at=at) for at in columns]
    given = {"targets": targets, "budget": 4}
    found = attribute_each(model, inputs, "budgeted-loo", **given)
    for at, target, each in zip(columns, targets, found, strict=True):
        guess = attribute(model, inputs, "mask-relevance", target, heads=True)
        flow = guess.details["heads"].abs().sum(dim=(1, 2))
        flow = flow + 6 * flow.sum() / (at + 1)
        exact = each.details["by_token"].clone()
        exact[:, at + 1 :] = 0
        wrong = attribute(model, inputs, "loo", target).relevance - guess.relevance
        known = (flow * exact).norm()
        want = 2 * (wrong * exact).norm() / known * flow if known else flow + torch.inf
        want = want.where(exact == 0, 0)
        want[:, at + 1 :] = 0
        close(each.details["error"], want)
    close_enough = attribute_each(model, inputs, "budgeted-loo", targets=targets[:1], tolerance=0)
    assert close_enough[0].details["by_token"].sum() == 4


def test_a_language_model_that_sees_later_tokens_has_them_left_out():
    """``is_decoder`` of BERT is False by default."""
    model, inputs, target = cases.perturbed(BertLMHeadModel), cases.tiny_batch(), logit(3, at=2)
    loo = attribute(model, inputs, "loo", target)
    found = attribute(model, inputs, "budgeted-loo", target, budget=inputs["input_ids"].shape[1])
    assert loo.relevance[:, 3:].abs().max() > 0.001
    close(found.relevance, loo.relevance)
    assert (found.details["by_token"] == inputs["attention_mask"]).all()


@pytest.mark.parametrize(
    ("method", "options"), [("loo", {"budget": 7, "groups": 2}), ("budgeted-loo", {"budget": 3})]
)
def test_the_size_of_a_target_changes_nothing_about_another(method, options):
    model, inputs = cases.family("bert")[0], cases.six_texts("bert")

    def found(factor):
        targets = [logit(0), factor * logit(1)]
        return attribute_each(model, inputs, method, targets=targets, **options)

    one, far = found(0.001), found(1000)
    close(one[0].relevance, far[0].relevance, tolerance=1e-6)
    assert torch.equal(one[0].details["by_token"], far[1].details["by_token"])
