"""The assertion for other people's test suites passes and fails for the reason that it names."""

from functools import cache

import pytest
import torch

from axioms.composites import ATTNLRP, CP_LRP
from numeric import assert_conserves
from numeric.auditing.capture import capture
from numeric.models.inputs import prepare
from tests.support.audits import eager

ALL = ("bias", "LayerNorm beta", "Taylor term")


@pytest.fixture
def bert(monkeypatch):
    """A model that an audit captures once, at its first use, for that takes most of the time."""
    model, inputs = eager()
    graph = cache(lambda: capture(model, prepare(model, inputs)))
    monkeypatch.setattr("numeric.auditing.audit.capture", lambda *_: graph())
    return model, inputs


def test_a_model_without_biases_conserves_under_cp_lrp(bert):
    model, inputs = bert
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if path.endswith("bias"):
                parameter.zero_()
    assert_conserves(model, inputs, CP_LRP, tol=1e-10)
    with pytest.raises(AssertionError, match="Taylor term"):
        assert_conserves(model, inputs, ATTNLRP, tol=1e-10)


def test_what_is_meant_to_absorb_is_not_held_against_a_model(bert):
    found = assert_conserves(*bert, ATTNLRP, tol=1e-10, absorbing=ALL)
    assert abs(found.residual) > 1e-3
    for name in ALL:
        others = [cause for cause in ALL if cause != name]
        with pytest.raises(AssertionError, match=name):
            assert_conserves(*bert, ATTNLRP, tol=1e-10, absorbing=others)


def test_a_failure_names_the_amount_and_the_places(bert):
    with pytest.raises(AssertionError) as caught:
        assert_conserves(*bert, ATTNLRP)
    text = str(caught.value)
    assert "does not conserve" in text
    assert "modeling_bert.py:" in text
    assert "absorbing=[...]" in text


@pytest.mark.parametrize("tol", [float("nan"), float("inf"), -1e-9, True, "1e-6", None])
def test_a_tolerance_by_which_all_or_nothing_passes_is_refused(bert, tol):
    with pytest.raises(ValueError, match=f"tol={tol!r}: pass a finite number of logits"):
        assert_conserves(*bert, ATTNLRP, tol=tol)


def test_a_cause_that_does_not_exist_is_refused(bert):
    with pytest.raises(ValueError, match=r"absorbing=\['biases'\]: no such cause"):
        assert_conserves(*bert, ATTNLRP, absorbing=["biases"])
