"""One causal attention layer with any of nine ways to encode position, by messages.

One example at a time, NumPy float64; axis letters are those of ``positional``.  Parameters besides
the family's own: ``query``, ``key``, ``value`` and ``classifier``, each with ``.weight`` (out, in)
and ``.bias`` (out).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from numeric.reference import positional, rules
from numeric.reference.rules import product


@dataclass(frozen=True)
class Relevance:
    """Relevance, in logits, of tokens (t), of position leaves, and absorbed by place."""

    tokens: np.ndarray
    positions: dict[str, np.ndarray]
    absorbed: dict[str, float]
    logit: float


def relevance(
    parameters: Mapping[str, np.ndarray], x: np.ndarray, *, family: str, heads: int, eps: float
) -> Relevance:
    """Eqs. 1, 3, 4 and 5 from the logit of one example to its tokens and its position leaves.

    x: (t, c).  Absorbed by place: what arrived less what was handed on.
    """
    steps = positional.FAMILIES[family]
    s = positional.Setting(parameters, heads, eps)
    e, embedding_down = steps["embed"](s, x)

    maps = {name: _linear(parameters, name) for name in ("query", "key", "value")}
    q, k, v = (_split(e @ weight + bias, heads) for weight, bias in maps.values())
    content = (x,) if family in positional.BY_CONTENT else ()
    z, logits_down = steps["score"](s, q, k, *content)
    z = np.where(np.tri(len(x)), z, -np.inf)
    a, weights_down = steps["weigh"](s, rules.softmax(z))
    o = _merge(product("hji,hir->hjr", a, v))
    weight, bias = _linear(parameters, "classifier")
    mean = o.mean(axis=0)
    logit = mean @ weight + bias

    r = s.linear("classifier", mean, weight, bias, logit)
    average = np.full((len(x), 1), 1 / len(x))
    r = s.linear("mean", o.T, average, 0.0, r[:, None]).T
    r_a, r_v = s.bilinear("readout", a, v, _split(r, heads))
    r_a, from_weights = weights_down(r_a)
    r_z = s.handed("softmax", r_a, rules.softmax_taylor(z, r_a))
    r_q, r_k, from_logits = logits_down(r_z)
    r_e = sum(
        s.linear(name, e, *maps[name], _merge(part))
        for name, part in zip(maps, (r_q, r_k, r_v), strict=True)
    )
    r_x, from_embedding = embedding_down(r_e)
    return Relevance(
        tokens=r_x.sum(axis=1),
        positions=from_weights | from_logits | from_embedding,
        absorbed=s.absorbed,
        logit=float(logit[0]),
    )


def _linear(parameters: Mapping[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray]:
    return parameters[f"{name}.weight"].T, parameters[f"{name}.bias"]


def _split(x: np.ndarray, heads: int) -> np.ndarray:
    """(t, c) -> (h, t, r)"""
    return np.stack(np.split(x, heads, axis=1))


def _merge(x: np.ndarray) -> np.ndarray:
    """(h, t, r) -> (t, c)"""
    return np.concatenate(x, axis=1)
