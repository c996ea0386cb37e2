"""How position enters attention, in nine ways, each with the relevance that it takes for itself.

Position enters by one of four operations, and each has its rule:

  a sum            content + position: both by Eq. 1, in proportion to their signed values
  a product        content times position: half each
  a map of logits  linear layers by Eq. 1, activations by the identity rule
  a chain          k <- k - P k with P = beta w w^T: Eq. 1 on the sum, half to P and half to k,
                   and a third of P's to each of beta, w and w

Attention is causal, of one layer: embeddings -> q, k, v -> logits -> softmax -> readout -> mean
over the tokens -> one logit.  Values are those of the plain forward pass; the backward pass
carries relevance per unit of value.
Axis letters: b example, t token, j query row, i key row, h head, r query/key channel, m feature.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from numeric.fast import rules

if TYPE_CHECKING:
    from numeric.networks.positional_attention import PositionalAttention

Leaves: TypeAlias = dict[str, Tensor]
"""What position is made of, by name."""

BIAS, STABILISER, TAYLOR = "bias", "stabiliser", "Taylor term"


@dataclass(frozen=True)
class Operations:
    """The rule at the output of every operation, and what each absorbs, by place and cause."""

    eps: float
    absorbed: dict[tuple[str, str], Tensor] = field(default_factory=dict)

    def _note(self, place: str, cause: str, y: Tensor, amount: Callable[[Tensor], Tensor]) -> None:
        """Adds ``amount(c)`` of every example once the cotangent c of ``y`` is known."""

        def add(c: Tensor) -> None:
            total = amount(c).flatten(1).sum(1)
            self.absorbed[place, cause] = self.absorbed.get((place, cause), 0) + total

        if y.requires_grad:
            y.register_hook(add)

    def linear(self, place: str, z: Tensor, bias: Tensor | None = None) -> Tensor:
        """Eq. 1 at the output of a linear map or a sum; the bias absorbs its share."""
        y, fixed = rules.epsilon(z, eps=self.eps), z.detach()
        kept = fixed / rules.stabilize(fixed, self.eps)
        if self.eps:
            self._note(place, STABILISER, y, lambda c: fixed * c * (1 - kept))
        if bias is not None:
            self._note(place, BIAS, y, lambda c: bias.detach() * c * (kept if self.eps else 1))
        return y

    def bilinear(self, place: str, o: Tensor) -> Tensor:
        """Eqs. 3 and 4 at the output of a product of two activations: half each as eps -> 0."""
        y, fixed = rules.bilinear_epsilon(o, eps=self.eps), o.detach()
        if self.eps:
            kept = 2 * fixed / rules.stabilize(2 * fixed, self.eps)
            self._note(place, STABILISER, y, lambda c: fixed * c * (1 - kept))
        return y

    def product(self, *factors: Tensor) -> Tensor:
        """Elementwise, the same part of the relevance to every factor."""
        y = factors[0]
        for factor in factors[1:]:
            y = y * factor
        return rules.scale(y, 1 / len(factors))

    def softmax(self, place: str, z: Tensor) -> Tensor:
        """Eq. 5, whose Taylor term keeps R (1 - z + zbar) of the R of each weight."""
        a, finite = torch.softmax(z, dim=-1), z.detach().masked_fill(z.detach().isneginf(), 0.0)
        fixed = a.detach()
        mean = (fixed * finite).sum(-1, keepdim=True)
        self._note(place, TAYLOR, a, lambda c: fixed * c * (1 - finite + mean))
        return a


# --- what the families are made of ---------------------------------------------------------------


def sinusoids(tokens: int, width: int) -> Tensor:
    """sin and cos of token / 10000^(2r/width), channel by channel in turn: (t, channel)."""
    angle = angles(tokens, width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width]


def angles(tokens: int, width: int) -> Tensor:
    """token / 10000^(2r/width) for r < width/2, rounded up: (t, r)."""
    frequency = 10000.0 ** (-torch.arange(0, width, 2).double() / width)
    return torch.arange(tokens).double()[:, None] * frequency


def distances(tokens: int) -> Tensor:
    """j - i, how far back key i lies, and 0 for keys ahead: (j, i)."""
    t = torch.arange(tokens)
    return (t[:, None] - t).clamp(min=0)


def one_hot(tokens: int) -> Tensor:
    """One feature per distance: a table of them is a Toeplitz matrix.  (m, j, i)"""
    return functional.one_hot(distances(tokens), tokens).double().movedim(-1, 0)


def linear_decay(tokens: int) -> Tensor:
    return -distances(tokens).double()[None]


def waves(tokens: int, count: int = 2) -> Tensor:
    """cos and sin of 2 pi n (j - i) / (2 tokens), n = 1, ..., count: (m, j, i)."""
    phase = distances(tokens).double() * torch.pi / tokens
    return torch.stack([f(n * phase) for n in range(1, count + 1) for f in (torch.cos, torch.sin)])


def quarter_turn(x: Tensor) -> Tensor:
    """(x1, x2) -> (-x2, x1) of the two halves of the channels: the part that sin multiplies."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def _from_table(op: Operations, place: str, leaves: Leaves, features: Tensor) -> Tensor:
    """A linear map of the position table: (b, h, m), (m, j, i) -> (b, h, j, i)."""
    return op.linear(place, torch.einsum("bhm,mji->bhji", leaves["table"], features))


def _scores(op: Operations, q: Tensor, k: Tensor) -> Tensor:
    return op.bilinear("scores", q @ k.mT / q.shape[-1] ** 0.5)


# --- the stages at which position enters: (op, module, tensors, leaves) ---------------------------


def add_to_embedding(
    op: Operations, _module: "PositionalAttention", x: Tensor, leaves: Leaves
) -> Tensor:
    return op.linear("embedding", x + leaves["table"])


def add_to_logits(
    op: Operations, module: "PositionalAttention", q: Tensor, k: Tensor, leaves: Leaves
) -> Tensor:
    bias = _from_table(op, "table", leaves, module.features)
    return op.linear("logits", _scores(op, q, k) + bias)


def multiply_weights(
    op: Operations, module: "PositionalAttention", a: Tensor, leaves: Leaves
) -> Tensor:
    return op.product(a, _from_table(op, "table", leaves, module.features))


def map_logits(
    op: Operations, module: "PositionalAttention", q: Tensor, k: Tensor, leaves: Leaves
) -> Tensor:
    """S + f(S, B), f a two-layer network over the scores and biases of all heads of one pair."""
    scores = _scores(op, q, k)
    both = torch.cat([scores, _from_table(op, "table", leaves, module.features)], dim=1)
    bias = module.weights["inner_bias"][:, None, None]
    hidden = torch.einsum("bcji,cn->bnji", both, module.weights["inner"]) + bias
    hidden = op.linear("inner", hidden, bias)
    relu = rules.identity(torch.relu, hidden, slope_at_zero=0.0)
    mapped = op.linear("outer", torch.einsum("bnji,nh->bhji", relu, module.weights["outer"]))
    return op.linear("logits", scores + mapped)


def rotate(op: Operations, place: str, x: Tensor, leaves: Leaves) -> Tensor:
    """x cos + quarter_turn(x) sin: two products, half to x and half to position, and their sum."""
    cos, sin = leaves["cos"], leaves["sin"]
    return op.linear(place, op.product(x, cos) + op.product(quarter_turn(x), sin))


def score_rotated(
    op: Operations, _module: "PositionalAttention", q: Tensor, k: Tensor, leaves: Leaves
) -> Tensor:
    return _scores(op, rotate(op, "rotated query", q, leaves), rotate(op, "rotated key", k, leaves))


def score_along_chain(
    op: Operations, _module: "PositionalAttention", q: Tensor, k: Tensor, leaves: Leaves
) -> Tensor:
    """q_j (1 - P_j) ... (1 - P_(i+1)) k_i, P_t = beta_t w_t w_t^T, one step of j at a time."""
    axis, strength = leaves["axis"], leaves["strength"]
    rows, moved = [], k[:, :, :0]
    for j in range(q.shape[2]):
        w, beta = axis[:, :, j], strength[:, :, j, None, None]
        step = op.product(beta, w[..., :, None], w[..., None, :])
        away = op.bilinear("step", torch.einsum("bhrs,bhis->bhir", step, moved))
        moved = torch.cat([op.linear("moved key", moved - away), k[:, :, j : j + 1]], dim=2)
        row = op.bilinear("scores", q[:, :, j : j + 1] @ moved.mT / q.shape[-1] ** 0.5)
        rows.append(functional.pad(row, (0, q.shape[2] - j - 1)))
    return torch.cat(rows, dim=2)


def angles_from_content(op: Operations, module: "PositionalAttention", x: Tensor) -> Leaves:
    """cos and sin of an angle that every token moves on by a step of its own, in (0, 1)."""
    raw = op.linear("step size", torch.einsum("btc,ch->bht", x, module.weights["step"]))
    step = rules.identity(torch.sigmoid, raw, slope_at_zero=torch.inf)
    frequency = angles(2, module.size)[1].to(x)
    angle = op.linear("angle", step.cumsum(dim=-1)[..., None] * frequency)
    parts = {"cos": torch.cos, "sin": torch.sin}
    return {
        name: rules.identity(f, angle, slope_at_zero=torch.inf).repeat(1, 1, 1, 2)
        for name, f in parts.items()
    }


def reflections_from_content(op: Operations, module: "PositionalAttention", x: Tensor) -> Leaves:
    """Unit vectors w, their norm held, and strengths beta in (0, 2), from every token."""
    axis = op.linear("axis", torch.einsum("btc,chr->bhtr", x, module.weights["axis"]))
    raw = op.linear("strength", torch.einsum("btc,ch->bht", x, module.weights["strength"]))
    return {
        "axis": axis / axis.detach().norm(dim=-1, keepdim=True),
        "strength": 2 * rules.identity(torch.sigmoid, raw, slope_at_zero=torch.inf),
    }


@dataclass(frozen=True, kw_only=True)
class Family:
    """Where position enters; sizes are (tokens, width, heads, channels per head)."""

    leaves: Callable[..., Leaves] = lambda *sizes: {}  # that no token changes
    given: Callable[..., Leaves] | None = None  # leaves that the tokens themselves give
    weights: Callable[..., dict[str, tuple[int, ...]]] = (
        lambda *sizes: {}
    )  # shapes of what is learned
    features: Callable[[int], Tensor] = one_hot
    embed: Callable[..., Tensor] = lambda op, module, x, leaves: x
    score: Callable[..., Tensor] = lambda op, module, q, k, leaves: _scores(op, q, k)
    weigh: Callable[..., Tensor] = lambda op, module, a, leaves: a


def _table(rows: Callable[[int], int]) -> Callable[[int, int, int, int], Leaves]:
    return lambda tokens, width, heads, size: {"table": torch.randn(heads, rows(tokens)).double()}


def _turns(tokens: int, width: int, heads: int, size: int) -> Leaves:
    angle = angles(tokens, size).repeat(1, 2)[None]  # the same for all heads
    return {"cos": angle.cos(), "sin": angle.sin()}


def _slopes(tokens: int, width: int, heads: int, size: int) -> Leaves:
    return {"table": 2.0 ** (-8 * torch.arange(1, heads + 1).double()[:, None] / heads)}


def _mapping(tokens: int, width: int, heads: int, size: int) -> dict[str, tuple[int, ...]]:
    return {
        "inner": (2 * heads, 4 * heads),
        "inner_bias": (4 * heads,),
        "outer": (4 * heads, heads),
    }


FAMILIES = {
    "sinusoidal": Family(
        leaves=lambda tokens, width, heads, size: {"table": sinusoids(tokens, width)},
        embed=add_to_embedding,
    ),
    "relative bias": Family(leaves=_table(lambda tokens: tokens), score=add_to_logits),
    "linear bias": Family(leaves=_slopes, features=linear_decay, score=add_to_logits),
    "fourier bias": Family(leaves=_table(lambda _: 4), features=waves, score=add_to_logits),
    "toeplitz": Family(leaves=_table(lambda tokens: tokens), weigh=multiply_weights),
    "logit map": Family(leaves=_table(lambda tokens: tokens), weights=_mapping, score=map_logits),
    "householder": Family(
        given=reflections_from_content,
        weights=lambda tokens, width, heads, size: {
            "axis": (width, heads, size),
            "strength": (width, heads),
        },
        score=score_along_chain,
    ),
    "rotary": Family(leaves=_turns, score=score_rotated),
    "contextual rotary": Family(
        given=angles_from_content,
        weights=lambda tokens, width, heads, size: {"step": (width, heads)},
        score=score_rotated,
    ),
}
"""In the literature: sinusoidal; T5's relative bias; ALiBi (linear bias); learned Fourier features;
URPE (toeplitz); DAPE (logit map); PaTH (householder); rotary, by fixed or by content's angles."""
