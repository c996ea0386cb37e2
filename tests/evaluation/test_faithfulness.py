"""``evaluate``: every measure against one forward pass of the stock model at a time."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from numeric import attribute, evaluate
from numeric.evaluation import faithfulness, soft
from numeric.evaluation.faithfulness import MEASURES
from numeric.evaluation.trial import TextTrial
from tests.support import cases
from tests.support.tools import translator

CHANCE = np.random.default_rng(0)
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def random_map(batch):
    return CHANCE.normal(size=batch["input_ids"].shape)


def alone(batch, row):
    """One text without its padding, and the columns that it had."""
    columns = (batch["attention_mask"][row] == 1).nonzero()[:, 0]
    return {key: x[[row]][:, columns] for key, x in batch.items()}, columns


def probability(model, words, target, **rest):
    with torch.no_grad():
        logits = model(inputs_embeds=words, **rest).logits
    return logits.softmax(dim=1)[0, target].item()


@pytest.fixture
def maps(batch):
    return {"one": random_map(batch), "other": random_map(batch)}


def test_agreement_is_that_of_scipy_with_leave_one_out(tiny, batch, maps):
    loo = attribute(tiny, batch, "loo").relevance
    found = evaluate(tiny, batch, maps, measures=["r", "tau"])
    for name, x in maps.items():
        for row, mask in enumerate(batch["attention_mask"] == 1):
            pair = x[row, mask], loo[row, mask]
            assert found[name]["r"][row] == pytest.approx(stats.pearsonr(*pair)[0])
            assert found[name]["tau"][row] == pytest.approx(stats.kendalltau(*pair)[0])


@pytest.mark.parametrize("measure", ["r", "Δ", "top drop", "LDS", "explained"])
def test_a_logit_that_a_removal_makes_infinite_is_an_error(measure, tiny, batch, maps, monkeypatch):
    run = TextTrial.numbers
    endless = lambda *given: torch.full_like(run(*given), torch.inf)
    monkeypatch.setattr(TextTrial, "numbers", endless)
    with pytest.raises(ValueError, match="without some tokens the model has no finite logit"):
        evaluate(tiny, batch, maps, measures=[measure])


def test_removals_are_those_of_the_stock_model_with_that_mask(tiny, batch, maps, monkeypatch):
    asked_for = []
    run = TextTrial.logits

    def watched(trial, keep):
        found = run(trial, keep)
        asked_for.append((keep, found))
        return found

    monkeypatch.setattr(TextTrial, "logits", watched)
    found = evaluate(tiny, batch, maps, measures=["top drop", "LDS", "explained"], top=2, subsets=9)
    a = attribute(tiny, batch, "loo")
    for keep, logits in asked_for:
        for row, copy in np.ndindex(logits.shape):
            one = {key: x[[row]] for key, x in batch.items()}
            one["attention_mask"] = torch.as_tensor(keep[row, copy])[None].long()
            with torch.no_grad():
                want = tiny(**one).logits[0, a.target[row]].item()
            assert logits[row, copy] == pytest.approx(want)
    (top, _), (halves, of_halves), (quarters, of_quarters) = asked_for
    for n, (name, x) in enumerate(maps.items()):
        for row, mask in enumerate((batch["attention_mask"] == 1).numpy()):
            present = mask.nonzero()[0]
            most = present[np.argsort(-x[row, present])][:2]
            assert set(present) - set(top[row, n].nonzero()[0]) == set(most)
            assert (
                halves[row].sum(axis=1) == len(present) - len(present[(len(present) + 1) // 2 :])
            ).all()
            want = stats.spearmanr(halves[row] @ (x[row] * mask), of_halves[row])[0]
            np.testing.assert_allclose(found[name]["LDS"][row], want, **CLOSE)
            assert (quarters[row].sum(axis=1) == len(present) - max(2, len(present) // 4)).all()
            r = stats.pearsonr(quarters[row] @ (x[row] * mask), of_quarters[row])[0]
            np.testing.assert_allclose(found[name]["explained"][row], max(r, 0) ** 2, **CLOSE)
    drop = a.logit[:, None].numpy() - asked_for[0][1]
    assert found["other"]["top drop"] == pytest.approx(drop[:, 1])


def test_curves_are_the_means_of_table_2(tiny, batch, maps):
    from numeric.evaluation.perturbation import perturbation_curves
    from numeric.models.inputs import prepare

    a = attribute(tiny, batch, "cp-lrp")
    ((morf, lerf),) = perturbation_curves(tiny, prepare(tiny, batch), [a.relevance], a.target)
    found = evaluate(tiny, batch, a.relevance, measures=["Δ", "MoRF", "LeRF"])["relevance"]
    np.testing.assert_allclose(found["MoRF"], morf.mean)
    np.testing.assert_allclose(found["Δ"], lerf.mean - morf.mean)


def test_soft_measures_of_ones_and_zeros_are_what_masked_words_give(tiny, batch):
    """Shares of 0 and 1 leave nothing to chance."""
    chosen = (random_map(batch) > 0).astype(float)
    chosen[:, 0], chosen[:, 1] = 0, 1  # so that it is no constant
    a = attribute(tiny, batch, "loo")
    found = evaluate(tiny, batch, chosen, samples=3)["relevance"]
    for row in range(len(chosen)):
        one, columns = alone(batch, row)
        words = tiny.get_input_embeddings()(one.pop("input_ids")).detach()
        share = torch.as_tensor(chosen[row, columns])[None, :, None]
        p, stays, goes, nothing = (
            probability(tiny, words * factor, a.target[row], **one)
            for factor in (1, share, 1 - share, 0)
        )
        if p <= nothing:
            assert np.isnan(found["soft sufficiency"][row])
            continue
        want = np.clip((stays - nothing) / (p - nothing), 0, 1)
        assert found["soft sufficiency"][row] == pytest.approx(want)
        want = np.clip((p - goes) / (p - nothing), 0, 1)
        assert found["soft comprehensiveness"][row] == pytest.approx(want)


def test_values_are_shuffled_by_a_draw_of_their_own():
    numbers = []

    class Trial:
        samples, present = 3, np.ones((1, 4), dtype=bool)

        def chance(self, row, number=0):
            numbers.append(number)
            return np.random.default_rng(number)

    soft._shares(np.arange(4.0)[None], Trial())
    assert not {*numbers} & {*range(Trial.samples)}  # which are of the samples


def test_values_of_any_place_have_no_gain_in_the_mean(embedded):
    inputs = cases.encode(["a fine film with a weak end .", "dull and long , all in all"])
    maps = {str(n): random_map(inputs) for n in range(40)}
    soft = [name for name in MEASURES if "soft" in name]
    found = evaluate(embedded["sdpa"], inputs, maps, measures=soft, samples=4)
    for name in soft:
        means = np.array([np.nanmean(found[each][name]) for each in maps])
        distance = abs(means.mean()) / (means.std() / np.sqrt(len(means)))
        assert (distance < 4) == name.endswith("gain"), name


def test_a_text_has_the_values_that_it_has_alone_and_maps_those_that_they_have_alone(
    tiny, batch, maps
):
    together = evaluate(tiny, batch, maps, subsets=8, samples=3)
    for name, x in maps.items():
        for row in range(len(x)):
            one, columns = alone(batch, row)
            found = evaluate(tiny, one, x[[row]][:, columns], subsets=8, samples=3)["relevance"]
            assert list(found) == list(MEASURES)
            for key, (value,) in found.items():
                np.testing.assert_allclose(together[name][key][row], value, err_msg=key, **CLOSE)


def test_the_other_sign_turns_around_what_ranks(tiny, batch):
    x = random_map(batch)
    measures = ["r", "tau", "MoRF", "LeRF", "LDS", "explained"]
    up, down, *others = (
        evaluate(tiny, batch, factor * x, measures=measures)["relevance"]
        for factor in (1, -1, 3, 1e-30, 1e300)
    )
    for key in measures:
        for other in others:
            np.testing.assert_allclose(other[key], up[key], err_msg=key, **CLOSE)
    for key in ("r", "tau", "LDS"):
        np.testing.assert_allclose(down[key], -up[key], **CLOSE)
    np.testing.assert_allclose(down["MoRF"], up["LeRF"], **CLOSE)
    assert ((up["explained"] > 0) != (down["explained"] > 0)).all()


@pytest.mark.parametrize("name", ["gpt2", "llama", "roberta"])
def test_other_families_are_measured(name):
    model, inputs = cases.family(name)
    found = evaluate(model, inputs, random_map(inputs), subsets=4, samples=2)["relevance"]
    assert all(np.isfinite(found[key]).all() for key in ("r", "Δ", "LDS", "explained", "top drop"))


def test_what_a_constant_map_has_no_value_of_is_nan(tiny, batch):
    x = random_map(batch)
    x[0] = 0.25
    alone = {key: batch[key][1:] for key in batch}
    measures = [name for name in MEASURES if "soft" in name] + ["r", "tau", "LDS", "explained"]
    found = evaluate(tiny, batch, x, measures=measures)["relevance"]
    of_other = evaluate(tiny, alone, x[1:], measures=measures)["relevance"]
    for name in measures:
        assert np.isnan(found[name][0]), name
        np.testing.assert_allclose(found[name][1:], of_other[name], err_msg=name, **CLOSE)


def test_whole_numbers_of_numpy_are_taken(tiny, batch):
    x, numbers = random_map(batch), {"top": 2, "subsets": 4, "samples": 2, "seed": 1}
    of_type = lambda kind: {name: kind(n) for name, n in numbers.items()}
    found, same = (evaluate(tiny, batch, x, **of_type(kind)) for kind in (np.int64, int))
    np.testing.assert_equal(found, same)


WRONG = {
    "shape": ({"relevance": np.zeros((1, 2))}, "relevance is float64 of shape (1, 2); pass num"),
    "words": ({"relevance": "good"}, "of shape (); pass numbers (batch, token)"),
    "no map": ({"relevance": {}}, "relevance holds no maps"),
    "several": ({"relevance": {"a": [[1.0]], "b": "x"}}, "a is float64 of shape (1, 1)...\nb is "),
    "measure": ({"measures": ["AOPC", "r"]}, "unknown measure 'AOPC'; the measures are r, tau"),
    "numbers": ({"top": 0, "samples": 2.0}, "top=0, samples=2.0: pass a whole number, at least 1"),
    "complex numbers": ({"relevance": [[1j]]}, "relevance is complex128 of shape (1, 1); pass"),
    "complex tensor": ({"relevance": torch.zeros(2, 6) * 1j}, "relevance is complex64 of shape"),
    "rows of two lengths": ({"relevance": [[1.0], [1.0, 2.0]]}, "of shape (); pass numbers"),
    "a result": ({"relevance": SimpleNamespace(relevance=1)}, "relevance is object of shape ()"),
    "seed": ({"seed": -1, "top": 0}, "top=0: pass...\nseed=-1: pass a whole number, at least 0"),
    "no seed": ({"seed": None}, "seed=None: pass a whole number, at least 0"),
    "no memory": ({"memory": 0, "measures": ["MoRF"]}, "memory=0: pass a number of bytes"),
    "little memory": ({"memory": 100, "measures": ["MoRF"]}, "memory=100: one copy"),
    "target": ({"target": 7}, "target [7] out of range"),
    "fixed": ({"fixed": [[1, 0]]}, "fixed is int64 of shape (1, 2); pass True or False (batch, t"),
    "all fixed": ({"fixed": np.ones((2, 6), bool)}, "no token to remove in examples [0, 1]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_named(tiny, batch, name):
    changed, says = WRONG[name]
    given = {"relevance": np.zeros(batch["input_ids"].shape)} | changed
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        evaluate(tiny, batch, given.pop("relevance"), **given)
    for part in says.split("..."):
        assert part in str(caught.value)


def test_a_map_that_is_not_finite_is_named_with_its_examples(tiny, batch):
    x = random_map(batch)
    x[1, 0] = np.nan
    with pytest.raises(ValueError, match=r"relevance is not finite in examples \[1\]"):
        evaluate(tiny, batch, x)


def test_a_measure_may_be_given_by_itself(tiny, batch):
    x = random_map(batch)
    found = evaluate(tiny, batch, x, measures="tau")["relevance"]
    want = evaluate(tiny, batch, x, measures=["tau"])["relevance"]
    assert list(found) == ["tau"]
    np.testing.assert_array_equal(found["tau"], want["tau"])


def test_two_texts_are_refused():
    ids = torch.tensor([[7, 8, 9]])
    with pytest.raises(ValueError, match="decoder_input_ids: the measures are of one text"):
        evaluate(translator(), {"input_ids": ids, "decoder_input_ids": ids}, [[1.0, 2.0, 3.0]])


def test_every_measure_is_said_in_the_docs():
    for name in MEASURES:
        assert name.removesuffix(" gain") in faithfulness.evaluate.__doc__


@pytest.mark.parametrize("change", [
    {"problem_type": "multi_label_classification"}, {"num_labels": 1},
    {"problem_type": "regression", "num_labels": 3},
], ids=["several labels", "a number", "several numbers"])  # fmt: skip
def test_labels_without_a_distribution_have_no_soft_measures(change):
    model, inputs = cases.tiny_bert(**change), cases.tiny_batch()
    maps = torch.ones(inputs["input_ids"].shape)
    found = evaluate(model, inputs, maps.cumsum(dim=1), target=0)["relevance"]
    assert list(found) == list(MEASURES)
    for name, values in found.items():
        assert np.isnan(values).all() == ("soft" in name), name
