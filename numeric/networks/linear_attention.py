"""One layer of attention without softmax, where the order of two products is a free choice.

The two orders are named for the product that comes first: ``qk_first`` is (QKᵀ)V and ``kv_first``
is Q(KᵀV).  The paper calls (QKᵀ)V left-associative in §3.1 and right-associative in §4.3;
this project says neither.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from lrp_axioms.numeric.engine import rules

Rule = Callable[[Tensor], Tensor]
"""Acts at the output of an operation."""


def qk_first(q: Tensor, k: Tensor, v: Tensor, product: Rule) -> Tensor:
    return product(product(q @ k.mT / k.shape[-2]) @ v)


def kv_first(q: Tensor, k: Tensor, v: Tensor, product: Rule) -> Tensor:
    return product(q @ product(k.mT @ v / k.shape[-2]))


FACTORIZATIONS = {"qk_first": qk_first, "kv_first": kv_first}
"""Both orders of one function; ``product`` is the rule at the output of each product."""


class LinearAttention(nn.Module):
    """Classifier of pixel sequences with the two bilinear layers of §4.3 and no softmax.

    Embedding = pixel times a learned direction + a learned position; projections without bias;
    inner product divided by the number of tokens, as Eq. 2 divides by √d; mean over tokens;
    classifier with bias.
    The factorization is an argument of the call, so that one set of weights serves both.
    """

    def __init__(self, *, tokens: int = 64, width: int = 32, classes: int = 10) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.randn(width))
        self.position = nn.Parameter(torch.randn(tokens, width))
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in "qkv")
        self.classifier = nn.Linear(width, classes)

    def forward(
        self, pixels: Tensor, *, factorization: str = "kv_first", eps: float | None = None
    ) -> Tensor:
        """Returns logits; their backward pass is the plain gradient, or LRP's for a number ``eps``.

        pixels: (example, token) -> logits: (example, class).  The rules do not change the
        logits; they stabilise the output of every linear map (Eq. 1), bias included, and of
        every product (Eqs. 3 and 4); to the embedding the position is a bias.
        Raises ValueError for an unknown factorization or a negative ``eps``.
        """
        linear, product = _rules(eps)
        if factorization not in FACTORIZATIONS:
            raise ValueError(
                f"factorization={factorization!r}: pass one of {', '.join(FACTORIZATIONS)}"
            )
        embedding = linear(pixels[..., None] * self.direction + self.position)
        q, k, v = (linear(project(embedding)) for project in (self.query, self.key, self.value))
        readout = FACTORIZATIONS[factorization](q, k, v, product)
        return linear(self.classifier(linear(readout.mean(dim=-2))))


def cotangent(
    model: LinearAttention,
    pixels: Tensor,
    target: Tensor,
    *,
    factorization: str,
    eps: float | None,
) -> Tensor:
    """Returns relevance per unit of each pixel: AttnLRP is ``pixels`` times it (Eqs. 1, 3, 4).

    pixels: (example, token); target: (example,), the explained classes -> (example, token),
    in logits per unit of pixel.  With ``eps=None`` it is the plain gradient.
    The positions and the bias of the classifier absorb all other relevance.
    """
    pixels = pixels.detach().requires_grad_()
    logits = model(pixels, factorization=factorization, eps=eps)
    (result,) = torch.autograd.grad(logits.gather(1, target[:, None]).sum(), pixels)
    return result


def _rules(eps: float | None) -> tuple[Rule, Rule]:
    """Returns the rule at the output of a linear map, and the rule at the output of a product."""
    if eps is None:
        return (lambda z: z), (lambda z: z)
    if not eps >= 0:
        raise ValueError(f"eps={eps!r}: the stabiliser must be >= 0; pass eps=0 for the limit")
    return partial(rules.epsilon, eps=eps), partial(rules.bilinear_epsilon, eps=eps)
