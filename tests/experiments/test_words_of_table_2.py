"""The notes of Table 2 follow the sign and the interval of the numbers that it has."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.experiments import table2
from benchmarks.experiments.maps import GAP
from numeric.evaluation.correlation import BootstrapMean

PAPER = {"CP-LRP": {"r all, sum to one": 0.52}, "AttnLRP": {"r all, sum to one": 0.22}}


def values(pairs, content=None):
    """By method the given r of (CP-LRP, AttnLRP) per example, over all and content tokens."""
    every, inner = np.transpose(pairs), np.transpose(content or pairs)
    return {
        method: {"r all": every[n], "r content": inner[n], "r all, sum to one": -every[n]}
        for n, method in enumerate(("CP-LRP", "AttnLRP"))
    }


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
    notes = table2.notes(values(every, inner), PAPER)
    for note, want in zip(notes, says, strict=False):
        assert want in note
    assert len(notes) == len(says) + 1
    assert "nan" not in " ".join(notes)
    gap = table2.paired_gap(values(every, inner), "r all, sum to one").mean
    assert f"is {gap:+.3f} [" in notes[-1]
    assert notes[-1].endswith("; the paper has 0.52 against 0.22 (BERT-base).")
    assert any(SIGN in note for note in notes) == (HINGES in says)


def test_a_change_of_sign_within_the_noise_is_not_mentioned():
    slightly = [(a - 0.02, b) for a, b in UNDECIDED]
    notes = table2.notes(values(BETTER, slightly), PAPER)
    assert not any(SIGN in note or HINGES in note for note in notes)


def test_few_texts_are_said_to_be_few():
    few = lambda pairs: any(
        "fewer than 20 texts" in note for note in table2.notes(values(pairs), PAPER)
    )
    assert few(BETTER[:19])
    assert not few(BETTER)


def test_the_paired_gap_is_cp_lrp_minus_attnlrp():
    gap = table2.paired_gap(values([(0.75, 0.5), (1.0, 0.25)]), "r all")
    assert gap == BootstrapMean(0.5, 0.25, 0.75, 0)


def test_a_gap_is_of_paths_and_not_of_methods_beside_them():
    path, other = (SimpleNamespace(values={GAP: np.array([x])}) for x in (0.5, math.nan))
    data = SimpleNamespace(maps={"IG": path, "GIM": other}, steps={"IG": "32 steps"})
    (said,) = table2._gaps(data)
    assert said.startswith("IG with 32 steps: completeness gap of 0.500")
