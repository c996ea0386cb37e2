"""Windows of attention: in some layers, a row sees the columns near it alone."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.models.batches import Batch, last_column
from lrp_axioms.numeric.models.facts import ModelFacts
from lrp_axioms.numeric.models.heads import ANSWER, CLASSES
from lrp_axioms.numeric.targets.readout import Readout

CHUNK = "attention_chunk_size"
WINDOWS = ("sliding_window", CHUNK)


def windows(facts: ModelFacts) -> dict[str, int]:
    """Returns the sizes of windows, in columns, by their names in the configuration."""
    text, local = facts.text, _is_local(facts)
    full = {*(getattr(text, "layer_types", None) or WINDOWS)} == {"full_attention"}
    names = () if full else (*WINDOWS, "window_size") if local else WINDOWS
    return {name: getattr(text, name) for name in names if (getattr(text, name, None) or 0) > 0}


def looks_back(model: PreTrainedModel, facts: ModelFacts) -> bool:
    """Decides whether rows of a model with windows see no later columns."""
    return _is_local(facts) or any(getattr(x, "is_causal", False) for x in model.modules())


def _is_local(facts: ModelFacts) -> bool:
    """Decides whether some layers of a GPT-Neo have a window."""
    return "local" in (getattr(facts.text, "attention_layers", None) or ())


def blind_copies(
    model: PreTrainedModel, batch: Batch, example: Tensor, keep: Tensor, readout: Readout
) -> dict[str, Tensor]:
    """Marks the copies where a read row sees no column of a window: name of the window -> (copy,).

    The output of attention in such a row depends on the implementation of attention.  example:
    (copy,)   keep: (copy, token), the columns in view.  A classifier without a record of the row
    that it reads counts as one that reads the last token, or the first if rows see later columns.
    """
    found: dict[str, Tensor] = {}
    tokens, text = keep.shape[1], batch.facts.text
    sizes = {name: size for name, size in windows(batch.facts).items() if size < tokens}
    pools = readout.head == CLASSES and getattr(text, "classifier_pooling", None) == "mean"
    if not sizes or batch.facts.two or pools:
        return found
    back = looks_back(model, batch.facts)
    rows = _read_rows(batch, readout, back=back)[example]
    side = 1 - bool(getattr(text, "use_bidirectional_attention", False))  # Gemma's is narrower
    before = torch.nn.functional.pad(keep.cumsum(dim=1), (1, 0))
    for name, size in sizes.items():
        if name == CHUNK:
            start = keep.to(torch.uint8).argmax(dim=1, keepdim=True)
            first = start + (rows - start).div(size, rounding_mode="floor") * size
        else:
            first = rows + 1 - size if back else rows + 1 - size - side
        end = (rows + 1 if back else rows + size + side).clamp(max=tokens)
        seen = before.gather(1, end) - before.gather(1, first.clamp(min=0))
        found[name] = (seen == 0).any(dim=1)
    return found


def check(
    model: PreTrainedModel, batch: Batch, example: Tensor, keep: Tensor, readout: Readout
) -> None:
    """Raises ValueError that lists the examples of copies with a blind row (``blind_copies``)."""
    for name, blind in blind_copies(model, batch, example, keep, readout).items():
        if blind.any():
            raise ValueError(
                f"{name}={windows(batch.facts)[name]}: nothing is left in view of a row that is "
                f"read, in examples {example[blind].unique().tolist()}; pass smaller groups, or "
                "shorter texts"
            )


def _read_rows(batch: Batch, readout: Readout, *, back: bool) -> Tensor:
    """Returns the columns of the rows that are read: (batch, row)."""
    if readout.head == ANSWER:
        return torch.cat([each.label for each in readout.targets], dim=1)
    if readout.head != CLASSES:
        return readout.rows
    read = batch.read
    if read is None:
        present = batch.attention_mask == 1
        read = last_column(present) if back else present.to(torch.uint8).argmax(dim=1)
    return read[:, None]
