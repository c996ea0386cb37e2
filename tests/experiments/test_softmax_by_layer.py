"""Softmax errors by layer: the table and its notes equal a recomputation, a sentence at a time."""

import numpy as np
import pytest
from scipy.stats import pearsonr

from axioms.composites import ATTNLRP, bypass_softmax
from benchmarks.experiments import softmax_by_layer
from numeric.evaluation.softmax_errors import softmax_errors
from tests.support import one_by_one
from tests.support.one_by_one import CONTENT, close, mean


@pytest.fixture(scope="module")
def softmax(six_sentences):
    return softmax_by_layer.softmax(
        one_by_one.measure(["table2-sst2-loo", "figure2-sst2", "softmax-sst2"], six_sentences)
    )


@pytest.fixture(scope="module")
def errors(sentences):
    """By sentence: all errors, (1, layer) each."""
    return [vars(softmax_errors(s.model, s.inputs)) for s in sentences]


def test_rows_are_means_of_what_one_sentence_at_a_time_gives(softmax, errors):
    assert [row["layer"] for row in softmax.rows] == list(range(1, 13))
    for row in softmax.rows:
        for key in errors[0]:
            values = [found[key][0, row["layer"] - 1] for found in errors]
            close(row[key], mean(values), tolerance=1e-8)
            assert row[f"{key} undefined"] == np.isnan(values).sum()
            assert row[f"{key} low"] <= row[key] <= row[f"{key} high"]


@pytest.mark.parametrize("layer", [1, 7, 12])
def test_the_gain_is_that_of_bypassing_this_layer_alone(softmax, sentences, layer):
    alone = bypass_softmax([layer - 1])
    for tokens, kept in (("all", slice(None)), ("content", CONTENT)):
        want = [s.r(alone, kept=kept) - s.r(ATTNLRP, kept=kept) for s in sentences]
        close(softmax.rows[layer - 1][f"gain {tokens}"], mean(want))


def test_per_text_errors_stand_beside_their_own_text_and_layer(softmax, errors):
    columns = softmax.examples
    places = list(zip(columns["example"], columns["layer"], strict=True))
    assert sorted(places) == [(n, layer) for n in range(6) for layer in range(1, 13)]
    for n, (example, layer) in enumerate(places):
        want = errors[example]["linearization_error"][0, layer - 1]
        close(columns["linearization_error"][n], want, tolerance=1e-8)


def test_notes_of_softmax_are_correlations_over_the_layers(softmax):
    column = lambda key: [row[key] for row in softmax.rows]
    names = {
        "flatness": "Flatness of attention",
        "linearization_error": "Linearization error",
        "structural_bias": "Structural bias",
    }
    for note, (key, name) in zip(softmax.notes, names.items(), strict=False):
        assert note.startswith(f"{name} against the gain of bypassing that layer alone, over 12")
        for tokens in ("all", "content"):
            r = pearsonr(column(key), column(f"gain {tokens}"))
            low, high = r.confidence_interval()
            assert f"{r.statistic:+.2f} [{low:+.2f}, {high:+.2f}] ({tokens} tokens)" in note
    for key in ("linearization_error", "first_order_error"):
        r = pearsonr(column(key), column("flatness"))
        low, high = r.confidence_interval()
        assert f"{r.statistic:+.2f} [{low:+.2f}, {high:+.2f}] (effect" in softmax.notes[3]
    few, undefined = softmax.notes[4:]  # a text of one word
    assert few == "With fewer than 20 texts these intervals are too narrow: use more."
    assert undefined.startswith("gain content undefined in up to 1 examples")
