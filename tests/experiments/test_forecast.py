"""Forecasts of ``reproduce``: counted passes, and the line before a run."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.experiments import forecast, rows, text
from benchmarks.experiments.record import Request
from benchmarks.running.timing import random_text
from benchmarks.sources import data, models
from numeric.evaluation import perturbation
from numeric.methods import loo
from tests.census.build import CLASSES, build
from tests.census.measure import conditions


@pytest.fixture
def texts():
    return data.load().first(4)


def passes(row, trial, lengths):
    return forecast._passes(row, {row.name: trial}, lengths, models.load().model, 1)


@pytest.mark.parametrize("curves", [False, True])
def test_the_passes_of_leave_one_out_and_of_curves_are_about_those_that_run(
    texts, curves, monkeypatch
):
    classifier, row = models.load(), replace(rows.load("table2-sst2-loo"), curves=curves)
    lengths = np.array([len(x["input_ids"]) for x in text.read(classifier, texts).tokens])
    forecasted = lengths * passes(row, 1, lengths)
    ran = []
    for module in (loo, perturbation):

        def counted(model, batch, example, keep, *rest, of=module.masked_logits, **options):
            ran.append(int(keep.sum()))
            return of(model, batch, example, keep, *rest, **options)

        monkeypatch.setattr(module, "masked_logits", counted)
    text.maps(row, classifier, texts, range(4))
    assert len(ran) == 1 + curves
    assert 0.5 < forecasted.sum() / sum(ran) < 2


def test_a_budget_limits_the_passes_and_a_sweep_has_those_of_its_trial(texts):
    lengths = np.array([10, 100])
    budget = replace(rows.load("table2-sst2-loo"), curves=False)
    budget = replace(budget, variants={"LOO": {"method": "loo", "budget": 16}})
    assert passes(budget, 2, lengths).tolist() == [12, 18]
    mixes = rows.load("figure2-sst2-identity")
    assert passes(mixes, 30, lengths).tolist() == [30, 30]


def test_one_part_takes_its_time_however_many_processes_there_are(texts, monkeypatch):
    monkeypatch.setattr(text, "SHARD", (4, 4096, 4096))
    request = Request(classifier=models.load(), data=texts, output=None)
    monkeypatch.setattr(forecast, "alternate", lambda *_, **__: {"pass": [1.0]})
    row = rows.load("table2-sst2-cp-lrp")
    found = [forecast.forecast(request, [row], {row.name: 3.0}, n) for n in (1, 4)]
    assert found[0][0] == found[1][0] > 0
    assert found[0][1]() > sum(x.nbytes for x in request.classifier.model.parameters())


def test_a_long_run_is_announced_and_a_short_one_is_not(run, tmp_path):
    special = ("reproduce", "special", "--examples", 2, "--output", tmp_path)
    assert "an interrupted run resumes" not in run(*special)[1]
    code, out, err = run(*special, "--forecast", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["forecast"]["processes"] == 1
    _, _, err = run("reproduce", "theorems", "--forecast", "--output", tmp_path)
    assert "--forecast is about tables on texts" in err


@pytest.mark.parametrize("name", ["bart", "t5", "gemma3", "gpt2"])
def test_a_random_text_is_one_for_every_classifier(name):
    with conditions(), torch.no_grad():
        model = build(name, CLASSES)
        assert model(**random_text(model, batch=1, tokens=7)).logits.shape[0] == 1
