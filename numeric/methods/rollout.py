"""Attention rollout: products of attention matrices, blind to values and feed-forward layers."""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from lrp_axioms.numeric.engine.blocks import Block
from lrp_axioms.numeric.models.batches import Batch, first_map
from lrp_axioms.numeric.models.heads import ANSWER, CLASSES
from lrp_axioms.numeric.models.identity import is_stock
from lrp_axioms.numeric.models.patches import attention_implementation, twin
from lrp_axioms.numeric.models.places import Places
from lrp_axioms.numeric.targets.chosen import Chosen
from lrp_axioms.numeric.targets.readout import Found, Readout

VARIANTS = ("paper", "abnar-zuidema")


def attention_rollout(
    model: PreTrainedModel, batch: Batch, readout: Readout, *, variant: str = "paper"
) -> Iterator[Found]:
    """Multiplies all layers' head-averaged attention (Eq. Rollout); returns the read token's row.

    That token is [CLS] or the last one, as for the logits.  ``variant`` is "paper" (A(l)
    ... A(1), no identity) or "abnar-zuidema" (each A(l) averaged with the identity, for the
    residual connection).  Values are shares of attention that sum to 1, not logits: ``residual``
    has no meaning here.
    Raises ValueError for models that give no square attention weights of every layer, and for
    models that read their logits from several tokens.
    """
    if variant not in VARIANTS:
        raise ValueError(f"variant={variant!r}: pass one of {', '.join(VARIANTS)}")
    known = batch.read if readout.head == CLASSES and is_stock(model) else None
    model = twin(model)
    attention_implementation(model.modules(), "eager")
    by_gradient = readout.head == CLASSES and known is None
    states: list[Tensor] = []
    with torch.set_grad_enabled(by_gradient):
        if by_gradient and (first := first_map(model)) is not None:
            first.register_forward_hook(_needs_gradient)
            model.base_model.register_forward_hook(lambda _m, _i, out: states.append(out[0]))
        # Not output_attentions=True: that is no longer kept apart by thread while code is exported.
        with _Softmaxes(model) as softmaxes:
            rows = readout.run(model, batch.arguments())
        targets = readout.choose(rows).targets
        logits = [each.of(rows) for each in targets]
        layers = _attentions(model, softmaxes.found, batch)
        if by_gradient:
            known = _row(model, states, logits[0])
    wide = torch.promote_types(model.dtype, torch.float32)
    means = (attention.detach().to(wide).mean(dim=1) for attention in layers)
    if variant == "abnar-zuidema":
        means = ((a + torch.eye(a.shape[-1], device=a.device)) / 2 for a in means)
    rollout = reduce(lambda below, a: a @ below, means)
    for each, logit in zip(targets, logits, strict=True):
        row = _only_token(readout, each) if known is None else known
        relevance = rollout[torch.arange(len(row), device=row.device), row]
        yield Found(relevance, each.target, logit.detach(), {})


def _only_token(readout: Readout, chosen: Chosen) -> Tensor:
    """Returns the token whose row of logits a target reads, where every token has one."""
    tokens = chosen.label if readout.head == ANSWER else chosen.row
    if (tokens != tokens[:, :1]).any():
        raise ValueError(
            f"the target of this {readout.name} is read from several tokens, and each has a row "
            "of the product of its own: pass a target at one of them"
        )
    return tokens[:, 0]


class _Softmaxes(Block):
    """Records every softmax of a model over four axes, in the order of the calls."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.places = Places(model)
        self.found: list[Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.__name__ == "softmax" and out.ndim == 4 and self.acts and self.places.inside():
            self.found.append(out)
        return out


def _attentions(model: PreTrainedModel, found: list[Tensor], batch: Batch) -> list[Tensor]:
    """Returns (batch, head, query, key) of every layer."""
    size, real = len(batch.attention_mask), batch.attention_mask == 1
    tokens = None if batch.input_ids is None else real.shape[1]

    def fits(x: Tensor) -> bool:
        if len(x) != size or x.shape[-2] != x.shape[-1]:
            return False
        if tokens not in (None, x.shape[-1]):
            return False
        sums = x.sum(dim=-1).mT[real.expand(x.shape[0], x.shape[2])]
        return torch.allclose(sums, sums.new_ones(()), atol=1e-2)

    two, layers = batch.facts.two, batch.facts.layers if tokens else 0
    if two or not found or len(found) < layers or not all(map(fits, found)):
        shapes = dict.fromkeys(str(tuple(x.shape)) for x in found)
        had = ["those of an encoder and a decoder"] if two else list(shapes)
        had += [f"weights in {len(found)} of {layers} layers"] if 0 < len(found) < layers else []
        raise ValueError(
            "attention rollout multiplies the weights (batch, head, token, token) of every layer, "
            f"each row with sum 1; {type(model).__name__} gives {', '.join(had) or 'none'}; pass "
            'another method, such as "attnlrp"'
        )
    return found


def _needs_gradient(_module: nn.Module, _args: Any, out: Any) -> Any:
    return out.requires_grad_().clone() if isinstance(out, Tensor) else out


def _row(model: nn.Module, states: list[Tensor], logit: Tensor) -> Tensor:
    """Returns the token whose last state every logit is read from."""
    known = len(states) == 1 and isinstance(states[0], Tensor) and states[0].requires_grad
    (c,) = torch.autograd.grad(logit.sum(), states, allow_unused=True) if known else (None,)
    rows = None if c is None or c.ndim != 3 else c.abs().amax(dim=-1) > 0
    if rows is None or (rows.sum(dim=1) != 1).any():
        raise ValueError(
            f"{type(model).__name__} does not read its logits from the last state of one token, "
            'whose row of the product to take; pass another method, such as "attnlrp"'
        )
    return rows.to(torch.uint8).argmax(dim=1)
