"""Divides texts into batches, and tries out whether a text has the logits that it has alone."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.methods.shared import OF_OTHER_CODE
from lrp_axioms.numeric.models import heads
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.warning import telling


def divided(
    order: Sequence[int], lengths: Sequence[int], texts: int, tokens: int, padding: int
) -> list[list[int]]:
    """Divides numbers of texts, in rising ``order`` of their lengths, by the most of a batch."""
    found: list[list[int]] = []
    for n in order:
        last = found[-1] if found else []
        size = (len(last) + 1) * lengths[n]
        padded = size - sum(lengths[x] for x in [*last, n])
        full = len(last) == texts or size > tokens or padded > padding
        found += [[]] if full or not last else []
        found[-1].append(n)
    return found


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
