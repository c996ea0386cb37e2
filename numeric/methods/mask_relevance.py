"""Mask relevance: the effect of hiding a token from attention, from one backward pass."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import GRADIENT_X_INPUT, Composite
from lrp_axioms.numeric.engine import packed
from lrp_axioms.numeric.engine.attended import Attended, Attending, Damping, rows_read
from lrp_axioms.numeric.engine.engine import Propagation
from lrp_axioms.numeric.methods import meetings
from lrp_axioms.numeric.methods.lrp import check_gradient
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.models.identity import code_of_stock
from lrp_axioms.numeric.targets.chosen import Rows
from lrp_axioms.numeric.targets.readout import Found, Readout

HELD = {kinds.LAYER_NORM: kinds.HELD_DEVIATION, kinds.RMS_NORM: kinds.HELD_DEVIATION}
GRADIENTS = {
    "true": GRADIENT_X_INPUT,
    "held": Composite("gradient, deviations held", {**GRADIENT_X_INPUT.rules, **HELD}),
}
"""The rules whose gradient reaches the outputs of attention, by ``deviations``."""
KEPT = 0.5  # of exp of a score, where a mask is lowered for the gradient
Part = Callable[[Tensor, Tensor], Tensor]
"""(weights, effects) of some rows -> each entry's part, all (batch, head, row, key).

effects: <G_i, v_j>, the gradient of the logit by each weight
"""


def mask_relevance(
    model: PreTrainedModel,
    batch: Batch,
    readout: Readout,
    *,
    deviations: str = "true",
    heads: bool = False,
    bypassed: bool = False,
    midpoint: int = 0,
) -> Iterator[Found]:
    """Sums A_ij / (1 - A_ij) <G_i, v_j - o_i> to R_j over layers, heads and rows i != j.

    A_ij are the attention weights of row i, v_j the values, o_i = sum_j A_ij v_j and G_i the
    gradient of the logit at o_i.  For one layer that is read linearly this is Leave-One-Out by the
    attention mask (theorem 54); for a stack of layers it is its first order (theorem 55).  It is in
    logits.
    ``deviations`` is "true", or "held" for gradients that treat the deviations of norms as
    constants.  With ``heads=True`` the details hold "heads", (batch, layer, head, token), whose sum
    over layers and heads is the relevance; layers with fewer heads than others have zeros there.
    They also hold "rows", (batch, token), the rows of the last attention that the logit depends
    on.
    With ``bypassed=True`` they hold "bypassed", (batch, token): the relevance less its value-only
    part, the sum of A_ij <G_i, v_j>; bypassing the softmax leaves this out (theorem 59).
    ``midpoint=g`` takes the gradient where masks are a half, by g more forward passes with a
    backward pass each, or by one per token if the text has fewer than g.  Each pass halves exp of
    the scores of every g-th token, in all rows but the token's own, and gives the relevance of
    these tokens; ``midpoint=1`` halves all of them together.
    A row that attends to key j alone has nothing left without it, and counts as 0.  Where
    A_ij > 1/2, 1 - A_ij is computed as the sum of all other weights, so that no digits cancel.
    Relevance is not conserved (theorem 54).  The effect of a token's embedding on its own row is no
    effect of a mask, and is not included.  DeBERTa sets the embeddings of masked tokens to 0, so
    that there Leave-One-Out of the token that is read is another effect.
    Raises ValueError for a bad option, inputs that are not texts, an encoder with a decoder, and a
    model whose tokens meet in any other way than by a softmax over all of them.
    """
    _check(deviations, midpoint)
    meetings.check_text(model, batch)
    code = code_of_stock(model)
    model = packed.unpack(model)
    composite = GRADIENTS[deviations]
    rules, seen, rows = run(model, batch, readout, composite)
    entries = rules.entries.found
    check_gradient(model, rows.logits)
    readout = readout.choose(rows)
    with torch.enable_grad():
        logits = [each.of(rows) for each in readout.targets]
    calls, others = meetings.of_all_tokens(model, batch, seen)
    layers = [seen[n] for n in calls]
    is_known = code is not None and not others and meetings.is_known(code, layers)
    if not is_known and meetings.check(model, batch, layers, entries, readout, rows, others=others):
        meetings.remember(code, layers)
    passes: Iterable[Pass] = [Pass(logits, layers)]
    if midpoint:
        places = [x.place for x in seen]
        each_damping = _halves(batch, model.dtype, calls, midpoint)
        passes = damped_passes(
            model, batch, readout, composite, each_damping, places, instead="pass midpoint=0"
        )
        layers = [layer.without_graph() for layer in layers]
        logits = [logit.detach() for logit in logits]
        del rules, seen, rows, entries
    parts: list[Part] = [_removal_part, *[torch.mul] * bypassed]
    found: list[list[list[Any]]] = [[[0] * len(layers) for _ in parts] for _ in logits]
    nowhere = torch.zeros_like(batch.present, dtype=torch.bool)
    rows_of = [nowhere for _ in logits]
    for each in passes:
        for k, (of_target, cs) in enumerate(zip(found, each.gradients(), strict=True)):
            if heads and (known := [c for c in cs if c is not None]):
                rows_of[k] = rows_read(known[-1], len(batch.ids))
            for of_part, part in zip(of_target, parts, strict=True):
                for n, c in enumerate(cs):
                    own_layer = _loss(layers[n], each.layers[n], c, batch, part)
                    of_part[n] = of_part[n] + own_layer * each.chosen
    for target, logit, read, of_parts in zip(readout.targets, logits, rows_of, found, strict=True):
        relevance, *by_value = (
            torch.stack([x.sum(dim=1) for x in of_layers]).sum(dim=0) for of_layers in of_parts
        )
        details = {"heads": _stack(of_parts[0]), "rows": read} if heads else {}
        if bypassed:
            details["bypassed"] = relevance - by_value[0]
        yield Found(relevance, target.target, logit.detach(), details)


@dataclass(frozen=True, eq=False)
class Pass:
    """The logits of every target, the attention before them, and the tokens that are explained."""

    logits: list[Tensor]
    layers: list[Attended]
    chosen: Tensor | float = 1.0  # (batch, 1, token)

    def gradients(self) -> Iterator[tuple[Tensor | None, ...]]:
        """Yields gradients by layer, for every target."""
        edges: list[Any] = [layer.edge for layer in self.layers]
        for logit in self.logits:
            more = logit is not self.logits[-1]
            yield torch.autograd.grad(
                logit, edges, torch.ones_like(logit), allow_unused=True, retain_graph=more
            )


def run(
    model: PreTrainedModel,
    batch: Batch,
    readout: Readout,
    composite: Composite,
    damping: Damping | None = None,
) -> tuple[Propagation, list[Attended], Rows]:
    rules = Propagation(model, composite)
    seen = Attending(rules, damping).all
    with torch.enable_grad(), rules:
        rows = readout.run(model, batch.arguments(), settle=rules.end)
    return rules, seen, rows


def _halves(
    batch: Batch, dtype: torch.dtype, calls: Sequence[int], count: int
) -> Iterator[tuple[Tensor, Damping]]:
    """Yields every ``count``-th token, and the damping that halves its mask in all other rows."""
    numbers = batch.present.cumsum(dim=1) - 1
    wide = torch.promote_types(dtype, torch.float32)
    others = 1 - torch.eye(numbers.shape[1], device=numbers.device, dtype=wide)
    for n in range(min(count, numbers.shape[1])):  # more passes would have no tokens
        chosen = (numbers % count == n)[:, None]
        yield chosen, Damping(chosen * others * math.log(KEPT), frozenset(calls))


def damped_passes(
    model: PreTrainedModel,
    batch: Batch,
    readout: Readout,
    composite: Composite,
    dampings: Iterable[tuple[Tensor, Damping]],
    places: Sequence[str],
    *,
    instead: str = meetings.INSTEAD,
) -> Iterator[Pass]:
    """Yields a pass for the tokens (batch, 1, token) and scores of each of ``dampings``.

    Raises ValueError where a softmax runs at other ``places`` than in the pass of the whole text.
    """
    for chosen, damping in dampings:
        _, seen, rows = run(model, batch, readout, composite, damping)
        if [x.place for x in seen] != places:
            raise ValueError(
                f"{type(model).__name__} attends at other places when scores are lower, in "
                f"{len(seen)} calls instead of {len(places)}; {instead}"
            )
        with torch.enable_grad():
            logits = [each.of(rows) for each in readout.targets]
        yield Pass(logits, [seen[call] for call in sorted(damping.calls)], chosen)


def _check(deviations: object, midpoint: object) -> None:
    wrong = []
    if deviations not in list(GRADIENTS):
        wrong.append(f"deviations={deviations!r}: pass one of {', '.join(GRADIENTS)}")
    if type(midpoint) is not int or midpoint < 0:
        wrong.append(
            f"midpoint={midpoint!r}: pass 0 for the gradient at whole masks, or the number of "
            "passes at half masks, such as 1"
        )
    if wrong:
        raise ValueError("\n".join(wrong))


def _loss(layer: Attended, ran: Attended, c: Tensor | None, batch: Batch, part: Part) -> Tensor:
    """Returns one layer's loss without each token, (batch, head, token), in logits.

    ``ran`` is the layer in the pass that its gradient was taken in.
    Raises ValueError where more is read than the tokens: sinks behind them have no values.
    """
    count, tokens = batch.ids.shape
    if c is None:  # the logit is read before it
        _, heads, *_ = layer.shape(count) or layer.size
        return torch.zeros(count, heads, tokens, device=batch.device)
    parts = []
    for rows, weights in layer.weights(count):
        effects = ran.effects(c, count, rows)
        if effects[..., tokens:].any():
            raise ValueError(
                f"{layer.place} attends to {weights.shape[-1]} keys that have values, where the "
                f"text has {tokens} tokens; {meetings.INSTEAD}"
            )
        found = part(weights, effects)
        found.diagonal(rows.start, dim1=-2, dim2=-1).zero_()  # in its own row
        parts.append(found.sum(dim=-2))
    return torch.stack(parts).sum(dim=0)[..., :tokens]


def _removal_part(weights: Tensor, effects: Tensor) -> Tensor:
    top, at = weights.max(dim=-1, keepdim=True)
    rest = weights.scatter(-1, at, 0)  # each at most 1/2
    found = rest / (1 - rest) * (effects - _mean(weights, effects))
    left = rest.sum(dim=-1, keepdim=True)
    without = top * (effects.gather(-1, at) - _mean(rest, effects) / left)
    return found.scatter_(-1, at, without.where(left > 0, 0))


def _mean(weights: Tensor, effects: Tensor) -> Tensor:
    """Returns <G_i, o_i> for weights that sum to 1."""
    return (weights * effects).sum(dim=-1, keepdim=True)


def _stack(found: Sequence[Tensor]) -> Tensor:
    """Stacks layers to (batch, layer, head, token)."""
    most = max(x.shape[1] for x in found)
    pad = torch.nn.functional.pad
    return torch.stack([pad(x, (0, 0, 0, most - x.shape[1])) for x in found], dim=1)
