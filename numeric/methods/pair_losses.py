"""Interactions of pairs of parts of a text, and the groups of parts that act together."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.methods import memory_budget
from lrp_axioms.numeric.methods.mask_relevance import mask_relevance
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.targets.readout import Readout

PLANNED = 4096  # copies at once: each has a row of masks, of ids and of positions
BACKWARD = 32  # copies at once that keep a graph
SETS = 64  # random sets of parts that are left out, to see how much each account explains


@dataclass(frozen=True)
class Parts:
    """The parts of one text that are left out: tokens, words or sentences.

    masks: (part, token) bool   needed: (token,) bool, the tokens that the read rows see
    without: (copy,) examples and (copy, token) to leave out -> (copy, target), the loss in logits
    blind: the same -> (copy,), whether a read row then sees nothing in a window
    """

    masks: Tensor
    needed: Tensor
    without: Callable[[Tensor, Tensor], Tensor]
    blind: Callable[[Tensor, Tensor], Tensor]

    def lost(self, sets: Tensor) -> Tensor:
        """Returns the logits that ``sets`` of parts, (set, part) bool, take away, if finite."""
        found = []
        for some in sets.split(PLANNED):
            found.append(self.without(*self._copies(some))[:, 0])
        if not (lost := torch.cat(found)).isfinite().all():
            raise ValueError(
                "without some parts the model has no finite logits; check the weights, or load the "
                "model in float32"
            )
        return lost

    def hide_all(self, sets: Tensor) -> Tensor:
        """Marks the sets, (set,), without which a read row has nothing left to attend to."""
        example, hidden = self._copies(sets)
        return (hidden | ~self.needed).all(dim=1) | self.blind(example, hidden)

    def _copies(self, sets: Tensor) -> tuple[Tensor, Tensor]:
        hidden = (sets.to(torch.float32) @ self.masks.to(torch.float32)) > 0
        return torch.zeros(len(sets), dtype=torch.int64, device=sets.device), hidden


def exact(parts: Parts, alone: Tensor, pairs: Tensor) -> Tensor:
    """Returns I_ij = LOO_i + LOO_j - the loss of both, (pair,), in logits (theorem 81).

    alone: (part,) the losses LOO_i   pairs: (2, pair) numbers of parts
    """
    sets = torch.zeros(pairs.shape[1], len(alone), dtype=torch.bool, device=pairs.device)
    sets.scatter_(1, pairs.mT, value=True)
    return alone[pairs[0]] + alone[pairs[1]] - parts.lost(sets)


def estimated(
    model: PreTrainedModel, batch: Batch, readout: Readout, masks: Tensor, **limits: Any
) -> Tensor:
    """Estimates I_ij as R_j(x) - R_j(x without i), made symmetric: (part, part), in logits.

    R is mask relevance, so that each part takes one forward and one backward pass.  For one layer
    of attention with a linear readout the estimate is exact (theorem 79).  ``limits`` are the
    ``batch_size`` and ``memory`` of ``memory_budget.chunks``.
    """
    hidden = torch.cat([torch.zeros_like(masks[:1]), masks])
    kept = memory_budget.bytes_kept(model, lambda: _relevance(model, batch, readout, hidden[:1]))
    length = torch.full((len(hidden),), hidden.shape[1], device=hidden.device)
    limits["batch_size"] = min(limits["batch_size"], BACKWARD)
    limits |= {"device": hidden.device, "on_cpu": memory_budget.ON_CPU_WITH_GRADIENTS}
    chunks = memory_budget.chunks(length, torch.full_like(length, kept), **limits)
    found = [_relevance(model, batch, readout, hidden[x]) for x in chunks]  # all as long: in order
    of_parts = torch.cat(found) @ masks.mT.to(found[0].dtype)
    change = of_parts[:1] - of_parts[1:]
    return ((change + change.mT) / 2).fill_diagonal_(0)


def _relevance(model: PreTrainedModel, batch: Batch, readout: Readout, hidden: Tensor) -> Tensor:
    """Returns mask relevance of copies of a text that do not see ``hidden``, (copy, token)."""
    example = torch.zeros(len(hidden), dtype=torch.int64, device=hidden.device)
    of_copies: dict[str, Any] = batch.copies(example)
    of_copies["attention_mask"] = of_copies["attention_mask"] * ~hidden
    (chosen,) = readout.targets
    readout = replace(readout, targets=[chosen.only(example)])
    (found,) = mask_relevance(model, replace(batch, **of_copies), readout)
    return found.relevance.detach() * ~hidden


def all_pairs(count: int, device: torch.device) -> Tensor:
    """Returns (2, pair) numbers of parts, the first below the second."""
    return torch.triu_indices(count, count, 1, device=device)


def largest(pairs: Tensor, count: int) -> Tensor:
    """Returns the ``count`` pairs, (2, pair), with the largest interactions by size."""
    places = all_pairs(len(pairs), pairs.device)
    size = pairs[places[0], places[1]].abs()
    return places[:, size.argsort(descending=True, stable=True)[:count]]


def merges(pairs: Tensor) -> Tensor:
    """Returns the tree of parts, (part - 1, 2): which two nodes each merge joins.

    Parts are the first nodes, and every merge adds one.  Each merge joins the two groups
    whose pairs have the largest mean interaction by size (average linkage).
    """
    size = pairs.abs().cpu().double()  # some devices have no float64
    distance = (size.max() - size).fill_diagonal_(0).numpy()
    tree = linkage(squareform(distance, checks=False), "average")
    return torch.from_numpy(tree[:, :2]).long().to(pairs.device)


def nodes(tree: Tensor) -> Tensor:
    """Returns the parts of every node of a tree: (2 part - 1, part) bool."""
    found = list(torch.eye(len(tree) + 1, dtype=torch.bool, device=tree.device))
    for a, b in tree.tolist():
        found.append(found[a] | found[b])
    return torch.stack(found)


def predicted(sets: Tensor, alone: Tensor, pairs: Tensor, members: Tensor, lost: Tensor) -> Tensor:
    """Predicts the losses of ``sets``, (set, part), by words, groups and pairs: (3, set).

    Words add up; pairs add LOO_i and subtract I_ij (theorem 81); groups add up the losses ``lost``
    of the largest nodes ``members`` of the tree that lie in the set.
    """
    x = sets.to(alone.dtype)
    words = x @ alone
    of_pairs = words - ((x @ pairs) * x).sum(dim=1) / 2
    groups, left = torch.zeros_like(words), sets.clone()
    for node in (-members.sum(dim=1)).argsort(stable=True).tolist():
        inside = ~(members[node] & ~left).any(dim=1) & lost[node].isfinite()
        groups[inside] += lost[node]
        left[inside] &= ~members[node]
    return torch.stack([words, groups, of_pairs])


def random_sets(parts: Parts, seed: int) -> Tensor:
    """Draws ``SETS`` random quarters of the parts, two or more: (set, part) bool.

    The draw depends on the seed and the number of parts alone.  Sets that hide all that a read row
    sees are left out.
    """
    count = len(parts.masks)
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(SETS, count, generator=generator, dtype=torch.float32, device="cpu")
    order = drawn.argsort(dim=1)
    sets = (order < max(2, round(count / 4))).to(parts.masks.device)
    return sets[~parts.hide_all(sets)]


def explained(truth: Tensor, guesses: Tensor, logit: Tensor) -> Tensor:
    """Returns the shares of the variance of ``truth``, (set,), that ``guesses`` explain.

    NaN where ``truth`` does not vary beyond the rounding of ``logit``.
    """
    far = (truth - truth.mean()).abs()
    varies = (far > 16 * torch.finfo(logit.dtype).eps * logit.abs()).any()
    share = 1 - (truth - guesses).square().sum(dim=1) / far.square().sum()
    return share.where(varies, torch.nan)
