"""Linear attention over pixels with every choice that the paper leaves open as an argument.

The two orders of its products are named for the product that comes first: ``qk_first`` is (QKᵀ)V
and ``kv_first`` is Q(KᵀV).  The paper calls (QKᵀ)V left-associative in §3.1 and right-associative
in §4.3; this project says neither.
"""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from lrp_axioms.numeric.engine import rules

FACTORIZATIONS = {
    "qk_first": lambda q, k, v, product: product(product(q @ k.mT / k.shape[-2]) @ v),
    "kv_first": lambda q, k, v, product: product(q @ product(k.mT @ v / k.shape[-2])),
}
"""Both orders of one function; ``product`` is the rule at the output of each product."""


@dataclass(frozen=True, kw_only=True)
class Specification:
    """One network; configs/table1-mnist.toml explains the words."""

    embedding: str
    embedding_bias: bool
    positions: str
    qkv_bias: bool
    scale: str
    pooling: str
    input: str

    def __post_init__(self):
        for name, allowed in CHOICES.items():
            if (value := getattr(self, name)) not in allowed:
                raise ValueError(f"{name}={value!r}: pass one of {', '.join(map(str, allowed))}")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """LRP's stabiliser, and whether a bias counts in the denominator of its linear map (Eq. 1)."""

    eps: float = 1e-6
    bias: str = "inside"

    def linear(self, z: Tensor, bias: Tensor | None = None) -> Tensor:
        outside = bias if self.bias == "outside" else None
        return rules.epsilon(z, eps=self.eps, bias=outside)

    def product(self, z: Tensor) -> Tensor:
        return rules.bilinear_epsilon(z, eps=self.eps)


GRADIENT = SimpleNamespace(linear=lambda z, bias=None: z, product=lambda z: z)
"""No rule: the backward pass is the plain gradient."""

POOLING = {
    "mean": lambda o, rule: rule(o.mean(dim=-2)),
    "sum": lambda o, rule: rule(o.sum(dim=-2)),
    "last": lambda o, rule: o[..., -1, :],
    "flatten": lambda o, rule: o.flatten(-2),
}
SCALES = {"tokens": lambda tokens, width: 1 / tokens, "width": lambda tokens, width: width**-0.5}


def _sinusoidal(tokens, width):
    """Returns sine and cosine of positions at wavelengths from 2π to 10000 · 2π."""
    angles = torch.arange(tokens)[:, None] * torch.exp(
        torch.arange(0, width, 2) * (-math.log(10000) / width)
    )
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


POSITIONS = {
    "none": lambda tokens, width: None,
    "learned": lambda tokens, width: nn.Parameter(torch.randn(tokens, width)),
    "sinusoidal": _sinusoidal,
}
CHOICES = {
    "embedding": ("shared", "own"),
    "embedding_bias": (False, True),
    "positions": tuple(POSITIONS),
    "qkv_bias": (False, True),
    "scale": tuple(SCALES),
    "pooling": tuple(POOLING),
    "input": ("unit", "standard"),
}


class PixelAttention(nn.Module):
    """Classifier of pixel sequences, embedded as specified, with two products and no softmax.

    Weights start as in ``nn.Linear`` and ``nn.Embedding``.  The factorization is an argument of a
    call, so that one set of weights serves both.
    """

    def __init__(
        self, specification: Specification, *, tokens: int, width: int = 32, classes: int = 10
    ):
        super().__init__()
        self.specification = specification
        directions = 1 if specification.embedding == "shared" else tokens
        self.direction = nn.Parameter(torch.empty(directions, width).uniform_(-1, 1))
        bias = torch.empty(width).uniform_(-1, 1) if specification.embedding_bias else None
        self.bias = None if bias is None else nn.Parameter(bias)
        position = POSITIONS[specification.positions](tokens, width)
        if isinstance(position, nn.Parameter):
            self.position = position
        else:
            self.register_buffer("position", position)
        self.query, self.key, self.value = (
            nn.Linear(width, width, bias=specification.qkv_bias) for _ in "qkv"
        )
        read = tokens * width if specification.pooling == "flatten" else width
        self.classifier = nn.Linear(read, classes)
        # `FACTORIZATIONS` divide by the number of tokens; a factor on k moves no relevance.
        self.key_factor = tokens * SCALES[specification.scale](tokens, width)

    def forward(self, pixels: Tensor, *, factorization: str = "kv_first") -> Tensor:
        """Pixels (example, token) -> logits (example, class), with the plain gradient.

        A projection is affine in its pixel: the direction and the rest are projected, not tokens.
        """
        rest = self._rest()
        tables = (
            (self.direction @ layer.weight.mT, layer(rest))
            for layer in (self.query, self.key, self.value)
        )
        projections = [torch.addcmul(fixed, pixels[..., None], slope) for slope, fixed in tables]
        return self._attend(*projections, factorization=factorization, rule=GRADIENT)

    def embed(self, pixels: Tensor, *, rule=GRADIENT) -> Tensor:
        """Pixels (example, token) -> embeddings (example, token, channel)."""
        return rule.linear(pixels[..., None] * self.direction + self._rest(), self.bias)

    def read(self, embedding: Tensor, *, factorization: str, rule=GRADIENT) -> Tensor:
        """Embeddings (example, token, channel) -> logits (example, class)."""
        projections = (
            rule.linear(layer(embedding), layer.bias)
            for layer in (self.query, self.key, self.value)
        )
        return self._attend(*projections, factorization=factorization, rule=rule)

    def _rest(self):
        """Returns the pixel-independent part of an embedding, (1 or token, channel)."""
        terms = [term for term in (self.bias, self.position) if term is not None]
        return sum(terms, start=torch.zeros_like(self.direction[:1]))

    def _attend(self, q, k, v, *, factorization, rule):
        readout = FACTORIZATIONS[factorization](q, k * self.key_factor, v, rule.product)
        pooled = POOLING[self.specification.pooling](readout, rule.linear)
        return rule.linear(self.classifier(pooled), self.classifier.bias)


def relevance(
    model: PixelAttention, pixels: Tensor, target: Tensor, *, factorization: str, rule: Rules
) -> dict[str, Tensor]:
    """Computes AttnLRP (Eqs. 1, 3 and 4) at the pixels and at their embeddings, in logits.

    pixels, result: (example, token); target: (example,).  The pixels lack the relevance that
    positions and biases absorb; an embedding keeps the share that its pixel loses to its position.
    """
    pixels = pixels.detach().requires_grad_()
    embedding = model.embed(pixels, rule=rule)
    logits = model.read(embedding, factorization=factorization, rule=rule)
    # The rule of the embedding acts at its output: its relevance is read behind, not before it.
    of_pixel, of_embedding = torch.autograd.grad(
        logits.gather(1, target[:, None]).sum(), [pixels, embedding]
    )
    return {
        "pixel": pixels.detach() * of_pixel,
        "embedding": (embedding.detach() * of_embedding).sum(dim=-1),
    }
