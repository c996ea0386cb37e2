"""What masked copies of a batch share with the whole batch, kept from one forward pass of it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from torch import Tensor, nn
from transformers import DynamicCache
from transformers.models.bert import modeling_bert as bert
from transformers.models.distilbert import modeling_distilbert as distilbert
from transformers.models.electra import modeling_electra as electra
from transformers.models.roberta import modeling_roberta as roberta

from numeric.fast import families
from numeric.fast.patches import exclusive, set_attribute
from numeric.inputs import Batch

JOINS = {
    bert.BertSelfOutput: None,
    roberta.RobertaSelfOutput: None,
    electra.ElectraSelfOutput: None,
    distilbert.TransformerBlock: "sa_layer_norm",
}
"""Modules in which attention joins the stream, and the child that receives both (None: itself)."""


@dataclass(frozen=True, eq=False)
class Whole:
    """One forward pass of a batch as it is.

    logits: (batch, class)
    first: the query, key and value modules of the first layer, with their (batch, token, channel)
    last: where the attention of the last layer joins the stream; only the row that is read goes on
    cache: keys and values of every layer, of a decoder
    ``first`` and ``last`` are empty where a module runs more than once, as shared layers do.
    """

    logits: Tensor
    first: dict[nn.Module, Tensor] = field(default_factory=dict)
    last: nn.Module | None = None
    cache: DynamicCache | None = None


def whole(model, batch: Batch) -> Whole:
    """Runs ``batch``, (batch, token), through the stock model and keeps what copies can use."""
    if families.reads_last_token(model):
        cache = DynamicCache()
        out = model(**batch.arguments(), past_key_values=cache, use_cache=True)
        return Whole(out.logits, cache=cache)
    seen: list[tuple[nn.Module, Tensor]] = []
    joins = _joins(model)
    projections = _first_projections(model)
    with ExitStack() as undo:
        for module in {*joins, *projections}:
            hook = module.register_forward_hook(lambda m, _, out: seen.append((m, out)))
            undo.callback(hook.remove)
        logits = model(**batch.arguments()).logits
    called = [module for module, _ in seen]
    once = {module for module in called if called.count(module) == 1}
    begins = {*called[: len(projections)]} == projections and projections <= once
    ends = called[-1:] and called[-1] in joins & once
    return Whole(
        logits,
        first={module: out for module, out in seen if module in projections} if begins else {},
        last=called[-1] if ends else None,
    )


@contextmanager
def reused(model, kept: Whole, *, projections: bool) -> Iterator[Callable[[Tensor, Tensor], None]]:
    """Copies run through what ``kept`` has; yields what to call with each chunk's tokens.

    That takes ``where`` (copy,), the example, and ``columns`` (copy, token).  Without
    ``projections`` the first layer is computed, as it must be where embeddings change.
    """
    place: list[Tensor] = []
    with ExitStack() as undo:
        undo.enter_context(exclusive(model.modules()))
        if kept.last is not None:
            hook = kept.last.register_forward_pre_hook(_first_row)
            undo.callback(hook.remove)
        for module, table in kept.first.items() if projections else ():
            gather = lambda _, table=table: table[place[0][:, None], place[1]]
            undo.callback(set_attribute(module, "forward", gather))

        def at(where, columns):
            place[:] = where, columns

        yield at


def prefix(cache: DynamicCache, where: Tensor, tokens: int) -> DynamicCache | None:
    """The first ``tokens`` keys and values of each of the examples ``where``, by themselves."""
    if not tokens:
        return None
    taken = DynamicCache()
    for number, layer in enumerate(cache.layers):
        taken.update(layer.keys[where, :, :tokens], layer.values[where, :, :tokens], number)
    return taken


def _first_row(_, args):
    return tuple(x[:, :1] for x in args)


def _first_projections(model):
    """Queries, keys and values of the attention module that comes first."""
    for module in model.modules():
        if type(module) in families.ATTENTION:
            return {getattr(module, name) for name in families.ATTENTION[type(module)]}
    return set()


def _joins(model):
    return {
        module if JOINS[type(module)] is None else getattr(module, JOINS[type(module)])
        for module in model.modules()
        if type(module) in JOINS
    }
