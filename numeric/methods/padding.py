"""Tries out whether a text has the logits in a batch that it has alone."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.methods.shared import OF_OTHER_CODE
from lrp_axioms.numeric.models import heads
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.warning import telling, warn_caller


def is_as_alone(
    model: PreTrainedModel,
    batch_of: Callable[[list[int]], Mapping[str, Tensor]],
    one: int,
    other: int,
) -> bool:
    """Decides whether a text has the logits beside another that it has alone.

    A model that refuses one of these batches gives False.
    """
    try:
        with telling(lambda _: None):
            alone, beside = (_logits(model, batch_of(x)) for x in ([one], [one, other]))
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except OF_OTHER_CODE:  # the run of the text itself tells
        return False
    far = heads.rounding(beside.nan_to_num(nan=0, posinf=0, neginf=0))
    return torch.allclose(alone[0], beside[0], rtol=0, atol=far, equal_nan=True)


@torch.no_grad()
def _logits(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> Tensor:
    """Returns logits of a batch; where tokens have some, at the tokens of the first text."""
    batch = prepare(model, inputs)
    head, (tokens,) = batch.facts.head, (batch.attention_mask[0] == 1).nonzero(as_tuple=True)
    rows = None if head in (heads.CLASSES, heads.ANSWER) else tokens
    found = heads.run(model, batch.arguments(), rows, of=head)
    return found[:, :, tokens] if head == heads.ANSWER else found


def warn(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> None:
    """Warns where the shortest text of a batch has other logits beside the longest than alone."""
    mask = inputs["attention_mask"] == 1
    lengths = mask.sum(dim=1)
    short, long = int(lengths.argmin()), int(lengths.argmax())

    def only(examples: list[int]) -> dict[str, Tensor]:
        columns = mask[examples].any(dim=0)
        return {key: x[examples][:, columns] for key, x in inputs.items()}

    if lengths[short] < lengths[long] and not is_as_alone(model, only, short, long):
        warn_caller(
            f"padding changes the logits of {type(model).__name__} (example {short} beside example "
            f"{long}), and logits with padding are explained; pass one text at a time"
        )
