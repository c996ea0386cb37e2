"""What an audit would mislead about, or has no rules for, is refused by name."""

import pytest
import torch
from torch import nn

from axioms import kinds
from axioms.composites import ATTNLRP, GRADIENT_X_INPUT, Composite, UnassignedOperation
from numeric import audit
from tests.support import cases
from tests.support.audits import eager


def halved(model):
    return model.half()


def quantised(model):
    model.is_quantized = True
    return model


REFUSED = {
    "half precision": (halved, "half precision"),
    "quantised": (quantised, "quantised weights"),
    "train mode": (lambda model: model.train(), "train mode"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_a_model_whose_numbers_would_mislead_is_refused(change, message):
    model, inputs = eager("bert")
    with pytest.raises(ValueError, match=message):
        audit(change(model), inputs)


@pytest.mark.filterwarnings("ignore")  # torch.ao is deprecated
def test_weights_in_few_bits_are_refused_by_name():
    model, inputs = eager("bert")
    packed = torch.ao.quantization.quantize_dynamic(model.float(), {nn.Linear}).eval()
    with pytest.raises(UnassignedOperation, match="linear_dynamic by weights in few bits"):
        audit(packed, inputs)


def test_two_texts_at_once_are_refused():
    model, inputs = cases.family("bert", attn_implementation="eager")
    with pytest.raises(ValueError, match="2 examples; audit one text at a time"):
        audit(model, inputs)


def test_a_composite_without_lemmas_is_refused():
    model, inputs = eager("bert")
    with pytest.raises(LookupError, match="by gradient"):
        audit(model, inputs, GRADIENT_X_INPUT)


def test_a_composite_that_lacks_rules_lists_all_operations():
    model, inputs = eager("bert")
    few = {k: rule for k, rule in ATTNLRP.rules.items() if k not in (kinds.ADD, kinds.SOFTMAX)}
    with pytest.raises(LookupError, match="no rule for 8 of") as caught:
        audit(model, inputs, Composite("few", few))
    assert "bert.encoder.layer.1.attention.self" in str(caught.value)
