"""Copies and hooks that only look change no result of any method on any architecture."""

import copy
import os

import pytest
import torch

from numeric import attribute
from numeric.methods.catalogue import METHODS
from tests.census import measure
from tests.census.build import TASKS, architectures, with_inputs
from tests.project.test_architectures import SAMPLE
from tests.support.user_changes import with_hooks_that_look

EVERY = [(name, task) for task in TASKS for name in architectures(task)]
CASES = EVERY if os.environ.get("LRP_AXIOMS_EXAMPLES") else SAMPLE
OPTIONS = {"integrated-gradients": {"steps": 2}}
FAILURES = (Exception,)  # models raise any type; copies and hooks must raise it, too


def outcome(model, batch, task, method):
    try:
        options = OPTIONS.get(method, {})
        return attribute(model, batch, method, measure.TARGETS[task], **options).relevance
    except FAILURES as error:
        return type(error)


def copied(model):
    """A deep copy, or the model itself if torch cannot copy its tensors."""
    try:
        return copy.deepcopy(model)
    except RuntimeError:
        return model


@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_copy_or_a_hook_that_looks_changes_nothing(name, task):
    with measure.conditions():
        try:
            model, batch = with_inputs(name, task)
            with torch.no_grad():
                model(**batch)
        except Exception as error:
            if (name, task) in SAMPLE:
                raise
            pytest.skip(f"no tiny model: {measure.reason(error)}")
        hooked = None if copied(model) is model else with_hooks_that_look(model)
        for method in METHODS:
            want = outcome(model, batch, task, method)
            for other in filter(None, (copied(model), hooked)):
                found = outcome(other, batch, task, method)
                same = found is want
                if isinstance(want, torch.Tensor) and isinstance(found, torch.Tensor):
                    same = (found - want).abs().max() <= 1e-8 * want.abs().max()
                assert same, (method, other is hooked, want, found)
