"""How the time of Leave-One-Out and of one LRP pass grows with length, at BERT-base size."""

import pytest

from lrp_axioms.benchmarks.experiments import time_by_length
from lrp_axioms.benchmarks.research.speed import test_speed
from lrp_axioms.benchmarks.research.speed.test_speed import DEVICE

GROUP = "Leave-One-Out against LRP"
WHERE = "" if DEVICE == "cpu" else ", GPU"
FEW = (64, 128, 256)  # enough for an exponent, where nothing is timed
SMALL = dict(hidden_size=48, num_hidden_layers=2, intermediate_size=192, num_attention_heads=4)


@pytest.fixture
def bert(timed):
    return test_speed.bert("float32", **({} if timed else SMALL))


def test_leave_one_out_costs_many_lrp_passes(bert, timed, ratios, benchmark):
    lengths = time_by_length.LENGTHS if timed else FEW
    options = {"lengths": lengths, "repeats": 5 if timed else 1}
    rows = benchmark.pedantic(time_by_length.by_length, (bert,), options, rounds=1)
    assert [row["tokens"] for row in rows] == list(lengths)
    for row in rows:
        name = f"LOO / AttnLRP, 1 text of {row['tokens']} tokens{WHERE}"
        ratios.note(name, time_by_length.loo_over_attnlrp(row), group=GROUP, better="higher")
    exponents = {name: exponent for name, (exponent, _) in time_by_length.growth(rows).items()}
    assert {"loo", "attnlrp"} <= exponents.keys()
    if not timed:  # of one round on a busy machine an exponent may be anything
        return
    if DEVICE == "cpu":  # a GPU takes one time for one text of any length here: no exponent
        for name in ("loo", "attnlrp"):
            ratios.note(
                f"exponent of {time_by_length.LABELS[name]}", [exponents[name]], group=GROUP
            )
    assert exponents["loo"] > exponents["attnlrp"]
