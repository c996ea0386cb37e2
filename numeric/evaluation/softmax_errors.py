"""Two errors of softmax propagation (Sec. 3.2), measured on the attention rows of a model.

One row is one query j of one head: A = softmax(Z), O_j = sum_i A_ji v_i.  With the true gradient
g_j = df_c/dO_j, u_ji = <v_i, g_j>, o_j = <O_j, g_j> and the relevance of O_j taken as gradient
times readout, for all rules alike, a key i gets, in logits,

    removal     L = A/(1 - A) (u - o)   the change when it is left out of the row (theorem 20)
    value only  V = A u                 the message of CP-LRP
    unseen      B = A o                 the part of V that no removal sees (theorem 18)
    taylor      S = Z A (u - o)         Eq. 5, before the halving of Eq. 3; S/L = Z (1 - A)
    zeroing     E = (A - w)/(1 - A + w) (u - o)   the change by logit 0, not -inf: w = A exp(-Z)

L and E are exact for the readout and first order for the layers after it.  S is the first order of
E, not of L: it predicts the step from Z to logit 0, which is a weight like any other, and not an
absent key.  S belongs to the pair (j, i); Eq. 4 would give half of it to the query.
V - B = A (u - o) = (1 - A) L is the rest of V; it is also df_c/dZ, and Eq. 5 multiplies it by Z.
A constant added to all logits of a row, or to all values and taken off the next bias,
leaves the function and L as they are, but changes S, or V.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.numeric.engine.blocks import Block, outside
from lrp_axioms.numeric.engine.rules import wide
from lrp_axioms.numeric.evaluation.correlation import pearson
from lrp_axioms.numeric.models import families
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.models.patches import attention_implementation, twin
from lrp_axioms.numeric.models.places import Places
from lrp_axioms.numeric.targets import Label, Target
from lrp_axioms.numeric.targets.readout import Readout


@dataclass(frozen=True, eq=False)
class SoftmaxErrors:
    """Per text and layer, over all heads, queries and keys; float64, (example, layer) each.

    entropy: of the attention of a row, mean over rows, in nats
    flatness: entropy / log n for n keys: 1 where every row is uniform
    default_share: sum min(A, 1/n)|u| / sum |V|: how much of V uniform attention would send too
    structural_bias: sum |B| / sum |V|: 1 where no messages of a row cancel, 0 where all do
    unseen_share: sum o^2 / sum A u^2: 1 where no removal sees any of V, since in every row
            the mean of u^2 under A is o^2 plus the mean of (u - o)^2
    linearization_error: sum |S - L| / sum |L|
    first_order_error: sum |S - E| / sum |E|: by the number that S is the first order of
    centred_error: sum |V - B - L| / sum |L|: of value-only without the unseen part
    taylor_r, value_r: Pearson r of S, and of V, with L over the entries of all rows
    taylor_token_r, value_token_r: such r after summing over heads and queries
    NaN where a denominator is zero.
    """

    entropy: np.ndarray
    flatness: np.ndarray
    default_share: np.ndarray
    structural_bias: np.ndarray
    unseen_share: np.ndarray
    linearization_error: np.ndarray
    first_order_error: np.ndarray
    centred_error: np.ndarray
    taylor_r: np.ndarray
    value_r: np.ndarray
    taylor_token_r: np.ndarray
    value_token_r: np.ndarray


@dataclass(frozen=True, eq=False)
class Messages:
    """The messages of one layer, (example, head, query, key), in logits, 0 where not ``keep``.

    keep: bool, query and key are tokens, and the one attends to the other
    logits: Z   weights: A, no unit   u: <v_i, g_j>; the others as in the module's docstring
    """

    keep: Tensor
    logits: Tensor
    weights: Tensor
    u: Tensor
    removal: Tensor
    value: Tensor
    unseen: Tensor
    taylor: Tensor
    zeroing: Tensor


@dataclass(frozen=True, eq=False)
class _Seen:
    """One attention layer of a forward pass: (example, head, token, channel)."""

    query: Tensor
    key: Tensor
    value: Tensor
    keys: Tensor  # bool, which take part, of every query
    scaling: float
    out: Tensor


def softmax_errors(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    *,
    target: Label | Target = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> SoftmaxErrors:
    """Measures structural bias and linearization error by layer (Sec. 3.2; theorems 18 to 20).

    ``inputs``, ``target`` and ``tokenizer`` are as in ``attribute``.  The forward pass runs in the
    model's dtype, everything after it in float32 or wider; the model is left as it was.
    Raises ValueError for inputs that ``attribute`` refuses, for models without a known attention,
    and for rows with one key, without which nothing is left.
    """
    found = row_messages(model, inputs, target=target, tokenizer=tokenizer)
    layers = [errors_of(messages) for messages in found]
    return SoftmaxErrors(
        **{name: np.stack([layer[name] for layer in layers], axis=1) for name in layers[0]}
    )


def row_messages(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    *,
    target: Label | Target = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> list[Messages]:
    """Returns every key's messages in every row, by layer; arguments as in `softmax_errors`."""
    with outside(), torch.inference_mode(mode=False):
        batch = prepare(model, inputs, targets=[target]).of_text()
        with torch.autocast(batch.device.type, enabled=False):
            readout = Readout.of(model, batch, [target], tokenizer=tokenizer)
            seen, gradients = _observe(model, batch, readout)
            present = batch.attention_mask == 1
            return [_messages(s, g, present) for s, g in zip(seen, gradients, strict=True)]


def _observe(
    model: PreTrainedModel, batch: Batch, readout: Readout
) -> tuple[list[_Seen], tuple[Tensor, ...]]:
    """Returns all attention layers in the order of the forward pass, and df_c/dO of each."""
    model = twin(model)
    modules = list(model.modules())
    readouts = [
        m for m in modules if {*map(families.name, type(m).__mro__)} & {*families.ATTENTION}
    ]
    if not readouts or not all(map(families.projections, readouts)):
        raise ValueError(
            f"no attention that is known in {type(model).__name__}; the classes are "
            f"{', '.join(name.partition('.')[2] for name in families.ATTENTION)}"
        )
    attention_implementation(modules, "sdpa")
    with torch.enable_grad(), _Observer(model) as observer:
        rows = readout.run(model, batch.arguments())
    with torch.enable_grad():
        (chosen,) = readout.choose(rows).targets
        outs = [layer.out for layer in observer.seen]
        return observer.seen, torch.autograd.grad(chosen.of(rows).sum(), outs)


class _Observer(Block):
    """Spells fused attention of a model out, and keeps its operands and outputs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.places = Places(model)
        self.seen: list[_Seen] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        attends = func is functional.scaled_dot_product_attention
        run = self._attend if attends and self.acts and self.places.inside() else func
        return run(*args, **(kwargs or {}))

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        attn_mask: Tensor | None = None,
        scale: float | None = None,
        is_causal: bool | None = None,
        **_: Any,
    ) -> Tensor:
        """query, key, value: (batch, head, token, channel)"""
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
        scaling = scale or query.shape[-1] ** -0.5
        scores = (query @ key.mT) * scaling
        keys = torch.ones_like(scores, dtype=torch.bool)
        keys = keys.tril() if is_causal else keys if attn_mask is None else keys & attn_mask
        out = scores.masked_fill(~keys, torch.finfo(scores.dtype).min).softmax(dim=-1) @ value
        if not out.requires_grad:  # in the first layer, since parameters are frozen
            out.requires_grad_()
        self.seen.append(_Seen(query, key, value, keys, scaling, out))
        return out


def _messages(seen: _Seen, gradient: Tensor, present: Tensor) -> Messages:
    operands = seen.query, seen.key, seen.value, gradient
    query, key, value, g = (wide(x.detach()) for x in operands)
    z, u = (query @ key.mT) * seen.scaling, g @ value.mT
    keep = seen.keys & present[:, None, :, None]
    _refuse_lonely(keep)
    found = {"logits": z, "u": u} | _exact(z, u, seen.keys)
    return Messages(keep, **{name: torch.where(keep, x, 0.0) for name, x in found.items()})


def _refuse_lonely(keep: Tensor) -> None:
    lonely = (keep.sum(dim=-1) == 1).any(dim=2).any(dim=1).nonzero()[:, 0].tolist()
    if lonely:
        raise ValueError(
            f"a row with one key only in examples {lonely}: without it there is nothing left to "
            "attend to; leave texts of one token out of the batch, and causal models"
        )


def _exact(z: Tensor, u: Tensor, keys: Tensor) -> dict[str, Tensor]:
    """Computes A and the messages of the module's docstring from logits and ``u``."""
    z_open = z.masked_fill(~keys, -torch.inf)
    log_sum = z_open.logsumexp(dim=-1, keepdim=True)
    a = (z_open - log_sum).exp()
    o = (a * u).sum(dim=-1, keepdim=True)
    # Only the largest weight of a row can be near 1, where 1 - A and u - o cancel: its row is
    # evaluated once more without it.
    top = nn.functional.one_hot(z_open.argmax(dim=-1), z.shape[-1]).bool()
    others = z_open.masked_fill(top, -torch.inf)
    log_rest = torch.where(
        top, others.logsumexp(dim=-1, keepdim=True), log_sum + torch.log1p(-a)
    )  # of the sum of exp(Z) over all keys but this one
    rest = (log_rest - log_sum).exp()  # 1 - A
    without = (others.softmax(dim=-1) * u).sum(dim=-1, keepdim=True)
    moved = torch.where(top, u - without, (u - o) / rest)  # <v_i - (O without i), g>
    removal = a * moved
    return {
        "weights": a,
        "removal": removal,
        "value": a * u,
        "unseen": a * o,
        "taylor": z * rest * removal,
        "zeroing": (a - (-log_sum).exp()) * moved / (1 + (-log_rest).exp()),
    }


def errors_of(m: Messages) -> dict[str, np.ndarray]:
    """Returns the fields of `SoftmaxErrors` for one layer, (example,) each."""
    keys = m.keep.sum(dim=-1).to(m.weights.dtype)  # n of every row, 0 where no query is
    rows = (keys > 0).sum(dim=(1, 2))
    uniform = 1 / keys.clamp(min=1)[..., None]
    entropy = torch.special.entr(m.weights).sum(dim=-1)
    squares = (m.weights * m.u**2).sum(dim=(1, 2, 3))

    def total(x: Tensor) -> Tensor:
        return x.abs().sum(dim=(1, 2, 3))

    def r(message: Tensor, view: Callable[[Tensor], Tensor]) -> np.ndarray:
        a, b, keep = (view(x).cpu().numpy() for x in (message, m.removal, m.keep))
        return pearson(a, b, keep.astype(bool))

    measured = {
        "entropy": entropy.sum(dim=(1, 2)) / rows,
        "flatness": (entropy / keys.clamp(min=2).log()).sum(dim=(1, 2)) / rows,
        "default_share": total(torch.minimum(m.weights, uniform) * m.u) / total(m.value),
        "structural_bias": total(m.unseen) / total(m.value),
        "unseen_share": m.unseen.sum(dim=-1).square().sum(dim=(1, 2)) / squares,
        "linearization_error": total(m.taylor - m.removal) / total(m.removal),
        "first_order_error": total(m.taylor - m.zeroing) / total(m.zeroing),
        "centred_error": total(m.value - m.unseen - m.removal) / total(m.removal),
    }
    entries, tokens = (lambda x: x.flatten(1)), (lambda x: x.sum(dim=(1, 2)))
    return {name: x.cpu().double().numpy() for name, x in measured.items()} | {
        "taylor_r": r(m.taylor, entries),
        "value_r": r(m.value, entries),
        "taylor_token_r": r(m.taylor, tokens),
        "value_token_r": r(m.value, tokens),
    }
