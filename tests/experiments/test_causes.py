"""A language with known causes, a model that knows it, and a table of who finds them."""

import itertools
import math
import random

import numpy as np
import pyarrow.parquet as pq
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from benchmarks.experiments.causes import measure, shares
from benchmarks.experiments.causes.examples import DISTANCES, Example, draw, examples
from benchmarks.experiments.causes.language import (
    NO_ANSWER,
    TASKS,
    VOCABULARY,
    answer,
    replacements,
)
from benchmarks.research.train_causes import HELD_OUT, accuracies, sentence
from benchmarks.sources import models

FRESH = 77  # a seed that neither training nor the experiment has
ANSWERS = {
    "recall": {"anna apple bert pen ; bert": "pen", "anna apple ; bert": NO_ANSWER,
               "anna apple anna pen ; anna": None, "anna apple , bert pen ; anna": None},
    "induction": {"pen anna calm ink anna": "calm", "pen anna calm ink pen": "anna",
                  "pen anna calm": NO_ANSWER, "pen anna anna": NO_ANSWER, "pen ink pen ink": None},
    "brackets": {"( [ < > ;": "]", "( [ ] ;": ")", "( ) ;": NO_ANSWER, "( ] ;": None},
    "agreement": {"the dog near the cats now": "is", "the cats near the dog now": "are",
                  "the dog near cats now": None},
    "negation": {"anna is not calm and kind but truly bold ; kind": "no",
                 "anna is not calm and kind but truly bold ; bold": "yes",
                 "anna is not calm ; kind": NO_ANSWER, "anna is not calm and calm ; calm": None},
    "sums": {"add 3 skip 5 add 9 ;": "2", "add 3 skip 5 ;": NO_ANSWER, "add 3 add 5 add 1 ;": None},
}  # fmt: skip
"""Worked out by hand; None is ungrammatical."""


@pytest.mark.parametrize("task", TASKS)
def test_an_answer_follows_from_its_prompt(task):
    assert {prompt: answer(task, tuple(prompt.split())) for prompt in ANSWERS[task]} == (
        ANSWERS[task]
    )


CAUSES = {
    "recall": ("anna apple bert pen ; bert", {2, 3, 5}, {3}),
    "induction": ("pen anna calm ink anna", {1, 2, 4}, {2}),
    "brackets": ("( [ < > ;", {1}, {1}),
    "agreement": ("the dog near the cats now", {1}, {1}),
    "negation": ("anna is not calm and kind but truly bold ; kind", {2, 5, 10}, {2}),
    "sums": ("add 3 skip 5 add 9 ;", {0, 1, 4, 5}, {1, 5}),
}
"""Task -> prompt, all causes, and the carriers of the answer, by hand."""


def causes(task, words):
    """Returns positions of an answer's causes, and of the words that carry it, by replacement."""
    right, start = answer(task, words), TASKS[task].question(words)
    found = {n: {a for _, a in replacements(task, words, n)} - {right} for n in range(len(words))}
    carriers = {n for n, answers in found.items() if answers - {NO_ANSWER} and n < start}
    return {n for n, answers in found.items() if answers}, carriers


@pytest.mark.parametrize("task", TASKS)
def test_causes_are_the_words_whose_replacement_changes_the_answer(task):
    prompt, everything, carriers = CAUSES[task]
    assert causes(task, tuple(prompt.split())) == (everything, carriers)
    rng = random.Random(FRESH)
    for example in (draw(task, rng) for _ in range(60)):
        everything, carriers = causes(task, example.words)
        assert example.causes == {n for n in everything if n < example.question}
        assert example.carriers == carriers
        assert example.answer == answer(task, example.words)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("task", TASKS)
def test_prompts_are_as_far_from_their_cause_as_asked_and_the_same_for_a_seed(task, distance):
    found = examples(task, distance, 20, seed=FRESH)
    least, most = DISTANCES[distance]
    assert all(least <= len(one.words) - min(one.carriers) <= most for one in found)
    assert found == examples(task, distance, 20, seed=FRESH) != examples(task, distance, 20, seed=1)


def test_every_answer_in_a_sentence_of_the_training_is_right():
    rng = random.Random(FRESH)
    for task in TASKS:
        for _ in range(100):
            words, answers = sentence(task, rng, size=rng.random())
            assert words[-2:] == [".", "</s>"]
            assert {*words} <= {*VOCABULARY}
            assert CHECKS[task](words[:-2], {n: words[n] for n in answers}), " ".join(words)


def _pairs(words, found):
    text = words[: words.index(";")]
    return all(text[text.index(words[n - 1]) + 1] == word for n, word in found.items())


def _copies(words, found):
    start = words.index(words[min(found) - 1])
    return words[min(found) - 1 :] == words[start : start + len(found) + 1]


def _balanced(words, _):
    """All that is opened is closed in turn, by the answers too."""
    text, pairs = "".join(words).replace(";", ""), ("()", "[]", "{}", "<>")
    for _ in words:
        for pair in pairs:
            text = text.replace(pair, "")
    return text == ""


def _plural(words, found):
    return found == {len(words) - 1: "are" if words[1][-1] == "s" else "is"}


def _scoped(words, found):
    groups = " ".join(words[2 : words.index(";")]).split(" but ")
    said = {w: "no" if g.startswith("not") else "yes" for g in groups for w in g.split()[1::2]}
    return all(said[words[n - 1]] == word for n, word in found.items())


def _added(words, found):
    text = " ".join(words)
    digits = [int(part[0]) for part in text.split("add ")[1:]]
    return len(digits) == 2 and found == {len(words) - 1: str(sum(digits) % 10)}


CHECKS = {"recall": _pairs, "induction": _copies, "brackets": _balanced, "agreement": _plural,
          "negation": _scoped, "sums": _added}  # fmt: skip
"""Written apart from the language."""


# The embedded model


@pytest.fixture(scope="module")
def found():
    return models.load("embedded-lm")


def test_the_model_is_a_small_stock_llama_with_a_tokenizer_of_its_words(found):
    folder = models.EMBEDDED["embedded-lm"]
    assert sum(path.stat().st_size for path in folder.iterdir()) < 3 * 2**20
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert type(model) is type(found.model) is LlamaForCausalLM
    assert model.config.num_key_value_heads < model.config.num_attention_heads
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.is_fast
    assert tokenizer.convert_ids_to_tokens(tokenizer(" ".join(VOCABULARY[4:])).input_ids) == (
        ["<s>", *VOCABULARY[4:]]
    )
    assert found.label(VOCABULARY.index("pen")) == "pen"


def test_the_model_answers_99_of_100_fresh_prompts_of_every_task(found):
    by_cell = accuracies(found.model, 100, seed=FRESH + HELD_OUT)
    by_task = {task: np.mean([by_cell[task, distance] for distance in DISTANCES]) for task in TASKS}
    assert all(share >= 0.99 for share in by_task.values()), by_task


def test_the_model_writes_the_answer_and_stops(found):
    inputs = found.tokenizer("anna apple bert pen carl coin ; bert", return_tensors="pt")
    written = found.model.generate(**inputs, max_new_tokens=12, do_sample=False)[0]
    new = found.tokenizer.convert_ids_to_tokens(written[inputs.input_ids.shape[1] :])
    assert new[0] == "pen"
    assert new[-2:] == [".", "</s>"]


# The experiment


WORDS = ("anna", "apple", "bert", "pen", ";", "bert")
PROMPT = Example("recall", WORDS, "pen", frozenset({2, 3}), frozenset({3}), question=4)
MAPS = {
    "the carrier": ([0, 1, 0, 1, 4, 1, 1], (1, 1, 1, 5 / 6, 1, 2 / 8)),
    "what leads to it": ([0, 1, 0, -4, 3, 0, 2], (1, 1, 0, 7 / 8, 1, 2 / 10)),
    "against the answer": ([0, 1, 0, -4, 0, 0, 0], (1, 0, 0, 4 / 5, 1, 0)),
    "another word": ([0, 3, -4, 1, 2, 0, 0], (0, 0, 0, 3 / 10, 1 / 3, 0)),
    "the start": ([9, 0, 0, 1, 0, 0, 0], (0, 0, 0, 1 / 10, 1 / 2, 0)),
    "the question": ([0, 0, 0, 0, 1, 5, 4], (1, 1, 1, 1, 1, 9 / 10)),
    "a tie": ([2, 0, 0, 2, 0, 0, 0], (0, 0, 0, 1 / 2, 1 / 2, 0)),
    "nothing": ([0, 0, 0, 0, 0, 0, 0], (0, 0, 0, 0, 1 / 4, 0)),
}
"""Relevance of <s> and six words -> pointing, signed, carrier, mass, rank, question, by hand."""


@pytest.mark.parametrize("name", MAPS)
def test_a_map_is_scored_by_the_words_before_the_question(name):
    relevance, expected = MAPS[name]
    assert tuple(measure.score(np.array(relevance, float), PROMPT).values()) == (
        pytest.approx(expected)
    )


def test_a_row_of_the_table_is_the_mean_of_its_prompts():
    rng = np.random.default_rng(0)
    columns = {
        "task": ["recall", "sums", "recall", "recall", "sums"],
        "distance": ["near", "near", "far", "near", "far"],
        "chance": [0.1, 0.2, 0.3, 0.5, 0.6],
        "rank chance": [0.7, 0.2, 0.3, 0.9, 0.6],
    }
    for method in measure.METHODS:
        values = {f"{method} {key}": rng.integers(0, 2, 5) for key in measure.MEASURES}
        columns |= {key: x.astype(float).tolist() for key, x in values.items()}
    columns["loo pointing"] = [1.0, 1.0, 0.0, 0.0, 0.0]
    columns["loo mass"] = [0.2, 0.9, 0.3, 0.4, 0.2]
    rows = {
        (row["measure"], row["task"], row["distance"]): row
        for row in measure.table({key: [*x, *x] for key, x in columns.items()})
    }
    assert rows["pointing", "recall", "near"]["loo"] == 0.5
    assert rows["pointing", "recall", "near"]["chance"] == pytest.approx(0.3)
    assert rows["mass", "recall", "all"]["loo"] == pytest.approx(0.3)
    assert rows["mass", "all", "near"]["loo"] == pytest.approx(0.5)
    assert rows["rank", "recall", "near"]["chance"] == pytest.approx(0.8)
    everything = rows["pointing", "all", "all"]
    assert (everything["loo"], everything["prompts"]) == (0.4, 10)
    z2, p, n = 1.959964**2, 0.4, 10  # Wilson's interval of 4 of 10, written out
    middle, half = p + z2 / (2 * n), math.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n**2)))
    assert everything["loo low"] == pytest.approx((middle - half) / (1 + z2 / n), abs=1e-6)
    assert everything["loo high"] == pytest.approx((middle + half) / (1 + z2 / n), abs=1e-6)
    assert 0.2 <= rows["mass", "recall", "all"]["loo low"] < 0.3


@pytest.mark.parametrize(("causes", "tokens"), [(1, 4), (2, 3), (2, 5), (3, 3)])
def test_the_rank_by_chance_is_the_mean_over_all_orders(causes, tokens):
    orders = list(itertools.permutations(range(tokens)))
    first = [min(order.index(x) for x in range(causes)) for order in orders]
    mean = np.mean([1 / (1 + n) for n in first])
    assert shares.random_rank(causes, tokens) == pytest.approx(mean)


def test_the_model_follows_another_word_in_the_place_of_a_carrier(found):
    fresh = [one for task in TASKS for one in examples(task, "middle", 20, seed=FRESH)]
    confirmed = measure.confirmation(found, fresh)
    assert np.mean(confirmed["follows"]) > 0.95
    assert np.mean(confirmed["lost"]) > 0.5
    for one in fresh[:20]:  # another word gives the answer that the language defines
        (place,) = one.carriers
        for words, of in replacements(one.task, one.words, place):
            assert words[place] == of


def test_each_method_has_a_look_of_its_own():
    assert len({*measure.STYLES}) == len(measure.STYLES) == len(measure.METHODS)


def test_reproduce_causes_writes_a_table_a_figure_and_all_maps(run, tmp_path, monkeypatch):
    quick = {name: x for name, x in measure.METHODS.items() if name != "integrated-gradients"}
    monkeypatch.setattr(measure, "METHODS", quick)
    code, out, err = run("reproduce", "causes", "--examples", 2, "--output", tmp_path)
    assert (code, err) == (0, "")
    assert max(map(len, out.replace(str(tmp_path), "").splitlines())) <= 80
    assert len(out.splitlines()) < 60
    assert "Pointing, over all: " in out
    assert "..." not in out
    assert {path.name for path in tmp_path.iterdir()} == (
        {"causes.json", "causes.parquet", "causes.png", "report.html", "report.md"}
    )
    lines = pq.read_table(tmp_path / "causes.parquet").to_pylist()
    assert len(lines) == 2 * len(TASKS) * len(DISTANCES)
    for line in lines:
        words = tuple(line["prompt"].split())
        parts = (frozenset(line[key]) for key in ("causes", "carriers"))
        one = Example(line["task"], words, line["answer"], *parts, line["words"])
        for method in measure.METHODS:
            scores = measure.score(np.array(line[f"{method} relevance"]), one)
            assert scores == {key: line[f"{method} {key}"] for key in scores}
