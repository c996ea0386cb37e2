"""Leave-One-Out within a budget of forward passes: groups of tokens first, then their tokens."""

import reprlib
from collections.abc import Callable

import torch
from torch import Tensor


def by_groups(
    without: Callable[[Tensor, Tensor], Tensor],
    present: Tensor,
    *,
    budget: int,
    groups: int | Tensor | None = None,
    needed: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns each token's loss, (target, batch, token), in ``budget`` passes per text.

    without: (copy,) examples and (copy, token) to leave out -> (copy, target), the loss
    present: (batch, token)   groups: neighbouring tokens each, or their numbers (batch, token)
    needed: (batch, token), never left out all at once, by default all that is present
    A text of no more tokens than the budget loses each of them in turn.  Any other text loses each
    group as a whole, and then the tokens of the groups one by one, the groups whose loss is the
    largest in size first and their tokens in order, until the budget is spent.  A token that is not
    left out by itself gets an equal share of its group's loss.  Without ``groups`` a text of n
    tokens has about sqrt(n) of them, or half of the budget if that is less (``_groups``), and one
    more where one would hold all that is ``needed``.  With equal groups a larger budget leaves out
    all tokens of a smaller one and more, so that the error of no token grows.
    Returns with it ``details``: "by_token" (batch, token), 1 where the token was left out by itself
    and 0 where only its group was, and "passes" (batch,).
    Raises ValueError for groups that do not fit, and for a budget that does not hold them.
    """
    if type(budget) is not int or budget < 1:
        raise ValueError(f"budget={budget!r}: pass a whole number of forward passes, at least 1")
    budget = min(budget, present.shape[1])  # one pass per token is enough
    needed = present if needed is None else needed
    numbers = _numbers(groups, present, budget)
    if groups is None:
        numbers = _split_needed(numbers, needed)
    _check(numbers, present, needed, budget)
    few = present.sum(dim=1, keepdim=True) <= budget
    alone = torch.arange(present.shape[1], device=present.device).expand_as(numbers)
    example, part = _parts(torch.where(few, alone, numbers), present)
    lost = without(example, part)
    passes = example.bincount(minlength=len(present))
    inside = _choose(present, example, part, lost.abs().amax(dim=1), budget - passes)
    relevance = _spread(present, example, part, lost)
    single = (part.sum(dim=1) == 1).nonzero()[:, 0]
    by_token = inside.clone()
    by_token[example[single], part[single].int().argmax(dim=1)] = True
    if inside.any():
        example, part = _parts(alone, inside)
        relevance = torch.where(
            inside, _spread(present, example, part, without(example, part)), relevance
        )
        passes += example.bincount(minlength=len(present))
    return relevance, {"by_token": by_token.to(relevance.dtype), "passes": passes}


def _numbers(groups: int | Tensor | None, present: Tensor, budget: int) -> Tensor:
    """Returns the number of every token's group."""
    if groups is None:
        return _groups(present, budget)
    if isinstance(groups, Tensor):
        fits = groups.shape == present.shape and not groups.is_floating_point()
        if not fits:
            raise ValueError(
                f"groups has shape {tuple(groups.shape)} and dtype {groups.dtype}; pass whole "
                f"numbers (batch, token), here {tuple(present.shape)}"
            )
        return groups.to(present.device)
    if type(groups) is not int or groups < 1:
        raise ValueError(
            f"groups={reprlib.repr(groups)}: pass tokens per group, at least 1, or a tensor of the "
            f"group of every token, here {tuple(present.shape)}"
        )
    return (present.cumsum(dim=1) - 1) // groups


def _groups(present: Tensor, budget: int) -> Tensor:
    """Returns the number of every token's group: groups of neighbours, all about as large.

    To leave out n / s groups of s tokens, and then each token of one of them, takes n / s + s
    passes, which is least for s = sqrt(n).  A smaller budget leaves budget - m passes after m
    groups, and they open (budget - m) m / n groups, which is most where m is half of the budget.
    """
    tokens = present.sum(dim=1, keepdim=True)
    count = tokens.sqrt().round().long().clamp(max=budget // 2).clamp(min=2)
    return (present.cumsum(dim=1) - 1) * count // tokens.clamp(min=1)


def _split_needed(numbers: Tensor, needed: Tensor) -> Tensor:
    """Splits a group that holds all needed tokens: the first half of these gets its own number."""
    count = needed.sum(dim=1, keepdim=True)
    first = needed & (needed.cumsum(dim=1) <= count // 2)
    inside = numbers.gather(1, needed.to(torch.uint8).argmax(dim=1, keepdim=True))
    whole = ((numbers == inside) | ~needed).all(dim=1, keepdim=True)
    return 2 * numbers + 1 - (first & whole).long()


def _check(numbers: Tensor, present: Tensor, needed: Tensor, budget: int) -> None:
    lengths = present.sum(dim=1)
    for row in (lengths > budget).nonzero()[:, 0].tolist():
        count = len(numbers[row][present[row]].unique())
        if count > budget:
            raise ValueError(
                f"budget={budget}: example {row} has {count} groups, each of which takes a pass; "
                "pass a larger budget, or larger groups"
            )
        columns = needed[row].nonzero()[:, 0].tolist()
        if len(columns) > 1 and len(numbers[row][needed[row]].unique()) == 1:
            raise ValueError(
                f"groups: all {len(columns)} tokens of example {row} in columns {columns[0]} to "
                f"{columns[-1]} are one group, without which there is nothing left to attend to; "
                "pass smaller groups"
            )


def _parts(numbers: Tensor, among: Tensor) -> tuple[Tensor, Tensor]:
    """Returns groups of tokens ``among`` as (part,) examples and (part, token)."""
    examples, parts = [], []
    for row, (own, here) in enumerate(zip(numbers, among, strict=True)):
        found = own[here].unique()
        parts.append((own == found[:, None]) & here)
        examples.append(torch.full_like(found, row))
    return torch.cat(examples), torch.cat(parts)


def _choose(present: Tensor, example: Tensor, part: Tensor, size: Tensor, left: Tensor) -> Tensor:
    """Marks tokens of the largest groups, in their order, as far as passes are left."""
    passes, inside = left.tolist(), torch.zeros_like(present)
    several = (part.sum(dim=1) > 1).tolist()
    for n in size.argsort(descending=True, stable=True).tolist():
        row = int(example[n])
        if several[n] and passes[row]:
            tokens = part[n].nonzero()[: passes[row], 0]
            inside[row, tokens] = True
            passes[row] -= len(tokens)
    return inside


def _spread(present: Tensor, example: Tensor, part: Tensor, lost: Tensor) -> Tensor:
    """Shares each part's loss equally among its tokens: (target, batch, token)."""
    shares = lost / part.sum(dim=1, keepdim=True)
    of_parts = shares.mT[:, :, None] * part
    return lost.new_zeros(lost.shape[1], *present.shape).index_add_(1, example, of_parts)
