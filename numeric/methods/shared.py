"""What masked copies of a batch share with the whole batch, kept from one forward pass of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from numeric.batches import Batch
from numeric.chosen import Rows
from numeric.readout import Readout
from numeric.stock import families
from numeric.stock.patches import is_altered, set_attribute, twin

Copies = dict[str, Tensor]
"""What each of many copies runs and sees, by name: (copy,) or (copy, token)."""

STOCK = ("torch.", "transformers.")
"""Where the modules of a model come from that computes what its class says."""


@dataclass(frozen=True, eq=False)
class Whole:
    """One forward pass of a batch as it is.

    model: what runs the copies: the model, or a twin of it if it is of a known family
    reads: the token that the head reads, of a known family
    rows: what its head gives
    first: the query, key and value modules of the first layer, with their (batch, token, channel)
    last: where the attention of the last layer joins the stream; only the row that is read goes on
    cache: keys and values of every layer, of a decoder
    ``first`` and ``last`` are empty where a module runs more than once, as shared layers do.
    """

    model: PreTrainedModel
    rows: Rows
    reads: str | None = None
    first: dict[nn.Module, Tensor] = field(default_factory=dict)
    last: nn.Module | None = None
    cache: DynamicCache | None = None


def whole(model: PreTrainedModel, batch: Batch, readout: Readout | None = None) -> Whole:
    """Runs ``batch``, (batch, token), through ``model``; keeps what copies can use."""
    reads = reads_of_stock(model)
    if reads is None:
        readout = readout or Readout.of(model, batch, [None])
        return Whole(model, readout.run(model, batch.arguments()))
    model = twin(model)
    if reads == families.LAST:
        cache = DynamicCache()
        out = model(**batch.arguments(), past_key_values=cache, use_cache=True)
        return Whole(model, Rows(out.logits[:, None], None), reads, cache=cache)
    seen: list[tuple[nn.Module, Tensor]] = []
    joins = _joins(model)
    projections = _first_projections(model)
    note: Callable[[nn.Module, Any, Tensor], None] = lambda module, _, out: seen.append(
        (module, out)
    )
    hooks = [module.register_forward_hook(note) for module in {*joins, *projections}]
    logits = model(**batch.arguments()).logits
    for hook in hooks:
        hook.remove()
    called = [module for module, _ in seen]
    once = {module for module in called if called.count(module) == 1}
    begins = {*called[: len(projections)]} == projections and projections <= once
    ends = called[-1:] and called[-1] in joins & once
    return Whole(
        model,
        Rows(logits[:, None], None),
        reads,
        first={module: out for module, out in seen if module in projections} if begins else {},
        last=called[-1] if ends else None,
    )


def reads_of_stock(model: nn.Module) -> str | None:
    """The token that the head reads, of a known family that runs no code but its own.

    What is known of a family is not known of hooks, replaced forwards, and modules put into it.
    """
    return families.reads(model) if is_stock(model) else None


def is_stock(model: nn.Module) -> bool:
    """Whether a model runs no code but that of PyTorch and Transformers."""
    own = all(type(module).__module__.startswith(STOCK) for module in model.modules())
    return own and not is_altered(model)


def reuse(kept: Whole, *, projections: bool) -> Callable[[Tensor, Tensor], None]:
    """Lets ``kept.model`` run copies with what is kept; returns what to call with each chunk.

    That takes ``where`` (copy,), the example, and ``columns`` (copy, token).  Without
    ``projections`` the first layer is computed, as it must be where embeddings change.
    """
    place: list[Tensor] = []
    if kept.last is not None:
        kept.last.register_forward_pre_hook(_first_row)
    for module, table in kept.first.items() if projections else ():
        gather: Callable[..., Tensor] = lambda _, table=table: table[place[0][:, None], place[1]]
        set_attribute(module, "forward", gather)

    def at(where: Tensor, columns: Tensor) -> None:
        place[:] = where, columns

    return at


def first_keys(cache: DynamicCache | None, where: Tensor, tokens: int) -> DynamicCache | None:
    """The first ``tokens`` keys and values of each of the examples ``where``, by themselves."""
    if cache is None or not tokens:
        return None
    taken = DynamicCache()
    layers: list[Any] = cache.layers  # of which each has keys and values
    for number, layer in enumerate(layers):
        taken.update(layer.keys[where, :, :tokens], layer.values[where, :, :tokens], number)
    return taken


def _first_row(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x[:, :1] for x in args)


def _first_projections(model: nn.Module) -> set[nn.Module]:
    """Queries, keys and values of the attention module that comes first."""
    for module in model.modules():
        if names := families.projections(module):
            return {getattr(module, name) for name in names}
    return set()


def _joins(model: nn.Module) -> set[nn.Module]:
    known = [(x, families.JOINS.get(families.name(type(x)))) for x in model.modules()]
    return {module.get_submodule(child) for module, child in known if child is not None}
