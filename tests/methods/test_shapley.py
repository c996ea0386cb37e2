"""Shapley values are the means over all orders of tokens, and estimates know their errors."""

import warnings
from functools import cache
from itertools import permutations
from math import factorial

import numpy as np
import pytest
import torch

from benchmarks.sources import models
from numeric import attribute, explain
from numeric.attribution import attribute_each
from numeric.methods import shapley
from numeric.targets import logit
from tests.census.build import CAUSAL, build
from tests.methods.test_methods_of_two_texts import made as two_texts
from tests.methods.test_methods_of_two_texts import texts
from tests.support import cases, tools
from tests.support.cases import SINGLE, close
from tests.support.traces import assert_same, snapshot


def made(name):
    """A model, a batch with padding, and the place of the row of logits of each text."""
    if name != "language model":
        return *cases.family(name), ((0,), (0,))
    ids = torch.tensor([[2, 7, 1, 5, 7, 3], [2, 4, 9, 0, 0, 0]])
    inputs = {"input_ids": ids, "attention_mask": (ids > 0).long()}
    return tools.language_model(), inputs, ((0, 5), (0, 2))


def over_orders(model, inputs, players, place):
    """The logit without players, and its mean rise where a player comes into view, in any order."""

    @cache
    @torch.no_grad()
    def value(view):
        mask = inputs["attention_mask"].clone()
        mask[0, sorted(set(players) - view)] = 0
        return model(**inputs | {"attention_mask": mask}).logits[place].item()

    rises = dict.fromkeys(players, 0.0)
    for order in permutations(players):
        for n, player in enumerate(order):
            before = frozenset(order[:n])
            rises[player] += value(before | {player}) - value(before)
    return value(frozenset()), [x / factorial(len(players)) for x in rises.values()]


CASES = [(name, ()) for name in ("bert", "distilbert", "gpt2", "llama", "language model")]


@pytest.mark.parametrize(("name", "fixed"), [*CASES, ("bert", (5,)), ("llama", (1, 2, 3))])
def test_values_are_means_over_all_orders_of_players_and_add_up(name, fixed):
    model, inputs, rows = made(name)
    before = snapshot(model)
    still = torch.isin(torch.arange(6), torch.tensor(fixed)).expand(2, -1)
    a = attribute(model, inputs, "shapley", fixed=still if fixed else None)
    assert_same(before, snapshot(model))
    want = torch.zeros_like(a.relevance)
    for row in range(2):
        one = {key: x[[row]] for key, x in inputs.items()}
        players = [n for n in range(1, one["attention_mask"].sum()) if n not in fixed]
        empty, values = over_orders(model, one, players, (*rows[row], a.target[row]))
        want[row, players] = torch.tensor(values, dtype=want.dtype)
        assert a.details["baseline_logit"][row].item() == pytest.approx(empty, abs=1e-5)
        assert a.details["passes"][row] == 2 ** len(players) - 1 or not players
    close(a.relevance, want, tolerance=SINGLE)
    close(a.residual, a.details["baseline_logit"])
    assert (a.details["error"] == 0).all()


@pytest.mark.usefixtures("float64")
def test_the_value_of_a_single_player_is_its_loss_in_both_texts_of_a_translator():
    model, inputs = two_texts("t5"), texts()
    losses = attribute(model, inputs, "loo").relevance
    for column in (1, 3, 7, 9):
        fixed = (torch.arange(10) != column).expand(2, -1)
        close(attribute(model, inputs, "shapley", fixed=fixed).relevance, losses * ~fixed)
    players = attribute(model, inputs, "shapley").relevance != 0
    assert players.sum(dim=1).tolist() == [5 + 3, 3 + 3]


def test_exact_values_of_the_embedded_classifier_are_those_of_the_package_shap():
    shap, classifier = tools.loaded("shap"), models.load("embedded", dtype="float64")
    model, tokenizer = classifier.model, classifier.tokenizer
    found = explain(model, tokenizer, "not a bad film at all", method="shapley")
    inputs = tokenizer(["not a bad film at all"], return_tensors="pt")

    @torch.no_grad()
    def logits(view):
        many = {key: x.expand(len(view), -1) for key, x in inputs.items()}
        many["attention_mask"] = torch.tensor(np.insert(view, 0, 1, axis=1)).long()
        return model(**many).logits[:, found.target.item()].numpy()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the other package
        hidden = np.zeros_like(found.relevance[:, 1:])
        exact = shap.explainers.Exact(logits, shap.maskers.Independent(hidden))(1 - hidden)
    close(found.relevance[:, 1:], torch.tensor(exact.values))
    close(found.details["baseline_logit"], torch.tensor(exact.base_values))


def long_texts(name):
    """Texts of 12 and 10 tokens."""
    inputs = {key: x[[0, 5]] for key, x in cases.six_texts(name).items()}
    return cases.family(name)[0], inputs


@pytest.mark.parametrize(("name", "samples"), [("bert", 60), ("bert", 900), ("llama", 120)])
def test_19_values_of_20_are_within_two_standard_errors_and_all_add_up(name, samples):
    model, inputs = long_texts(name)
    exact, within = attribute(model, inputs, "shapley"), []
    assert exact.details["passes"].tolist() == [2**11 - 1, 2**9 - 1]
    for seed in range(20):
        a = attribute(model, inputs, "shapley", samples=samples, seed=seed)
        assert (a.details["passes"] <= samples).all()
        close(a.residual, exact.residual, tolerance=1e-9)
        error = a.details["error"]
        within += ((a.relevance - exact.relevance).abs() <= 2 * error)[error > 0].tolist()
    assert len(within) == 20 * (11 + 9 * (samples < 2**9))
    assert 0.91 < sum(within) / len(within) < 0.99


def test_values_that_add_up_are_found_in_few_samples_and_without_an_error():
    subset, *drawn = shapley._draw(8, 40, 0)
    lost = np.concatenate([subset[:1] | True, subset, ~subset]) @ np.arange(8.0)[:, None]
    (found, error) = shapley._fit(lost, subset, *drawn)
    assert np.allclose(found, np.arange(8))
    assert (error < 1e-12).all()


@pytest.mark.parametrize("samples", [44, 4096])
def test_a_text_gives_alone_what_it_gives_in_a_batch_and_a_seed_repeats(samples):
    model, inputs = long_texts("llama")
    run = lambda x, seed=0: attribute(model, x, "shapley", samples=samples, seed=seed)
    a = run(inputs)
    assert torch.equal(a.relevance, run(inputs).relevance)
    other = run(inputs, seed=1).relevance
    assert torch.allclose(a.relevance, other, atol=1e-9) == (samples == 4096)
    alone = run({key: x[1:, :10] for key, x in inputs.items()})
    close(alone.relevance, a.relevance[1:, :10], tolerance=SINGLE)
    close(alone.details["error"], a.details["error"][1:, :10], tolerance=SINGLE)


def test_equal_tokens_have_equal_values_where_nothing_tells_their_places():
    model, inputs = cases.family("bert")
    with torch.no_grad():
        model.bert.embeddings.position_embeddings.weight.zero_()
    inputs["input_ids"][0, [2, 4]] = 7
    (a, _) = attribute(model, inputs, "shapley").relevance
    close(a[2], a[4])
    assert (a[2] - a[3]).abs() > 1e-3


def test_targets_share_passes_and_a_token_behind_the_row_that_is_read_has_no_value():
    model, inputs, _ = made("language model")
    inputs, passes = cases.first(inputs), []
    model.register_forward_hook(lambda *x: passes.append(len(x[-1].logits)))
    targets = [logit(4, at=2), logit(4) - logit(5, at=3)]
    found = attribute_each(model, inputs, "shapley", targets=targets)
    together = sum(passes)
    for a, target in zip(found, targets, strict=True):
        close(a.relevance, attribute(model, inputs, "shapley", target).relevance, tolerance=SINGLE)
    assert sum(passes) > 2.5 * together
    assert (found[0].relevance[0, 3:].abs() < 1e-12).all()
    assert (found[1].relevance[0, 1:].abs() > 1e-4).all()


def test_rows_behind_a_window_are_refused():
    with pytest.raises(ValueError, match="sliding_window=5: rows of 6 tokens"):
        attribute(*cases.family("mistral", sliding_window=5), "shapley")
    neo = build("gpt_neo", CAUSAL)
    neo.config.window_size = 5
    with pytest.raises(ValueError, match="window_size=5: rows of 6 tokens"):
        attribute(neo, {"input_ids": torch.arange(2, 8)[None]}, "shapley")
