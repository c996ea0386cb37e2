"""Leave-One-Out within a budget of forward passes: groups of tokens first, then their tokens."""

from collections.abc import Callable

import torch
from torch import Tensor

GROUP = 16  # neighbouring tokens, where nobody says which belong together


def by_groups(
    without: Callable[[Tensor, Tensor], Tensor],
    present: Tensor,
    *,
    budget: int,
    groups: int | Tensor = GROUP,
) -> tuple[Tensor, dict[str, Tensor]]:
    """What is lost without each token, (target, batch, token), in ``budget`` passes per text.

    without: (copy,) examples and (copy, token) of what is left out -> (copy, target), what is lost
    present: (batch, token)   groups: neighbouring tokens each, or their numbers (batch, token)
    A text of no more tokens than the budget gets them all.  Of any other each group is left out
    as a whole, and then, as far as the budget reaches, every token of the groups whose loss is the
    largest in size.  Tokens of the other groups share that of their group equally.
    Returns with it ``details``: "by_token" (batch, token), 1 where the token was left out by itself
    and 0 where its group was, and "passes" (batch,).
    Raises ValueError for groups that do not fit, and for a budget that does not hold them.
    """
    numbers = _numbers(groups, present)
    _check(numbers, present, budget)
    few = present.sum(dim=1, keepdim=True) <= budget
    alone = torch.arange(present.shape[1], device=present.device).expand_as(numbers)
    example, part = _parts(torch.where(few, alone, numbers), present)
    lost = without(example, part)
    passes = example.bincount(minlength=len(present))
    chosen = _chosen(example, part, lost.abs().amax(dim=1), budget - passes)
    relevance = _spread(present, example, part, lost)
    by_token = present & few
    if chosen:
        inside = torch.zeros_like(present)
        for n in chosen:
            inside[example[n]] |= part[n]
        example, part = _parts(alone, inside)
        relevance = torch.where(
            inside, _spread(present, example, part, without(example, part)), relevance
        )
        by_token |= inside
        passes += example.bincount(minlength=len(present))
    return relevance, {"by_token": by_token.to(relevance.dtype), "passes": passes}


def _numbers(groups, present):
    """The number of the group of every token."""
    if isinstance(groups, Tensor):
        fits = groups.shape == present.shape and not groups.is_floating_point()
        if not fits:
            raise ValueError(
                f"groups has shape {tuple(groups.shape)} and dtype {groups.dtype}; pass whole "
                f"numbers (batch, token), here {tuple(present.shape)}"
            )
        return groups.to(present.device)
    if type(groups) is not int or groups < 1:
        raise ValueError(f"groups={groups!r}: pass tokens per group, at least 1, or (batch, token)")
    return (present.cumsum(dim=1) - 1) // groups


def _check(numbers, present, budget):
    if type(budget) is not int or budget < 1:
        raise ValueError(f"budget={budget!r}: pass a whole number of forward passes, at least 1")
    lengths = present.sum(dim=1)
    for row in (lengths > budget).nonzero()[:, 0].tolist():
        count, tokens = len(numbers[row][present[row]].unique()), int(lengths[row])
        if count > budget:
            raise ValueError(
                f"budget={budget}: example {row} has {count} groups, each of which takes a pass; "
                "pass a larger budget, or larger groups"
            )
        if count == 1:
            raise ValueError(
                f"groups: all {tokens} tokens of example {row} are one group, without which "
                "there is nothing left to attend to; pass smaller groups"
            )


def _parts(numbers, among):
    """Groups of tokens ``among`` as (part,) examples and (part, token)."""
    examples, parts = [], []
    for row, (own, here) in enumerate(zip(numbers, among, strict=True)):
        found = own[here].unique()
        parts.append((own == found[:, None]) & here)
        examples.append(torch.full_like(found, row))
    return torch.cat(examples), torch.cat(parts)


def _chosen(example, part, size, left):
    """The groups whose tokens are left out one by one, the largest first, while passes are left."""
    left, sizes, found = left.tolist(), part.sum(dim=1).tolist(), []
    for n in size.argsort(descending=True, stable=True).tolist():
        row = int(example[n])
        if 1 < sizes[n] <= left[row]:
            left[row] -= sizes[n]
            found.append(n)
    return found


def _spread(present, example, part, lost):
    """What each part loses, in equal shares at its tokens: (target, batch, token)."""
    relevance = lost.new_zeros(lost.shape[1], *present.shape)
    shares = lost / part.sum(dim=1, keepdim=True)
    for own, share in zip(relevance, shares.mT, strict=True):
        own.index_add_(0, example, share[:, None] * part)
    return relevance
