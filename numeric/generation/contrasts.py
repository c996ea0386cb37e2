"""Contrasts two answers to a prompt: why a model wrote this one rather than that one."""

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import Any

import torch

from lrp_axioms.numeric.results.result import Attribution
from lrp_axioms.numeric.targets import Target, log_probability, logit

GOES_ON = "…"  # the text of an answer that ends where the other one goes on
Explain = Callable[[Sequence[int], list[Target]], list[Attribution]]
"""Explains targets of the prompt and an answer without its last token."""


def parted(written: Sequence[int], other: Sequence[int], ends: Set[Any]) -> tuple[list[int], int]:
    """Returns a contrast from its first token that was not written, and how many come before it.

    A token in ``ends`` that ends the answer ends the contrast, too.
    Raises ValueError where one answer is the other one or its beginning.
    """
    if written[-1] in ends and other[-1] not in ends:
        other = [*other, written[-1]]
    for n, (x, y) in enumerate(zip(written, other, strict=False)):
        if x != y:
            return list(other[n:]), n
    raise ValueError(
        f"contrast has the ids {list(other)}, and the answer {list(written)}: one begins with the "
        "whole other one; pass a contrast that has another token in the place of a written one"
    )


def contrast_answers(
    explain: Explain,
    written: Sequence[int],
    other: Sequence[int],
    *,
    at: int,
    column: int,
    apart: bool = False,
) -> list[Attribution]:
    """Returns a row, or two, of relevance (1, token) that explain log P(written) - log P(other).

    Both answers begin behind row ``at`` of logits, and behind ``column``, with different tokens.
    The first row explains the difference of their logits: it is the difference of their
    log-probabilities, because both have one normaliser.  Where an answer goes on, the second row
    explains the difference of the log-probabilities of the rest.  The columns from ``column``
    on are places in both answers: their first token, and all that follows.  ``apart``: the first
    row is explained without later tokens.
    """
    differ = logit(written[0], at=at) - logit(other[0], at=at)
    own, less = _sum_rest(written, at), _sum_rest(other, at)
    if apart:
        first, more = explain(written[:1], [differ])[0], explain(written, own) if own else []
    else:
        first, *more = explain(written, [differ, *own])
    rest = [(1, x) for x in more] + [(-1, x) for x in (explain(other, less) if less else [])]
    # Later tokens have no relevance but rounding of the copies without them.
    first = replace(first, relevance=first.relevance[:, :column])
    return [_add([(1, first)], column, rest), *([_add(rest, column, rest)] if rest else [])]


def _add(parts: Sequence[tuple[int, Attribution]], column: int, rest: Sequence[Any]) -> Attribution:
    """Adds up parts by their signs, with the columns behind ``column`` in one, if there are any."""
    _, one = parts[0]
    found = one.relevance.new_zeros(1, column + 1 + bool(rest))
    for sign, x in parts:
        columns = torch.arange(x.relevance.shape[1], device=found.device).clamp(max=column + 1)
        found.index_add_(1, columns, sign * x.relevance)
    logit, residual = (sum(s * getattr(x, n) for s, x in parts) for n in ("logit", "residual"))
    return replace(one, relevance=found, logit=logit, residual=residual)


def _sum_rest(ids: Sequence[int], at: int) -> list[Target]:
    """Sums the log-probabilities of an answer behind its first token, if there are any."""
    rest = [log_probability(x, at=at + n) for n, x in enumerate(ids) if n]
    return [sum(rest[1:], start=rest[0])] if rest else []
