"""The record of a method agrees with the method."""

import copy

import pytest
import torch

from numeric import attribute
from numeric.methods.catalogue import METHODS, ONE_PASS
from numeric.methods.options import TELLS
from numeric.spelling import did_you_mean
from tests.census import methods
from tests.census.measure import without_shifts
from tests.support import cases
from tests.support.traces import watch


@pytest.mark.parametrize("record", METHODS.values(), ids=METHODS)
def test_the_residual_without_shifts_is_what_the_record_says(record, batch):
    model = cases.tiny_bert()
    with without_shifts(model):
        found = attribute(model, batch, record.name)
    of_path = [found.details.get(key, 0) for key in ("baseline_logit", "completeness_gap")]
    rest = found.residual - sum(of_path)
    kept = rest.abs() < 1e-9 * found.logit.abs()
    assert (~kept).all() if record.conserves.startswith("no") else kept.all()


@pytest.mark.parametrize("record", METHODS.values(), ids=METHODS)
def test_a_method_of_one_forward_pass_runs_the_model_once(record, tiny, batch):
    """The logit is large, because a small logit takes more passes to look for amplification."""
    runs, model = [], copy.deepcopy(tiny)
    with torch.no_grad():
        model.classifier.bias += 10
    with watch(model.bert.encoder, lambda output: runs.append(len(output[0]))):
        attribute(model, batch, record.name)
    assert (sum(runs) == len(batch["input_ids"])) == (record.cost in (ONE_PASS, "1 forward pass"))


def test_options_are_those_of_the_call_with_the_defaults_of_the_record(tiny, batch):
    for name, record in METHODS.items():
        kept = {key: x for key, x in record.options.items() if key not in TELLS}
        assert attribute(tiny, batch, name).options == kept
    assert METHODS["gradient-x-input"].options["share"] == "word"


def test_a_hint_names_the_closest_in_any_case_and_nothing_that_is_far():
    known = ["attnlrp", "cp-lrp", "loo"]
    assert did_you_mean(["CPLRP", "lo"], known) == "; did you mean 'cp-lrp', 'loo'?"
    assert did_you_mean(["gradient", 3, None, ""], known) == ""


def test_the_page_has_the_table_of_the_records():
    text = methods.PAGE.read_text("utf-8")
    assert methods.filled(text) == text
