"""The paper's linear attention without softmax, in its two factorizations, one example at a time.

Embeddings -> q, k, v -> product of the three, divided by the number of tokens -> mean over the
tokens -> classifier.  ``qk_first`` is (Q K^T) V and ``kv_first`` is Q (K^T V): one function, two
implementations (Sec. 3.1; the paper's "left" and "right" change places in Sec. 4.3).
Axis letters: ``t``, ``j``, ``i`` token; ``c`` channel; ``r`` query/key channel; ``p`` value
channel; ``n`` class.  Parameters: ``query``, ``key``, ``value`` and ``classifier``, each with
``.weight`` (out, in) and, if it has one, ``.bias`` (out).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from numeric.reference import rules

PATHS = ("query", "key", "value")


@dataclass
class Relevance:
    """Relevance, in logits, of the embeddings and of the three projections."""

    x: np.ndarray  # (t, c), the sum of the three paths
    query: np.ndarray  # (t, r)
    key: np.ndarray  # (t, r)
    value: np.ndarray  # (t, p)
    logit: float
    target: int


def linear(parameters: Mapping[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Weight (in, out), as in Eq. 1, and bias of one linear layer; a missing bias is 0."""
    weight = parameters[f"{name}.weight"].T
    return weight, parameters.get(f"{name}.bias", np.zeros(weight.shape[1]))


def project(parameters: Mapping[str, np.ndarray], x: np.ndarray) -> tuple[np.ndarray, ...]:
    """q (t, r), k (t, r), v (t, p) of the embeddings x (t, c)."""
    projections = (linear(parameters, name) for name in PATHS)
    return tuple(x @ weight + bias for weight, bias in projections)


def products(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, factorization: str
) -> tuple[np.ndarray, np.ndarray]:
    """The inner product, divided by the number of tokens, and the outer one (t, p)."""
    if factorization == "qk_first":
        inner = np.einsum("jr,ir->ji", q, k) / len(q)
        return inner, np.einsum("ji,ip->jp", inner, v)
    inner = np.einsum("ir,ip->rp", k, v) / len(q)
    return inner, np.einsum("jr,rp->jp", q, inner)


def classify(
    parameters: Mapping[str, np.ndarray],
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    factorization: str,
) -> np.ndarray:
    """Logits (n) of the three projections."""
    _, outer = products(q, k, v, factorization=factorization)
    weight, bias = linear(parameters, "classifier")
    logits: np.ndarray = outer.mean(axis=0) @ weight + bias
    return logits


def forward(
    parameters: Mapping[str, np.ndarray], x: np.ndarray, *, factorization: str
) -> np.ndarray:
    """Logits (n) of one example of embeddings x (t, c)."""
    return classify(parameters, *project(parameters, x), factorization=factorization)


def relevance(
    parameters: Mapping[str, np.ndarray],
    x: np.ndarray,
    *,
    factorization: str,
    target: int | None = None,
    eps: float = 0.0,
) -> Relevance:
    """Eqs. 1 and 3 from one logit down to the embeddings.

    x: (t, c); target: class index, default the predicted one.  The mean over the tokens is a
    linear layer.  Only biases and stabilisers absorb.
    """
    q, k, v = project(parameters, x)
    inner, outer = products(q, k, v, factorization=factorization)
    logits = classify(parameters, q, k, v, factorization=factorization)
    target = int(logits.argmax()) if target is None else target

    r = np.zeros_like(logits)
    r[target] = logits[target]
    r = rules.epsilon(outer.mean(axis=0), *linear(parameters, "classifier"), r, eps=eps)
    average = np.full((len(x), 1), 1 / len(x))
    r = rules.epsilon(outer.T, average, 0.0, r[:, None], eps=eps).T

    scale = 1 / len(x)
    if factorization == "qk_first":
        r_inner, r_v = rules.bilinear_epsilon(inner, v, r, eps=eps)
        r_q, r_k = rules.scores_epsilon(q, k, r_inner, eps=eps, scale=scale)
    else:
        r_q, r_inner = rules.bilinear_epsilon(q, inner, r, eps=eps)
        of_k, r_v = rules.bilinear_epsilon(k.T, v, r_inner, eps=eps, scale=scale)
        r_k = of_k.T

    paths = zip(PATHS, (r_q, r_k, r_v), strict=True)
    r_x: Any = sum(
        rules.epsilon(x, *linear(parameters, name), part, eps=eps) for name, part in paths
    )
    return Relevance(
        x=r_x, query=r_q, key=r_k, value=r_v, logit=float(logits[target]), target=target
    )
