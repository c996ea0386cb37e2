"""The table of activation patching: its pairs, its rules one at a time, and its means."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from axioms.composites import ATTNLRP, CP_LRP, GRADIENT_X_INPUT
from benchmarks.errors import UnavailableError
from benchmarks.experiments import drawing, tables
from benchmarks.experiments.causes.language import TASKS, VOCABULARY, answer
from benchmarks.experiments.patching import experiment as measure
from benchmarks.experiments.patching.experiment import LABELS, MASK, RANDOM, RULES, WORD, ZEROS
from benchmarks.experiments.patching.pairs import OPPOSITE, network, prompt_pairs, text_pairs
from benchmarks.research.train_patching import RATES, train
from benchmarks.sources import data, models
from numeric.evaluation.patching import ATTENTION, MLP, PLACES, RESIDUAL, Patched
from numeric.models import digests
from numeric.targets import logit
from numeric.targets.readout import read

TEXTS = ("A good film.", "Nothing of this kind.", "It was a dull, dull evening.")


def test_texts_have_one_word_replaced_by_its_opposite_or_masked():
    found = models.load("embedded")
    pairs = list(text_pairs(found, TEXTS, 5))
    assert [pair.text for pair in pairs] == [TEXTS[0], TEXTS[2]]
    for pair, word in zip(pairs, ("good", "dull"), strict=True):
        said = [found.tokenizer.tokenize(x) for x in (pair.text, word, OPPOSITE[word])]
        text, old, new = said
        ids = found.tokenizer.convert_ids_to_tokens
        start = text.index(old[0])
        changed = [*text[:start], *new, *text[start + len(old) :]]
        assert ids(pair.clean["input_ids"][0].tolist()) == ["[CLS]", *text, "[SEP]"]
        assert ids(pair.other["input_ids"][0].tolist()) == ["[CLS]", *changed, "[SEP]"]
        differs = pair.clean["input_ids"] != pair.other["input_ids"]
        assert (pair.masked["input_ids"] == found.tokenizer.mask_token_id).equal(differs)
        with torch.no_grad():
            output = found.model(**pair.clean)
        assert read(found.model, pair.clean, output, pair.target) > 0  # the predicted one is first
    assert len(list(text_pairs(found, TEXTS, 1))) == 1


def test_prompts_have_another_answer_with_another_word_and_both_are_predicted():
    found = models.load("embedded-lm")
    pairs = list(prompt_pairs(found, 12))
    tasks = []
    for pair in pairs:
        clean, other = (
            tuple(VOCABULARY[n] for n in x["input_ids"][0, 1:]) for x in (pair.clean, pair.other)
        )
        (task,) = (task for task in TASKS if answer(task, clean))
        tasks.append(task)
        assert " ".join(clean) == pair.text
        assert sum(a != b for a, b in zip(clean, other, strict=True)) == 1
        first, second = (VOCABULARY.index(answer(task, x)) for x in (clean, other))
        assert first != second
        assert pair.target == logit(first) - logit(second)
        for inputs, label in ((pair.clean, first), (pair.other, second)):
            with torch.no_grad():
                assert found.model(**inputs).logits[0, -1].argmax() == label
    assert {*tasks} == {*TASKS}
    assert [pair.text for pair in pairs] == [pair.text for pair in prompt_pairs(found, 12)]
    silent = replace(found, model=network(norms="before", seed=0).eval())
    assert len(list(prompt_pairs(silent, 6))) < len(list(prompt_pairs(silent, 6, right=False))) == 6


def test_the_rules_alone_are_those_of_both_methods_together():
    plain = GRADIENT_X_INPUT.rules
    alone = {
        name: {kind: rule for kind, rule in x.rules.items() if rule != plain[kind]}
        for name, x in RULES.items()
    }
    shared = alone["norms"] | alone["activations"] | alone["gates"]
    assert len(shared) == 4
    for attention, whole in (("halves", ATTNLRP), ("bypass", CP_LRP)):
        together = {**plain, **shared, **alone[attention]}
        differ = {kind for kind, rule in whole.rules.items() if together[kind] != rule}
        assert differ == {"linear", "add", "bilinear"}  # the gradient, as epsilon is 0; or not met
    assert alone["gradient"] == {}
    assert {*LABELS} == {*RULES}


def made_up(effect, predicted, length, cosine, keep=None):
    """One layer, the same at all places."""
    whole = lambda values: {place: np.array([values]) for place in PLACES}
    return Patched(
        effect=whole(effect),
        predicted={"gradient": whole(predicted)},
        keep=whole([True] * len(effect) if keep is None else keep),
        length=whole(length),
        cosine=whole(cosine),
    )


def test_r_is_over_kept_places_and_the_theorem_is_weighted_by_squared_effects():
    effect, predicted = [1.0, 2.0, -3.0, 9.0], [2.0, 1.0, -4.0, -50.0]
    length, cosine = [1.0, 1.5, math.nan, 1.0], [0.5, 0.9, math.nan, 0.2]
    found = made_up(effect, predicted, length, cosine, keep=[True, True, True, False])
    for row in measure.scores(found):
        assert row["gradient"] == pytest.approx(np.corrcoef(effect[:3], predicted[:3])[0, 1])
        assert row["places"] == 3
        assert row["held"] == pytest.approx(1 / (1 + 4))  # 0.9 (1 + 0.5) > 1 is the gradient's
        assert row["gradient"] != pytest.approx(np.corrcoef(effect, predicted)[0, 1])


@pytest.fixture(scope="module")
def result():
    texts = data.load()
    return measure.measured(("embedded-lm", *RANDOM), texts, count=2)


def test_every_model_corruption_and_place_has_a_row_of_the_mean_over_its_pairs(result):
    cells = {(row["model"], row["corrupted"]) for row in result.rows}
    assert ("embedded-lm", ZEROS) in cells
    assert ("embedded-lm", MASK) not in cells  # whose tokenizer has none
    assert len(result.rows) == 3 * len(cells) == 3 * (3 + 2 * 2)
    for row in result.rows:
        same = [
            n
            for n, x in enumerate(
                zip(*(result.examples[k] for k in ("model", "corrupted", "place")), strict=True)
            )
            if x == (row["model"], row["corrupted"], row["place"])
        ]
        assert row["pairs"] == len(same) == 2
        for rule in RULES:
            values = [result.examples[rule][n] for n in same]
            assert row[rule] == pytest.approx(np.mean(values))
            assert row[f"{rule} low"] <= row[rule] <= row[f"{rule} high"]
    one, two = (digests.of_model(measure.model(name).model) for name in RANDOM)
    assert one != two


def test_of_a_small_change_the_gradient_is_closer_and_the_theorem_says_so(result):
    small = [row for row in result.rows if row["corrupted"] == measure.TENTH]
    assert len(small) == 9
    for row in small:
        assert row["gradient"] > max(row["norms"], row["attnlrp"])
        assert row["held"] < 0.5


def test_notes_count_the_rows_that_the_theorem_decides_right():
    row = dict.fromkeys(RULES, 0.5) | {"model": "m", "corrupted": WORD, "place": MLP}
    gains = [(0.2, 0.1, 0.3, 0.9), (-0.2, -0.3, -0.1, 0.9), (0.1, -0.1, 0.2, 0.1)]
    rows = [
        row | {"gain": gain, "gain low": low, "gain high": high, "held": held}
        for gain, low, high, held in gains
    ]
    first, *others = measure.notes(rows)
    assert first.startswith("In 1 of 2 rows")
    assert len(others) == 3


def test_the_table_and_the_figure_show_it(result):
    made = drawing.draw(result)
    assert [axes.get_title() for axes in made.axes] == [
        "embedded-lm, another word",
        "embedded-lm, zeros",
    ]
    markdown = tables.markdown(result)
    assert "norms by" in markdown
    assert RESIDUAL in markdown
    assert ATTENTION in markdown


def test_texts_without_opposites_are_refused_with_what_to_do():
    texts = replace(data.load(), texts=("Nothing of this kind.",), labels=(0,))
    with pytest.raises(UnavailableError, match="none of 1 texts has a word whose opposite"):
        measure.cell(1, texts, ("embedded", WORD))


def test_a_model_of_one_logit_is_refused_before_anything_runs():
    config = SimpleNamespace(num_labels=1)
    one = SimpleNamespace(name="stars", explains="class", model=SimpleNamespace(config=config))
    with pytest.raises(ValueError, match="'patching' compares two logits, and stars has one"):
        measure.model_names(one)


@pytest.mark.parametrize("norms", RATES)
def test_training_makes_the_loss_of_both_orders_smaller(norms):
    model = network(norms=norms, seed=0)
    ids = torch.tensor([[2, 6, 40, 5]])
    start = model(input_ids=ids, labels=ids).loss.item()
    train(model, rate=RATES[norms], seed=0, steps=24)
    assert not model.training
    assert model(input_ids=ids, labels=ids).loss.item() < start
    assert (model.model.decoder.final_layer_norm is None) == (norms == "after")
