"""Nine ways to encode position, by messages: what every operation hands to its operands.

One example at a time, NumPy float64.  Each function of a family runs forward and returns its
values and a second function, which takes the relevance of those values down to its operands and
to the position leaves.
Axis letters: ``t`` token; ``c`` channel; ``h`` head; ``j`` query row; ``i`` key row; ``r``
query/key channel; ``m`` feature; ``n`` hidden unit.  Parameters: ``leaves.NAME``, what position is
made of; ``weights.NAME``, what a family has learned besides.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from numeric.reference import rules
from numeric.reference.rules import product

Down: TypeAlias = Callable[[np.ndarray], tuple[Any, ...]]
"""From relevance of values to that of each operand, and last of the position leaves by name."""
Step: TypeAlias = tuple[np.ndarray, Down]
"""The values of one step of a family, and its way down."""


@dataclass(frozen=True)
class Setting:
    """What all families read, and the differences that all operations leave, by place."""

    parameters: Mapping[str, np.ndarray]
    heads: int
    eps: float
    absorbed: dict[str, float] = field(default_factory=dict)

    def leaf(self, name: str) -> np.ndarray:
        return self.parameters[f"leaves.{name}"]

    def weight(self, name: str) -> np.ndarray:
        return self.parameters[f"weights.{name}"]

    def handed(self, place: str, arrived: np.ndarray, *messages: np.ndarray) -> Any:
        """The messages, after what they miss of ``arrived`` was put down as absorbed."""
        missing = arrived.sum() - sum(message.sum() for message in messages)
        self.absorbed[place] = self.absorbed.get(place, 0.0) + missing
        return messages if len(messages) > 1 else messages[0]

    def linear(
        self, place: str, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | float, r: np.ndarray
    ) -> Any:
        return self.handed(place, r, rules.epsilon(x, weight, bias, r, eps=self.eps))

    def add(self, place: str, operands: tuple[np.ndarray, ...], r: np.ndarray) -> Any:
        return self.handed(place, r, *rules.add(operands, r, eps=self.eps))

    def bilinear(self, place: str, a: np.ndarray, v: np.ndarray, r: np.ndarray) -> Any:
        return self.handed(place, r, *rules.bilinear_epsilon(a, v, r, eps=self.eps))

    def scores(self, q: np.ndarray, k: np.ndarray, r: np.ndarray) -> Any:
        scale = 1 / np.sqrt(q.shape[-1])
        return self.handed("scores", r, *rules.scores_epsilon(q, k, r, eps=self.eps, scale=scale))


def scored(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    scores: np.ndarray = product("hjr,hir->hji", q, k) / np.sqrt(q.shape[-1])
    return scores


# --- position tables, spread over the pairs of tokens --------------------------------------------


def back(tokens: int) -> np.ndarray:
    """How far key i lies behind query j; negative ahead, where attention is masked.  (j, i)"""
    behind: np.ndarray = np.subtract.outer(np.arange(tokens), np.arange(tokens))
    return behind


def per_distance(tokens: int) -> np.ndarray:
    at: np.ndarray = back(tokens)[None] == np.arange(tokens)[:, None, None]
    return at.astype(float)


def decay(tokens: int) -> np.ndarray:
    return -back(tokens)[None].astype(float)


def waves(tokens: int) -> np.ndarray:
    turn = np.pi * back(tokens) / tokens
    return np.array([np.cos(turn), np.sin(turn), np.cos(2 * turn), np.sin(2 * turn)])


def spread(table: np.ndarray, features: np.ndarray) -> np.ndarray:
    return product("hm,mji->hji", table, features)


def gathered(s: Setting, table: np.ndarray, features: np.ndarray, r: np.ndarray) -> Any:
    """Relevance of the table by Eq. 1, from that of its map over all pairs of tokens."""
    flat = features.reshape(len(features), -1)
    return s.linear("table", table, flat, 0.0, r.reshape(len(table), -1))


# --- families: embeddings, logits, weights -------------------------------------------------------


def plain(s: Setting, x: np.ndarray) -> Step:
    """Embeddings or attention weights without a position of their own."""
    return x, lambda r: (r, {})


def summed_embedding(s: Setting, x: np.ndarray) -> Step:
    def down(r: np.ndarray) -> tuple[Any, ...]:
        of_x, of_table = s.add("embedding", (x, s.leaf("table")), r)
        return of_x, {"table": of_table}

    return x + s.leaf("table"), down


def plain_scores(s: Setting, q: np.ndarray, k: np.ndarray) -> Step:
    return scored(q, k), lambda r: (*s.scores(q, k, r), {})


def biased(
    features_of: Callable[[int], np.ndarray],
) -> Callable[[Setting, np.ndarray, np.ndarray], Step]:
    def logits(s: Setting, q: np.ndarray, k: np.ndarray) -> Step:
        table, features = s.leaf("table"), features_of(q.shape[1])
        z, bias = scored(q, k), spread(table, features)

        def down(r: np.ndarray) -> tuple[Any, ...]:
            of_z, of_bias = s.add("logits", (z, bias), r)
            return *s.scores(q, k, of_z), {"table": gathered(s, table, features, of_bias)}

        return z + bias, down

    return logits


def mapped(s: Setting, q: np.ndarray, k: np.ndarray) -> Step:
    """S + f(S, B): channels of f are the heads' scores, then the heads' biases, of one pair."""
    table, features = s.leaf("table"), per_distance(q.shape[1])
    scores = scored(q, k)
    both = np.concatenate([scores, spread(table, features)]).transpose(1, 2, 0)
    inner, bias, outer = (s.weight(name) for name in ("inner", "inner_bias", "outer"))
    relu = (both @ inner + bias).clip(min=0)
    f = (relu @ outer).transpose(2, 0, 1)

    def down(r: np.ndarray) -> tuple[Any, ...]:
        of_scores, of_f = s.add("logits", (scores, f), r)
        of_relu = s.linear("outer", relu, outer, 0.0, of_f.transpose(1, 2, 0))
        of_both = s.linear("inner", both, inner, bias, rules.identity(of_relu))
        through_f, of_bias = np.split(of_both.transpose(2, 0, 1), 2)
        of_table = gathered(s, table, features, of_bias)
        return *s.scores(q, k, of_scores + through_f), {"table": of_table}

    return scores + f, down


def quarter_turn(x: np.ndarray) -> np.ndarray:
    """(x1, x2) -> (-x2, x1), the halves of the channels."""
    half = x.shape[-1] // 2
    return np.concatenate([-x[..., half:], x[..., :half]], axis=-1)


def turned_back(r: np.ndarray) -> np.ndarray:
    """Relevance to where quarter_turn took its values from: a move of entries, signs included."""
    return np.roll(r, r.shape[-1] // 2, axis=-1)


def turned(s: Setting, x: np.ndarray, cos: np.ndarray, sin: np.ndarray, place: str) -> Step:
    def down(r: np.ndarray) -> tuple[Any, ...]:
        first, second = s.add(place, (x * cos, quarter_turn(x) * sin), r)
        of_x, of_cos = rules.equal_split((x, cos), first)
        of_turned, of_sin = rules.equal_split((quarter_turn(x), sin), second)
        return of_x + turned_back(of_turned), of_cos, of_sin

    return x * cos + quarter_turn(x) * sin, down


def rotated(s: Setting, q: np.ndarray, k: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> Step:
    new_q, q_down = turned(s, q, cos, sin, "rotated query")
    new_k, k_down = turned(s, k, cos, sin, "rotated key")

    def down(r: np.ndarray) -> tuple[Any, ...]:
        r_q, r_k = s.scores(new_q, new_k, r)
        (of_q, cos_q, sin_q), (of_k, cos_k, sin_k) = q_down(r_q), k_down(r_k)
        return of_q, of_k, {"cos": cos_q + cos_k, "sin": sin_q + sin_k}

    return scored(new_q, new_k), down


def angles_by_place(s: Setting, q: np.ndarray, k: np.ndarray) -> Step:
    cos, sin = s.leaf("cos"), s.leaf("sin")
    z, down = rotated(s, q, k, cos, sin)

    def onto_leaves(r: np.ndarray) -> tuple[Any, ...]:
        of_q, of_k, of_leaves = down(r)
        return of_q, of_k, {name: part.sum(0, keepdims=True) for name, part in of_leaves.items()}

    return z, onto_leaves


def angles_by_content(s: Setting, q: np.ndarray, k: np.ndarray, x: np.ndarray) -> Step:
    """The angle of a token is the sum of its own step and those of the tokens before it."""
    step = 1 / (1 + np.exp(-product("tc,ch->ht", x, s.weight("step"))))
    size = q.shape[-1]
    frequency = 10000.0 ** (-np.arange(0, size, 2) / size)
    angle = np.cumsum(step, axis=1)[:, :, None] * np.concatenate([frequency, frequency])
    return rotated(s, q, k, np.cos(angle), np.sin(angle))


def chained(s: Setting, q: np.ndarray, k: np.ndarray, x: np.ndarray) -> Step:
    """score(j, i) = q_j (1 - P_j) ... (1 - P_(i+1)) k_i / sqrt(size), pair by pair."""
    axis = product("tc,chr->htr", x, s.weight("axis"))
    axis = axis / np.sqrt((axis**2).sum(axis=-1, keepdims=True))
    strength = 2 / (1 + np.exp(-product("tc,ch->ht", x, s.weight("strength"))))
    step = product("ht,htr,hts->htrs", strength, axis, axis)
    tokens = q.shape[1]
    chains = []  # of every key i: itself, then after the steps of the tokens i+1, i+2, ...
    for i in range(tokens):
        chains.append([k[:, i]])
        for j in range(i + 1, tokens):
            key = chains[i][-1]
            chains[i].append(key - product("hrs,hs->hr", step[:, j], key))
    z = np.zeros((len(q), tokens, tokens))
    for i, chain in enumerate(chains):
        for j, key in enumerate(chain, start=i):
            z[:, j, i] = product("hr,hr->h", q[:, j], key) / np.sqrt(q.shape[-1])

    def down(r: np.ndarray) -> tuple[Any, ...]:
        of_q, of_k, of_step = np.zeros_like(q), np.zeros_like(k), np.zeros_like(step)
        for i in range(tokens):
            arrived = np.zeros_like(k[:, i])  # at key i after the steps up to token j
            for j in reversed(range(i, tokens)):
                r_q, r_key = s.scores(q[:, [j]], chains[i][j - i][:, None], r[:, [j]][..., [i]])
                of_q[:, j] += r_q[:, 0]
                arrived += r_key[:, 0]
                if j == i:
                    continue
                before = chains[i][j - 1 - i]
                away = -product("hrs,hs->hr", step[:, j], before)
                r_before, r_away = s.add("moved key", (before, away), arrived)
                of_one, through = s.bilinear(
                    "step", step[:, j], before[..., None], r_away[..., None]
                )
                of_step[:, j] += of_one
                arrived = r_before + through[..., 0]
            of_k[:, i] = arrived
        of_strength, left, right = rules.equal_split((strength, axis, axis), of_step)
        of_axis = left.sum(axis=-1) + right.sum(axis=-2)
        return of_q, of_k, {"axis": of_axis, "strength": of_strength.sum(axis=(-1, -2))}

    return z, down


def multiplied_weights(s: Setting, a: np.ndarray) -> Step:
    table, features = s.leaf("table"), per_distance(a.shape[-1])
    t = spread(table, features)

    def down(r: np.ndarray) -> tuple[Any, ...]:
        of_a, of_t = rules.equal_split((a, t), r)
        return of_a, {"table": gathered(s, table, features, of_t)}

    return a * t, down


PLAIN: dict[str, Callable[..., Step]] = {"embed": plain, "score": plain_scores, "weigh": plain}
FAMILIES = {
    "sinusoidal": PLAIN | {"embed": summed_embedding},
    "relative bias": PLAIN | {"score": biased(per_distance)},
    "linear bias": PLAIN | {"score": biased(decay)},
    "fourier bias": PLAIN | {"score": biased(waves)},
    "toeplitz": PLAIN | {"weigh": multiplied_weights},
    "logit map": PLAIN | {"score": mapped},
    "householder": PLAIN | {"score": chained},
    "rotary": PLAIN | {"score": angles_by_place},
    "contextual rotary": PLAIN | {"score": angles_by_content},
}
"""By name: how position enters embeddings, scores and attention weights."""

BY_CONTENT = {"householder", "contextual rotary"}
"""Families whose position leaves the tokens give; relevance stops at the leaves."""
