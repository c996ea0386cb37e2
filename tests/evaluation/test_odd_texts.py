"""``evaluate`` where measures are undefined, or nearly so, and without texts."""

import numpy as np
import pytest
import torch

from numeric import attribute, evaluate
from numeric.evaluation.faithfulness import MEASURES
from numeric.targets import logit
from tests.census.build import float64
from tests.evaluation.test_faithfulness import CLOSE, alone, random_map
from tests.support import cases
from tests.support.tools import language_model


@float64()  # as rotations are not by themselves, which move with the text
def test_draws_of_soft_measures_do_not_depend_on_padding_on_the_left():
    model, inputs = cases.family("llama")
    inputs = {key: x.flip(1) for key, x in inputs.items()}
    x, soft = random_map(inputs), [name for name in MEASURES if "soft" in name]
    together = evaluate(model, inputs, x, samples=2, measures=soft)["relevance"]
    for row in range(len(x)):
        one, columns = alone(inputs, row)
        found = evaluate(model, one, x[[row]][:, columns], samples=2, measures=soft)["relevance"]
        for name in soft:
            np.testing.assert_allclose(together[name][row], found[name][0], **CLOSE)


def test_a_text_of_one_token_has_what_is_defined_there(tiny):
    one = {"input_ids": torch.tensor([[5]])}
    found = evaluate(tiny, one, [[1.0]])["relevance"]
    assert [x for x in ("r", "tau", "LDS", "explained") if not np.isnan(found[x][0])] == []
    assert found["MoRF"] == found["LeRF"] == pytest.approx(attribute(tiny, one).logit.item())
    assert found["top drop"] == pytest.approx(0, abs=1e-12)


def test_a_logit_that_no_removal_changes_has_no_correlation():
    model, inputs = language_model(), {"input_ids": torch.tensor([[4, 5, 6, 7, 8]])}
    first = np.arange(5)[None] == 0  # the row that is read sees this token alone
    given = {"target": logit(3, at=0), "fixed": first, "measures": ["r", "LDS", "explained"]}
    found = evaluate(model.float(), inputs, random_map(inputs), **given)["relevance"]
    assert np.isnan([*found.values()]).all()


def test_images_are_refused_with_a_way_out():
    model, inputs = cases.family("vit")
    with pytest.raises(ValueError, match=r"no input_ids.* pass of=, read= and axes="):
        evaluate(model, inputs, np.ones((len(inputs["pixel_values"]), 4)))
