"""Tests whether a batch changes the logits of a text."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.methods.shared import OF_OTHER_CODE
from lrp_axioms.numeric.models import heads
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.warning import telling, warn_caller

AT_ENDS = 4  # tokens at each end of a text whose logits over a vocabulary are compared


def is_as_alone(
    model: PreTrainedModel,
    batch_of: Callable[[list[int]], Mapping[str, Tensor]],
    one: int,
    other: int,
) -> bool:
    """Decides whether a text has equal logits alone and beside another.

    A model that refuses one of these batches gives False.
    """
    try:
        return _compare(model, batch_of([one]), batch_of([one, other]))
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except OF_OTHER_CODE:  # the run of the text itself tells
        return False


def _compare(
    model: PreTrainedModel, alone: Mapping[str, Tensor], together: Mapping[str, Tensor]
) -> bool:
    """Decides whether the first text has equal logits in both batches, as methods run them."""
    with (
        outside(),
        torch.inference_mode(mode=False),
        torch.no_grad(),
        torch.autocast(model.device.type, enabled=False),
        telling(lambda _: None),
    ):
        one, other = (_logits(model, x) for x in (alone, together))
    far = heads.rounding(model, other.nan_to_num(nan=0, posinf=0, neginf=0))
    return torch.allclose(one[0], other[0], rtol=0, atol=far, equal_nan=True)


def _logits(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> Tensor:
    """Returns the logits of a batch; of tokens, the logits at tokens of the first text.

    Logits over a vocabulary take much memory, so that only both ends of the text are read.
    """
    batch = prepare(model, inputs)
    head, (tokens,) = batch.facts.head, (batch.attention_mask[0] == 1).nonzero(as_tuple=True)
    rows = None if head in (heads.CLASSES, heads.ANSWER) else tokens
    if head in (heads.NEXT, heads.MASKED):
        rows = torch.cat([tokens[:AT_ENDS], tokens[-AT_ENDS:]])
    found = heads.run(model, batch.arguments(), rows, of=head)
    return found[:, :, tokens] if head == heads.ANSWER else found


def warn(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> None:
    """Warns where the longest text of a batch changes the logits of the shortest."""
    mask = inputs["attention_mask"] == 1
    lengths = mask.sum(dim=1)
    short, long = int(lengths.argmin()), int(lengths.argmax())

    def only(examples: list[int]) -> dict[str, Tensor]:
        columns = mask[examples].any(dim=0)
        return {key: x[examples][:, columns] for key, x in inputs.items()}

    if lengths[short] == lengths[long]:
        return
    name = type(model).__name__
    try:
        same = _compare(model, only([short]), only([short, long]))
    except (*OF_OTHER_CODE, MemoryError) as error:  # the relevance is there
        warn_caller(f"a trial of padding failed, and logits of {name} may depend on it: {error}")
        return
    if not same:
        warn_caller(
            f"padding changes the logits of {name} (example {short} beside example {long}), and "
            "the logits with padding were explained; pass one text at a time"
        )
