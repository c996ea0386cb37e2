"""Agreement with Leave-One-Out by cost: passes are counted right, and r is of the same maps."""

import itertools
import re

import numpy as np
import pytest

from benchmarks.experiments import trade_off
from benchmarks.experiments.rows import LOO, LRP
from numeric import attribute
from tests.support import one_by_one


@pytest.fixture(scope="module")
def found(six_sentences):
    rows = [LOO, *LRP, "table2-{}-attention-rollout", "tradeoff-{}"]
    return trade_off.trade_off(
        one_by_one.measure([row.format("sst2") for row in rows], six_sentences)
    )


def test_every_setting_has_a_row_in_the_order_of_its_cost(found):
    methods = {row["method"] for row in found.rows}
    assert methods >= {"AttnLRP", "CP-LRP", "Rollout", "LOO", "IG, 2 steps", "LOO, budget 4"}
    cost = [row["passes"] for row in found.rows]
    assert cost == sorted(cost)


def test_notes_name_what_nothing_cheaper_beats_and_that_the_texts_are_few(found):
    for note, tokens in zip(found.notes, ("all", "content"), strict=False):
        head, _, listed = note.partition(": Rollout")
        assert head == f"Best for their cost, over {tokens} tokens"
        pattern = r"(\w[^()]*) \(r (-?[\d.]+) in ([\d.]+) passes\)"
        named = re.findall(pattern, f"Rollout{listed}")
        rows = {row["method"]: row for row in found.rows}
        assert len(named) == note.count(" passes)")
        for method, r, passes in named:
            row = rows[method]
            assert (r, passes) == (f"{row[f'r {tokens}']:.2f}", f"{row['passes']:.1f}")
            cheaper = [x for x in found.rows if x["passes"] < row["passes"]]
            alike = [x for x in found.rows if x["passes"] == row["passes"]]
            assert all(x[f"r {tokens}"] <= row[f"r {tokens}"] for x in alike)
            assert all(x[f"r {tokens}"] < row[f"r {tokens}"] for x in cheaper)
    assert found.notes[2] == "With fewer than 20 texts these intervals are too narrow: use more."


def test_the_best_of_equal_cost_is_named_whatever_its_name():
    found = {"alpha": 0.8, "none": np.nan, "zeta": 0.9}
    rows = [{"method": m, "passes": 2.0, "r all": r, "r content": r} for m, r in found.items()]
    dear = rows[2] | {"method": "dear", "passes": 3.0}
    listed = "zeta (r 0.90 in 2.0 passes)."
    for order in itertools.permutations(rows):
        notes = trade_off._notes([*order, dear])
        assert [note.partition("tokens: ")[2] for note in notes] == [listed, listed]


def test_r_and_passes_of_a_budget_are_those_of_attribute(found):
    model = one_by_one.classifier().model
    passes, r = [], []
    for sentence in one_by_one.sentences():
        target = sentence.target
        exact = attribute(model, sentence.inputs, "loo", target)
        a = attribute(model, sentence.inputs, "loo", target, budget=8)
        r.append(np.corrcoef(a.relevance[0], exact.relevance[0])[0, 1])
        passes.append(int(a.details["passes"]) + 1)  # and the whole text
    (row,) = (row for row in found.rows if row["method"] == "LOO, budget 8")
    assert row["r all"] == pytest.approx(np.mean(r), abs=1e-12)
    assert row["passes"] == pytest.approx(np.mean(passes))


@pytest.mark.parametrize(
    ("label", "want"),
    [
        ("Mask relevance", 2),
        ("Mask relevance, midpoint 1", 3),  # two forward passes, one of them with a backward pass
        ("Mask relevance, midpoint 2", 5),
        ("Budgeted LOO, 4", 7),
        ("Budgeted LOO, 8", 8),  # five tokens, the whole text, and mask relevance
    ],
)
def test_passes_of_mask_relevance_and_of_what_it_is_the_base_of(label, want):
    assert trade_off.passes(label, np.array([5])) == [want]


@pytest.mark.parametrize("label", ["IG", "LOO, deletion", "mine"])
def test_a_method_of_unknown_cost_is_refused(label):
    with pytest.raises(ValueError, match="nothing is known of the passes of"):
        trade_off.passes(label, np.array([5]))


def test_the_figure_has_every_row_twice(found):
    figure = trade_off.figure(found)
    points = [len(line[0].get_xdata()) for axes in figure.axes for line in axes.containers]
    assert sum(points) == 2 * len(found.rows)


def test_the_figure_names_what_it_has_alone(found):
    (legend,) = trade_off.figure(found).legends
    named = [text.get_text() for text in legend.get_texts()]
    assert {*named} == {row["method"].split(",")[0] for row in found.rows} < {*trade_off.FAMILIES}
