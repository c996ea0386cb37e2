"""A small attention layer with any of the nine ways to encode position, and its relevance."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from numeric.networks.positions import FAMILIES, Operations


class PositionalAttention(nn.Module):
    """One causal attention layer in float64 whose positions enter as ``family`` says.

    Embeddings (example, token, channel) -> logit (example); the query, key, value and the
    classifier have biases.  ``leaves`` holds what position is made of, unless tokens give it.
    Raises ValueError for an unknown family, and for heads that do not divide the width into
    parts of even size.
    """

    features: Tensor  # of pairs of tokens, by which a table is spread

    def __init__(self, family: str, *, width: int, heads: int, tokens: int) -> None:
        super().__init__()
        if family not in FAMILIES:
            raise ValueError(f"family={family!r}: pass one of {', '.join(FAMILIES)}")
        if heads < 1 or width % (2 * heads):
            raise ValueError(
                f"width={width}, heads={heads}: every head needs an even number of channels; "
                "pass a width that 2 * heads divides"
            )
        self.family, self.heads, self.size = FAMILIES[family], heads, width // heads
        self.shape = (tokens, width)
        sizes = (tokens, width, heads, self.size)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in "qkv")
        self.classifier = nn.Linear(width, 1)
        self.leaves = nn.ParameterDict(self.family.leaves(*sizes))
        shapes = self.family.weights(*sizes).items()
        self.weights = nn.ParameterDict({name: torch.randn(shape) for name, shape in shapes})
        self.register_buffer("features", self.family.features(tokens))
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        """Logits (example) of embeddings (example, token, channel)."""
        op = Operations(eps=0.0)
        return self.explained(op, x, self.shared(x) | self.given(op, x))

    def shared(self, x: Tensor) -> dict[str, Tensor]:
        """The leaves that no token changes, once per example of ``x``."""
        return {name: leaf.expand(len(x), *leaf.shape) for name, leaf in self.leaves.items()}

    def given(self, op: Operations, x: Tensor) -> dict[str, Tensor]:
        """The leaves that the tokens give."""
        return self.family.given(op, self, x) if self.family.given else {}

    def explained(self, op: Operations, x: Tensor, leaves: dict[str, Tensor]) -> Tensor:
        """The logits, with the rules of ``op`` at every operation."""
        if x.shape[1:] != self.shape:
            raise ValueError(
                f"x of shape {tuple(x.shape)}: this layer takes (example, token, channel) with "
                f"{self.shape[0]} tokens of {self.shape[1]} channels"
            )
        e = self.family.embed(op, self, x, leaves)
        q, k, v = (
            op.linear(name, project(e), project.bias)
            .unflatten(-1, (self.heads, -1))
            .transpose(1, 2)
            for name, project in (("query", self.query), ("key", self.key), ("value", self.value))
        )
        z = self.family.score(op, self, q, k, leaves)
        ahead = torch.ones(z.shape[-2:], dtype=torch.bool, device=z.device).triu(1)
        a = op.softmax("softmax", z.masked_fill(ahead, -torch.inf))
        o = op.bilinear("readout", self.family.weigh(op, self, a, leaves) @ v)
        mean = op.linear("mean", o.transpose(1, 2).flatten(2).mean(dim=1))
        return op.linear("classifier", self.classifier(mean), self.classifier.bias)[:, 0]


@dataclass(frozen=True, eq=False)  # tensors have no one truth value
class Relevance:
    """Relevance, in logits, of tokens and of position, signed: with ``absorbed`` it adds up.

    tokens: (example, token), through the embeddings alone
    positions: by leaf, (example, *shape of the leaf)
    onward: (example, token), what tokens receive of leaves that they give, if it is handed on
    absorbed: (example) by place and cause
    absorbed_onward: (example) by place and cause, on the way from given leaves to tokens
    logit: (example)
    """

    tokens: Tensor
    positions: dict[str, Tensor]
    onward: Tensor
    absorbed: dict[tuple[str, str], Tensor]
    absorbed_onward: dict[tuple[str, str], Tensor]
    logit: Tensor

    @property
    def gap(self) -> Tensor:
        """What started less what was kept and absorbed: 0 up to rounding.  (example)"""
        kept = [self.tokens, *self.positions.values()]
        received = sum(part.flatten(1).sum(dim=1) for part in kept)
        return self.logit - received - sum(self.absorbed.values())


def relevance(model: PositionalAttention, x: Tensor, *, eps: float = 0.0) -> Relevance:
    """Relevance of tokens and of position for the logit, by AttnLRP's rules (Eqs. 1, 3, 4, 5).

    x: (example, token, channel).  Position leaves that tokens give keep what they receive;
    ``onward`` says what would reach the tokens.  Absorbed: biases, stabilisers, Eq. 5's Taylor
    term.  Raises ValueError for a negative ``eps``.
    """
    if not 0 <= eps < float("inf"):
        raise ValueError(
            f"eps={eps!r} ({type(eps).__name__}): the stabiliser must be finite and >= 0; "
            "pass eps=0 for the limit"
        )
    op, way = Operations(eps), Operations(eps)
    x = x.detach().requires_grad_()
    given = model.given(way, x)
    leaves = {
        name: leaf.detach().requires_grad_() for name, leaf in (model.shared(x) | given).items()
    }
    logit = model.explained(op, x, leaves)
    of_x, *of_leaves = torch.autograd.grad(logit.sum(), [x, *leaves.values()])
    c = dict(zip(leaves, of_leaves, strict=True))
    onward = torch.zeros_like(x)
    if given:
        (onward,) = torch.autograd.grad(list(given.values()), x, [c[name] for name in given])
    return Relevance(
        tokens=(x * of_x).sum(dim=-1).detach(),
        positions={name: (leaf * c[name]).detach() for name, leaf in leaves.items()},
        onward=(x * onward).sum(dim=-1).detach(),
        absorbed=op.absorbed,
        absorbed_onward=way.absorbed,
        logit=logit.detach(),
    )
