"""A target that a model does not have is refused with the targets that it has."""

import numpy as np
import pytest

from numeric import attribute_each, compiled
from numeric.targets import Target, answer, logit, span
from tests.engine.test_targets import ANSWERS, MASKED, NEXT, TAGS, made
from tests.support import cases
from tests.support.traces import contains, refused

pytestmark = pytest.mark.usefixtures("float64")

WRONG = {  # architecture, task, target, parts of the message
    "columns": (
        "gpt2", NEXT, logit(7, at=9) + logit(7, at=6) + logit(3, of="end"),
        "at=9: there is not a token in examples [0, 1]", "at=6", "[1]; ", "0 to 7, 0 to 5",
        "only question answering has ends", "a target of this GPT2LMHeadModel is None, a token",
    ),
    "nothing behind": ("gpt2", NEXT, span(4, 7), "at=5: there is not a token, and one after"),
    "tokens": ("gpt2", NEXT, [7, 99999], "target [99999] out of range; the model has tokens 0 to"),
    "counts": (
        "gpt2", NEXT, logit([1, 2, 3], at=[1]), "label has 3 entries for 2", "at has 1 entries for",
    ),
    "a span of a classifier": (
        "bert", TAGS, span(2, 4), "of a language model", "is logit(tag, at=column)",
    ),
    "no column": ("bert", TAGS, logit(2), "every token has a tag: pass at"),
    "a class alone": ("bert", TAGS, 2, "every token has a tag: pass at"),
    "no end": ("bert", ANSWERS, logit(2), "pass of='start' or of='end'", "answer(first, last)"),
    "padding": ("bert", ANSWERS, answer(7, 7), "target [7] out of range; ", "tokens of each text"),
    "a column of a text": (
        "bert", "sequence classification", logit(1, at=2), "one row of logits", "a class,",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_a_model_does_not_have_is_refused(case):
    name, task, target, *parts = WRONG[case]
    contains(refused(ValueError, *made(name, task), target=target), *parts)


def test_a_mask_that_is_not_in_one_place_is_refused():
    model, batch = made("bert", MASKED)
    batch["input_ids"][1, 4] = 9
    contains(refused(ValueError, model, batch), "token 9", "but at {1: [2, 4]}: pass at")
    model.config.mask_token_id = None
    contains(
        refused(ValueError, model, batch), "pass tokenizer, or at", "= tokenizer.mask_token_id"
    )


@pytest.mark.parametrize("bounds", [(0, 3), (3, 3), (3,), (-2, -4), (1.0, 2)])
def test_a_span_has_tokens_and_something_before_them(bounds):
    with pytest.raises(ValueError, match=r"span\(.*the first column, at least 1"):
        span(*bounds)


def test_columns_of_numpy_are_columns():
    assert span(np.int64(2), np.int64(5)) == span(2, 5)
    assert span(np.int64(-3)) == span(-3)
    assert logit(["good", np.int64(0)]) == logit(["good", 0])


@pytest.mark.parametrize("bounds", [(9, 7), ([3, 3], [4, 2]), ([1, 9], 7)])
def test_an_answer_does_not_end_before_it_starts(bounds):
    with pytest.raises(ValueError, match=r"answer\(.* ends before it starts: pass its first"):
        answer(*bounds)


def test_targets_are_added_to_targets_alone():
    assert logit(1) - logit(1) == Target(logit(1).terms + (-logit(1)).terms)
    for act in (lambda: logit(1) + 2, lambda: logit(1) * logit(2), lambda: logit(1) - 3):
        with pytest.raises(TypeError):
            act()
    with pytest.raises(ValueError, match="a number beyond float64"):
        logit(1) * 10**400
    for label in (1.5, True, [[1]], range(10**8), "a" * 5000):
        with pytest.raises(ValueError, match=r"label.*pass (None, an int, or one int|at most)"):
            logit(label)


def test_a_graph_explains_classes_alone():
    model, batch, target = cases.tiny_bert(), cases.tiny_batch(), logit(0) - logit(1)
    with compiled(model) as explain, pytest.raises(ValueError, match="graphs explain a class"):
        explain(batch, target)


def test_no_targets_are_refused():
    with pytest.raises(ValueError, match="targets is empty"):
        attribute_each(cases.tiny_bert(), cases.tiny_batch(), targets=[])
