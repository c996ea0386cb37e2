"""How time grows is fitted where it is measured, and a fixed cost does not hide it."""

import pytest
import torch

from benchmarks.experiments import time_by_length
from benchmarks.running import timing
from tests.support.cases import EMBEDDED, tiny_bert


def rows(lengths, **exponents):
    return [{"tokens": n} | {m: [3 * n**a] * 3 for m, a in exponents.items()} for n in lengths]


POWERS = {"gradient": 1.0, "attnlrp": 1.25, "cp-lrp": 1.5, "loo": 2.0}


def test_a_power_of_length_is_found():
    found = time_by_length.growth(rows((8, 64, 128, 256), **POWERS))
    assert {name: exponent for name, (exponent, _) in found.items()} == pytest.approx(POWERS)
    assert max(error for _, error in found.values()) < 1e-6


def test_short_texts_do_not_count():
    measured = rows((8, 16, 32), **dict.fromkeys(POWERS, 0.0)) + rows((64, 128, 256), **POWERS)
    assert time_by_length.growth(measured) == time_by_length.growth(measured[3:])


@pytest.mark.parametrize("lengths", [(), (8, 16, 32), (8, 64, 128)])
def test_too_few_lengths_have_no_exponent(lengths):
    assert time_by_length.growth(rows(lengths, **POWERS)) == {}


@pytest.fixture
def calls(monkeypatch):
    """Collects (method, rounds, warm-up rounds) of every timed method and length."""
    found = []

    def counted(run, *, repeats, warm_up=1, **_):
        found.extend((name, repeats, warm_up) for name in run)
        return {name: [1.0] * repeats for name in run}

    monkeypatch.setattr(time_by_length, "alternate", counted)
    return found


def rounds(method, calls):
    return [(repeats, int(warm_up)) for name, repeats, warm_up in calls if name == method]


def test_leave_one_out_is_timed_once_per_length_and_long_texts_in_fewer_rounds(calls):
    from benchmarks.sources import models

    classifier = models.load(str(EMBEDDED))
    found = time_by_length.lrp_versus_loo(classifier)
    assert [row["tokens"] for row in found.rows] == [8, 16, 32, 64, 128]
    assert rounds("attnlrp", calls) == rounds("gradient", calls) == [(7, 1)] * 5
    assert rounds("loo", calls) == [(1, 1), *[(1, 0)] * 4]
    assert found.notes == ()  # two lengths from 64 tokens on have no exponent
    calls.clear()
    found = time_by_length.lrp_versus_loo(classifier, longest=512)
    assert [row["tokens"] for row in found.rows] == list(time_by_length.LENGTHS)
    assert rounds("attnlrp", calls)[5:] == [(2, 1)] * 2
    assert "From 64 to 512 tokens" in found.notes[0]
    assert found.notes[0].count(" 0.00 ±") == 4  # invented seconds do not grow


def test_rounds_of_all_methods_alternate_where_ratios_within_a_round_are_wanted(calls):
    time_by_length.by_length(tiny_bert(), lengths=(4,), repeats=3)
    assert calls == [(name, 3, 1) for name in time_by_length.METHODS]


def test_one_leave_one_out_is_compared_with_every_round_of_attnlrp():
    assert time_by_length.loo_over_attnlrp({"loo": [6.0], "attnlrp": [1.0, 2.0]}) == [6.0, 3.0]
    assert time_by_length.loo_over_attnlrp({"loo": [6.0, 8.0], "attnlrp": [1.0, 2.0]}) == [6.0, 4.0]


@pytest.mark.parametrize("device", [None, "cuda:1", torch.device("mps"), torch.device("cpu")])
def test_what_another_device_was_asked_is_waited_for(monkeypatch, device):
    did, waits = [], [] if device == torch.device("cpu") else [device]
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "synchronize", did.append)
    timing.alternate({"f": lambda: did.append("f")}, repeats=1, device=device)
    assert did == [*waits, "f", *waits] * 2


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_texts_are_timed_on_the_models_device(monkeypatch, device):
    calls = []
    monkeypatch.setattr(
        time_by_length, "alternate", lambda _run, **options: calls.append(options) or {}
    )
    time_by_length.by_length(tiny_bert().to(device), lengths=(4,), repeats=1)
    assert [options["device"] for options in calls] == [torch.device(device)] * 2
