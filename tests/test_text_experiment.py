"""Table 2 and the layer sweep equal a recomputation, one sentence and one token at a time."""

import math
import re

import numpy as np
import pytest
import torch

from axioms.composites import CP_LRP, bypass_softmax
from benchmarks import data, digits, models, text
from numeric import attribute
from numeric.evaluation.correlation import BootstrapMean
from tests import cases

PHRASES = (
    "a fine film .",
    "not a bad evening , all in all",
    "dull",
    "the singer forgot half of the words and nobody minded",
    "i would rather have stayed at home",
    "warm and funny",
)
LABELS = (1, 1, 0, 1, 0, 1)


@pytest.fixture(scope="module")
def classifier():
    loaded = models.load()
    return models.Classifier(
        loaded.model.double(), loaded.tokenizer, loaded.name, models.digest(loaded.model)
    )


@pytest.fixture(scope="module")
def texts():
    return data.Texts("six", PHRASES, LABELS, "invented", "SST", 1)


@pytest.fixture(scope="module")
def found(classifier, texts):
    return text.groups(classifier, texts, size=4)  # two groups, one of them with padding


@pytest.fixture(scope="module")
def table(classifier, texts, found):
    return text.table2(classifier, texts, found)


@pytest.fixture(scope="module")
def layers(classifier, texts, found):
    return text.sweep(classifier, texts, found)


class ByHand:
    """One sentence: its logit under any mask, one forward pass at a time."""

    def __init__(self, classifier, sentence):
        self.model = classifier.model
        self.inputs = classifier.tokenizer([sentence], return_tensors="pt")
        self.known = {}
        self.count = self.inputs["input_ids"].shape[1]
        self.target = int(self._logits(range(self.count)).argmax())
        self.loo = [
            self.logit(range(self.count)) - self.logit(set(range(self.count)) - {n})
            for n in range(self.count)
        ]

    @torch.no_grad()
    def _logits(self, kept):
        mask = torch.tensor([[int(n in kept) for n in range(self.count)]])
        return self.model(**{**self.inputs, "attention_mask": mask}).logits[0]

    def logit(self, kept):
        return float(self._logits(kept)[self.target])

    def relevance(self, method):
        if method == "loo":
            return self.loo
        key = str(method)
        if key not in self.known:
            a = attribute(self.model, self.inputs, method, self.target)
            self.known[key] = a.relevance[0].tolist()
        return self.known[key]

    def r(self, method, *, content=False, normalised=False):
        chosen = slice(1, -1) if content else slice(None)
        a, b = self.relevance(method)[chosen], self.loo[chosen]
        if len(a) < 2:
            return math.nan
        r = np.corrcoef(a, b)[0, 1]
        return -r if normalised and (sum(a) < 0) != (sum(b) < 0) else r

    def curve(self, method, *, most_first):
        a = self.relevance(method)
        order = sorted(range(self.count), key=lambda n: -a[n] if most_first else a[n])
        return np.mean([self.logit(set(order[step:])) for step in range(self.count)])


@pytest.fixture(scope="module")
def sentences(classifier):
    return [ByHand(classifier, phrase) for phrase in PHRASES]


def test_groups_hold_every_text_once_with_its_own_tokens(found):
    assert sorted(n for group in found for n in group.index) == list(range(len(PHRASES)))
    for group in found:
        for row, n in enumerate(group.index):
            words = len(re.findall(r"\w+|[.,]", PHRASES[n]))
            assert group.content[row].sum() >= words  # a word is one piece or more
            assert group.present[row].sum() == group.content[row].sum() + 2


@pytest.mark.parametrize("label", text.METHODS)
def test_every_row_of_table_2_is_the_mean_of_what_one_sentence_at_a_time_gives(
    table, sentences, label
):
    method = text.METHODS[label]
    row = next(row for row in table.rows if row["method"] == label)
    want = {
        "r all": np.mean([s.r(method) for s in sentences]),
        "r content": np.nanmean([s.r(method, content=True) for s in sentences]),
        "r all, sum to one": np.mean([s.r(method, normalised=True) for s in sentences]),
        "r content, sum to one": np.nanmean(
            [s.r(method, content=True, normalised=True) for s in sentences]
        ),
        "LeRF": np.mean([s.curve(method, most_first=False) for s in sentences]),
        "MoRF": np.mean([s.curve(method, most_first=True) for s in sentences]),
    }
    want["Δ"] = want["LeRF"] - want["MoRF"]
    for key, value in want.items():
        assert row[key] == pytest.approx(value, abs=1e-9), key
    assert row["r content undefined"] == 1  # "dull" has one content token
    assert row["r all undefined"] == 0
    assert row["r all low"] <= row["r all"] <= row["r all high"]


def test_per_example_values_stand_beside_their_own_example(table, sentences):
    columns = table.examples
    for n in range(len(columns["example"])):
        example, method = columns["example"][n], text.METHODS[columns["method"][n]]
        assert columns["label"][n] == LABELS[example]
        assert columns["target"][n] == sentences[example].target
        assert columns["tokens"][n] == sentences[example].count
        assert columns["logit"][n] == pytest.approx(sentences[example].logit(range(99)))
        assert columns["r all"][n] == pytest.approx(sentences[example].r(method), abs=1e-9)


@pytest.mark.parametrize("chosen", [(), (0,), (11,), (0, 1, 2), (9, 10, 11), range(12)])
def test_a_mix_of_layers_is_the_mean_of_what_one_sentence_at_a_time_gives(
    layers, sentences, chosen
):
    composite = bypass_softmax(chosen) if chosen else "attnlrp"
    names = {
        (): ("AttnLRP", None),
        (0,): ("single layer", 1),
        (11,): ("single layer", 12),
        (0, 1, 2): ("front to back", 3),
        (9, 10, 11): ("back to front", 10),
        range(12): ("back to front", 1),
    }
    row = row_of(layers, *names[chosen])
    assert row["layers"] == len(chosen)
    assert row["r all"] == pytest.approx(np.mean([s.r(composite) for s in sentences]), abs=1e-9)
    want = np.nanmean([s.r(composite, content=True) for s in sentences])
    assert row["r content"] == pytest.approx(want, abs=1e-9)


def row_of(result, order, layer):
    (row,) = [row for row in result.rows if (row["order"], row["layer"]) == (order, layer)]
    return {key: value for key, value in row.items() if key not in ("order", "layer")}


def test_the_ends_of_the_three_orders_meet(layers, sentences):
    assert row_of(layers, "front to back", 12) == row_of(layers, "back to front", 1)
    assert row_of(layers, "front to back", 1) == row_of(layers, "single layer", 1)
    assert row_of(layers, "back to front", 12) == row_of(layers, "single layer", 12)
    want = np.mean([s.r(CP_LRP) for s in sentences])
    assert row_of(layers, "front to back", 12)["r all"] == pytest.approx(want, abs=1e-9)
    assert len(layers.rows) == 1 + 3 * 12
    assert len({row["r all"] for row in layers.rows}) == 1 + 3 * 12 - 3  # no other two are equal


def test_a_model_that_no_rule_covers_is_refused_before_anything_runs(classifier, texts):
    model = cases.tiny_bert(vocab_size=8192, max_position_embeddings=64, hidden_act="gelu_10")
    other = models.Classifier(model, classifier.tokenizer, "other", "")
    with pytest.raises(LookupError, match="ClippedGELUActivation"):
        text.check(other, texts)
    text.check(classifier, texts)


# Words that follow numbers.


def columns(pairs, content=None):
    """Columns with the given r of (CP-LRP, AttnLRP) per example, over all and content tokens."""
    content = content or pairs
    out = {"method": [], "example": [], "r all": [], "r content": []}
    for n, rows in enumerate(zip(pairs, content, strict=True)):
        for method, every, inner in zip(("CP-LRP", "AttnLRP"), *rows, strict=True):
            out["method"].append(method)
            out["example"].append(n)
            out["r all"].append(every)
            out["r content"].append(inner)
    return out


BETTER, WORSE = [(0.8, 0.5 + n / 100) for n in range(20)], [(0.4, 0.5 + n / 100) for n in range(20)]
UNDECIDED = [(0.5, 0.5 + 0.1 * (-1) ** n) for n in range(20)]
SIGN, HINGES = "The sign of that difference changes", "hinges on two tokens"


@pytest.mark.parametrize(
    ("every", "inner", "says"),
    [
        (BETTER, BETTER, ["CP-LRP is closer", "CP-LRP is closer"]),
        (WORSE, WORSE, ["AttnLRP is closer", "AttnLRP is closer"]),
        (UNDECIDED, UNDECIDED, ["contains 0", "contains 0"]),
        (BETTER, WORSE, ["CP-LRP is closer", "AttnLRP is closer", HINGES]),
        (WORSE, BETTER, ["AttnLRP is closer", "CP-LRP is closer", HINGES]),
        (BETTER, [(math.nan, 1.0)] * 20, ["CP-LRP is closer", "no text has an r"]),
    ],
)
def test_notes_follow_the_sign_and_the_interval(every, inner, says):
    notes = text._notes(columns(every, inner), "SST")
    for note, want in zip(notes, says, strict=False):
        assert want in note
    assert len(notes) == len(says) + 1
    assert "nan" not in " ".join(notes)
    assert "0.52 for CP-LRP and 0.22 for AttnLRP on SST" in notes[-1]
    assert any(SIGN in note for note in notes) == (HINGES in says)


def test_a_change_of_sign_within_the_noise_is_not_mentioned():
    slightly = [(a - 0.02, b) for a, b in UNDECIDED]
    notes = text._notes(columns(BETTER, slightly), "SST")
    assert not any(SIGN in note or HINGES in note for note in notes)


def test_few_texts_are_said_to_be_few():
    few = lambda rows: any("fewer than 20 texts" in n for n in text._notes(columns(rows), "SST"))
    assert few(BETTER[:19])
    assert not few(BETTER)


def test_the_paired_gap_is_cp_lrp_minus_attnlrp():
    gap = text._paired_gap(columns([(0.75, 0.5), (1.0, 0.25)]), "r all")
    assert gap == BootstrapMean(0.5, 0.25, 0.75, 0)


def test_the_papers_tables():
    """Tables 1 and 2, copied from the paper by eye."""
    assert digits.PAPER == {
        "LOO": {"L vs R": 1.0000, "L vs LOO": 1.0000, "R vs LOO": 1.0000},
        "IG": {"L vs R": 1.0000, "L vs LOO": -0.3707, "R vs LOO": -0.3707},
        "AttnLRP": {"L vs R": 0.7865, "L vs LOO": 0.0730, "R vs LOO": -0.0698},
    }
    assert text.PAPER == {
        block: {
            method: tuple(map(float, numbers.split()))
            for method, numbers in zip(text.METHODS, lines, strict=True)
        }
        for block, lines in {
            "SST": [
                "1.00 1.11 0.33 0.78",
                "-0.05 0.48 0.36 0.12",
                "0.08 0.72 0.38 0.35",
                "0.22 0.88 0.05 0.83",
                "0.52 1.00 0.22 0.79",
            ],
            "IMDB": [
                "1.00 2.20 -0.94 3.14",
                "0.00 1.98 2.70 -0.72",
                "0.04 2.85 1.38 1.47",
                "0.25 3.72 -2.64 6.36",
                "0.26 3.73 -3.02 6.75",
            ],
        }.items()
    }
    for table in text.PAPER.values():
        for _, lerf, morf, delta in table.values():
            assert delta == pytest.approx(lerf - morf, abs=0.0101)  # each of three rounded
