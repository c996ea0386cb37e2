"""Leave-One-Out within a budget of forward passes: groups of tokens first, then their tokens."""

import reprlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Groups = int | Tensor
"""Neighbouring tokens in each group, or the number of every token's group, (batch, token)."""
Round = tuple[Tensor, Tensor, Tensor]
"""Parts that are left out together: (part,) examples, (part, token), and (part, target) losses."""


def by_groups(
    without: Callable[[Tensor, Tensor], Tensor],
    present: Tensor,
    *,
    budget: int,
    groups: Groups | Sequence[Groups] | None = None,
    needed: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns each token's loss, (target, batch, token), in ``budget`` passes per text.

    without: (copy,) examples and (copy, token) to leave out -> (copy, target), the loss
    present: (batch, token)
    groups: neighbouring tokens each, or their numbers (batch, token), or a list, coarse to fine
    needed: (batch, token), never left out all at once, by default all that is present
    A text of no more tokens than the budget loses each token in turn.  Any other text loses each
    group as a whole, and then single tokens until the budget is spent: groups with the largest loss
    in size come first, and their tokens come in order.  Of several targets, the loss of each is
    divided by its largest one of the first round.  In a list, the next level that divides a
    group opens it, and its parts are groups like all others.  A text that is one group of the first
    level, such as one document, begins at the next.  A token that is not left out by itself gets an
    equal share of the loss of its smallest group that was left out.
    Without ``groups`` a text of n tokens has about sqrt(n) groups, or half of the budget if that
    is less (``_groups``), and one more if one group would hold all that is ``needed``.  With one
    level of equal groups a larger budget leaves out all tokens of a smaller one and more, so that
    the error of no token grows.
    Returns with it ``details``: "by_token" (batch, token), 1 where the token was left out by itself
    and 0 where only its group was, and "passes" (batch,).
    Raises ValueError for groups that do not fit, and for a budget that does not hold them.
    """
    if type(budget) is not int or budget < 1:
        raise ValueError(f"budget={budget!r}: pass a whole number of forward passes, at least 1")
    budget = min(budget, present.shape[1])  # one pass per token is enough
    needed = present if needed is None else needed
    levels = _levels(groups, present, budget)
    if groups is None:
        levels[0] = _split_needed(levels[0], needed)
    coarse = levels[0]
    for level in levels[1:]:
        coarse = torch.where(_is_one(coarse, needed), level, coarse)
    _check(coarse, present, needed, budget)
    alone = torch.arange(present.shape[1], device=present.device).expand_as(present)
    few = present.sum(dim=1, keepdim=True) <= budget
    example, part = _parts(torch.where(few, alone, coarse), present)
    rounds: list[Round] = []
    scale: Tensor | None = None
    closed: list[tuple[float, int, Tensor]] = []
    passes = example.new_zeros(len(present))
    while not rounds or len(example):  # a text of no tokens has one round of no parts
        lost = without(example, part)
        rounds.append((example, part, lost))
        if scale is None:
            scale = _largest(lost, example, len(present))
        passes += example.bincount(minlength=len(present))
        size = (lost.abs() / scale[example]).amax(dim=1)
        sizes = zip(size.tolist(), example.tolist(), part, strict=True)
        closed += [x for x in sizes if x[2].sum() > 1]
        example, part = _open(closed, [*levels, alone], (budget - passes).tolist())
    relevance, by_token = _share_out(rounds, present)
    return relevance, {"by_token": by_token, "passes": passes}


def _largest(lost: Tensor, example: Tensor, texts: int) -> Tensor:
    """Returns the largest loss by size of every text and target, (text, target), or 1 for 0."""
    found = lost.new_zeros(texts, lost.shape[1])
    found.scatter_reduce_(0, example[:, None].expand_as(lost), lost.abs(), "amax")
    return found.where(found > 0, 1)


def _open(
    closed: list[tuple[float, int, Tensor]], levels: Sequence[Tensor], left: list[int]
) -> tuple[Tensor, Tensor]:
    """Takes the largest parts out of ``closed``: their own parts come next, as passes are left.

    closed: size of the loss, example and (token,) of every part of several tokens
    Returns (part,) examples and (part, token).  A text's round ends behind parts that can be opened
    too, because one of these may be larger than the next part.
    """
    examples, parts, rest = [], [], []
    for each in sorted(closed, key=lambda x: -x[0]):
        _, row, tokens = each
        if not left[row]:
            rest.append(each)
            continue
        own = next(x for n in levels if len(x := _parts_of(n[row], tokens)) > 1)[: left[row]]
        left[row] = 0 if (own.sum(dim=1) > 1).any() else left[row] - len(own)
        examples += [row] * len(own)
        parts.append(own)
    closed[:] = rest
    where = torch.tensor(examples, dtype=torch.long, device=levels[0].device)
    return where, torch.cat(parts) if parts else levels[0].new_zeros(0)


def _share_out(rounds: Sequence[Round], present: Tensor) -> tuple[Tensor, Tensor]:
    """Shares each part's loss equally among its tokens, which later rounds overwrite."""
    lost = rounds[0][2]
    relevance = lost.new_zeros(lost.shape[1], *present.shape)
    by_token = lost.new_zeros(present.shape)
    for example, part, lost in rounds:
        count = part.sum(dim=1)
        of_part, token = part.nonzero(as_tuple=True)
        row = example[of_part]
        relevance[:, row, token] = (lost / count[:, None])[of_part].mT
        by_token[row, token] = (count[of_part] == 1).to(by_token.dtype)
    return relevance, by_token


def _levels(groups: Groups | Sequence[Groups] | None, present: Tensor, budget: int) -> list[Tensor]:
    """Returns the numbers of every token's groups, coarse to fine."""
    if groups is None:
        return [_groups(present, budget)]
    several = groups if isinstance(groups, list | tuple) and groups else [groups]
    return [_numbers(each, present) for each in several]


def _numbers(groups: object, present: Tensor) -> Tensor:
    """Returns the number of every token's group."""
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
    return 2 * numbers + 1 - (first & _is_one(numbers, needed)).long()


def _is_one(numbers: Tensor, needed: Tensor) -> Tensor:
    """Decides whether all needed tokens, two or more, are in one group: (batch, 1)."""
    inside = numbers.gather(1, needed.to(torch.uint8).argmax(dim=1, keepdim=True))
    whole = ((numbers == inside) | ~needed).all(dim=1, keepdim=True)
    return whole & (needed.sum(dim=1, keepdim=True) > 1)


def _check(numbers: Tensor, present: Tensor, needed: Tensor, budget: int) -> None:
    lengths, whole = present.sum(dim=1), _is_one(numbers, needed)
    for row in (lengths > budget).nonzero()[:, 0].tolist():
        count = len(numbers[row][present[row]].unique())
        if count > budget:
            raise ValueError(
                f"budget={budget}: example {row} has {count} groups, each of which takes a pass; "
                "pass a larger budget, or larger groups"
            )
        columns = needed[row].nonzero()[:, 0].tolist()
        if whole[row]:
            raise ValueError(
                f"groups: all {len(columns)} tokens of example {row} in columns {columns[0]} to "
                f"{columns[-1]} are one group, without which there is nothing left to attend to; "
                "pass smaller groups"
            )


def _parts(numbers: Tensor, among: Tensor) -> tuple[Tensor, Tensor]:
    """Returns groups of tokens ``among`` as (part,) examples and (part, token)."""
    parts = [_parts_of(*both) for both in zip(numbers, among, strict=True)]
    count = torch.tensor([len(x) for x in parts], device=among.device)
    rows = torch.arange(len(parts), device=among.device)
    return rows.repeat_interleave(count), torch.cat(parts)


def _parts_of(numbers: Tensor, among: Tensor) -> Tensor:
    """Returns groups of a text's tokens ``among``: (part, token)."""
    found: Tensor = numbers[among].unique()
    return (numbers == found[:, None]) & among
