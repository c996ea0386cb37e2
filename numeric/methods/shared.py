"""Keeps tensors of one forward pass of a batch that its masked copies share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from lrp_axioms.numeric.models import families
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.models.identity import is_stock
from lrp_axioms.numeric.models.patches import twin
from lrp_axioms.numeric.targets.chosen import Rows
from lrp_axioms.numeric.targets.readout import Readout

Copies = dict[str, Tensor]
"""The tokens that each copy runs and sees, by name: (copy,) or (copy, token)."""

OF_OTHER_CODE = (
    AssertionError, AttributeError, LookupError, NotImplementedError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip
"""Errors of models whose code differs from the code that a shortcut assumes."""


BY_LENGTH = ("dynamic", "longrope")
"""Types of rotary positions with frequencies that depend on the longest text of a batch."""


@dataclass(frozen=True, eq=False)
class Witness:
    """A text without every second token, run whole; shortcuts must give its logits.

    example: (1,), index of the text   keep: (1, token) bool   rows: the output of the head
    """

    example: Tensor
    keep: Tensor
    rows: Rows


@dataclass(frozen=True, eq=False)
class Whole:
    """One forward pass of a batch as it is.

    model: runs the copies: the model, or a twin of it if it is of a known family
    reads: the token that the head reads, of a known family
    rows: the output of its head
    first: the query, key and value modules of the first layer, with their (batch, token, channel)
    last: where the attention of the last layer joins the stream; only the row that is read goes on
    cache: keys and values of every layer, of a decoder
    behind: keys and values that ``prefix`` found for copies of a language model, None if none
    spared: tokens that each set of copies could leave out with them
    witness: checks the shortcuts of a known family
    ``first`` and ``last`` are empty where a module runs more than once, as shared layers do.
    """

    model: PreTrainedModel
    rows: Rows
    reads: str | None = None
    first: dict[nn.Module, Tensor] = field(default_factory=dict)
    last: nn.Module | None = None
    cache: DynamicCache | None = None
    behind: list[DynamicCache | None] = field(default_factory=list)
    spared: list[int] = field(default_factory=list)
    witness: Witness | None = None


def whole(model: PreTrainedModel, batch: Batch, readout: Readout | None = None) -> Whole:
    """Runs ``batch``, (batch, token), through ``model``; keeps tensors that copies can use.

    A witness runs with the batch if the model is of a known family.  With rotary positions
    ``BY_LENGTH`` there are no shortcuts, because copies of other widths get other positions.
    """
    reads = batch.facts.reads if batch.input_ids is not None else None
    turned = repr(getattr(model.config.get_text_config(), "rope_parameters", None))
    by_length = any(kind in turned for kind in BY_LENGTH)
    if reads is not None and not by_length and is_stock(model):
        try:
            return _whole_of_family(twin(model), batch, reads)
        except OF_OTHER_CODE:  # the model itself runs below, and raises it again
            pass
    readout = readout or Readout.of(model, batch, [None])
    return Whole(model, readout.run(model, batch.arguments()))


def _whole_of_family(model: PreTrainedModel, batch: Batch, reads: str) -> Whole:
    example, keep = _witness_mask(model, batch)
    inputs = batch.arguments()
    copy = {key: x[example] for key, x in inputs.items()}
    copy["attention_mask"] = keep.to(copy["attention_mask"].dtype)

    def kept(logits: Tensor, **parts: Any) -> Whole:
        rows, own = (Rows(x[:, None], None) for x in (logits[:-1], logits[-1:]))
        return Whole(model, rows, reads, witness=Witness(example, keep, own), **parts)

    if reads == families.LAST:  # without a padding id, it takes one text at a time
        cache = DynamicCache()
        logits = model(**inputs, past_key_values=cache, use_cache=True).logits
        return kept(torch.cat([logits, model(**copy, use_cache=False).logits]), cache=cache)
    inputs = {key: torch.cat([x, copy[key]]) for key, x in inputs.items()}
    seen: list[tuple[nn.Module, Tensor]] = []
    joins = _joins(model)
    projections = _first_projections(model)
    note: Callable[[nn.Module, Any, Tensor], None] = lambda module, _, out: seen.append(
        (module, out)
    )
    hooks = [module.register_forward_hook(note) for module in {*joins, *projections}]
    logits = model(**inputs).logits
    for hook in hooks:
        hook.remove()
    called = [module for module, _ in seen]
    once = {module for module in called if called.count(module) == 1}
    begins = {*called[: len(projections)]} == projections and projections <= once
    ends = called[-1:] and called[-1] in joins & once
    return kept(
        logits,
        first={module: out for module, out in seen if module in projections} if begins else {},
        last=called[-1] if ends else None,
    )


def _witness_mask(model: PreTrainedModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """Returns the longest text's index, (1,), and a mask of every second token of it, (1, token).

    The mask keeps the token that is read, and the first token, because a row of a decoder must
    attend to something.
    """
    present = batch.attention_mask == 1
    example = present.sum(dim=1).argmax()[None]
    number = present[example].cumsum(dim=1)
    read = number[0, batch.known_read[example]]
    return example, present[example] & (((number - read) % 2 == 0) | (number == 1))


def reuse(kept: Whole, *, projections: bool) -> Callable[[Tensor, Tensor], None]:
    """Lets ``kept.model`` run copies with the kept tensors; returns a function for each chunk.

    It takes ``where`` (copy,), the example, and ``columns`` (copy, token).  Without
    ``projections`` the first layer is computed, as it must be where embeddings change.
    """
    place: list[Tensor] = []
    if kept.last is not None:
        kept.last.register_forward_pre_hook(lambda _, args: tuple(x[:, :1] for x in args))
    for module, table in kept.first.items() if projections else ():
        gather: Callable[..., Tensor] = lambda _, table=table: table[place[0][:, None], place[1]]
        vars(module)["forward"] = gather

    def at(where: Tensor, columns: Tensor) -> None:
        place[:] = where, columns

    return at


def first_keys(cache: DynamicCache | None, where: Tensor, tokens: int) -> DynamicCache | None:
    """Copies the first ``tokens`` keys and values of each of the examples ``where``."""
    if cache is None or not tokens:
        return None
    taken = DynamicCache()
    layers: list[Any] = cache.layers  # each has keys and values
    for number, layer in enumerate(layers):
        taken.update(layer.keys[where, :, :tokens], layer.values[where, :, :tokens], number)
    return taken


def _first_projections(model: nn.Module) -> set[nn.Module]:
    """Returns the modules of queries, keys and values in the first attention module."""
    for module in model.modules():
        if names := families.projections(module):
            return {getattr(module, name) for name in names}
    return set()


def _joins(model: nn.Module) -> set[nn.Module]:
    known = [(x, families.JOINS.get(families.name(type(x)))) for x in model.modules()]
    return {module.get_submodule(child) for module, child in known if child is not None}
