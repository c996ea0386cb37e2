"""What bounds one backward pass: slopes are mask relevance, and all secants are Leave-One-Out."""

import numpy as np
import pytest
from transformers import BertForSequenceClassification

from benchmarks.experiments.judges import oracle
from numeric import attribute
from numeric.reference import bert
from tests.support.cases import perturbed, reference_of, tiny_batch

TARGET = 1


@pytest.fixture(scope="module")
def text():
    """A model, the same for NumPy, one text without padding, and all passes that it needs."""
    model = perturbed(BertForSequenceClassification)
    ids, mask = (tiny_batch()[key][:1] for key in ("input_ids", "attention_mask"))
    ids = ids[:, mask[0] == 1]
    reference = reference_of(model)
    return model, reference, ids, oracle.without(reference, ids[0].numpy())


def test_all_secants_are_leave_one_out(text):
    _, reference, ids, passes = text
    exact = bert.leave_one_out(reference, ids[0].numpy(), target=TARGET)
    found = oracle.relevance(reference, passes, TARGET, oracle.KINDS)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-10)


def test_slopes_are_mask_relevance_with_the_rows_of_the_tokens_themselves(text):
    model, reference, ids, passes = text
    inputs = {"input_ids": ids}
    found = attribute(model, inputs, "mask-relevance", TARGET, own=True).relevance[0]
    slopes = oracle.relevance(reference, passes, TARGET, ())
    np.testing.assert_allclose(slopes, found.numpy(), rtol=0, atol=1e-8)


@pytest.mark.parametrize("kind", oracle.KINDS)
def test_every_kind_of_secant_is_needed(text, kind):
    _, reference, _, passes = text
    exact = oracle.relevance(reference, passes, TARGET, oracle.KINDS)
    others = [x for x in oracle.KINDS if x != kind]
    assert np.abs(oracle.relevance(reference, passes, TARGET, others) - exact).max() > 1e-6
