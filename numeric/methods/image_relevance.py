"""Relevance of the images that come with a text, by position of their first maps."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lrp_axioms.numeric.engine.entry import Entry


def of_images(
    entries: Sequence[Entry],
    parts: Sequence[Tensor],
    cs: Sequence[Tensor],
    logit: Tensor,
) -> Tensor:
    """Reads relevance of pixels at their first maps, side by side: (batch, position), in logits.

    ``parts`` are the explained parts of the embeddings, ``cs`` the gradients of the sum of
    ``logit``, (batch,), there.  A position is one of the first map of pixels, or a token that the
    model puts before them, as in a classifier of images.
    Raises ValueError unless the positions are dealt out to the examples in order, as a second
    pass with another weight of each example shows.
    """
    count, ends = len(logit), [entry.embedding for entry in entries]
    found = by_patch(entries, [part * c for part, c in zip(parts, cs, strict=True)], count)
    if count > 1:
        weight = torch.linspace(1, 2, count, device="cpu").to(logit)
        other = torch.autograd.grad(
            (logit * weight).sum(), ends, materialize_grads=True, retain_graph=True
        )
        again = by_patch(entries, [part * c for part, c in zip(parts, other, strict=True)], count)
        unit = torch.finfo(logit.dtype).eps ** 0.5
        if (again - found * weight[:, None]).abs().max() > unit * found.abs().max():
            raise ValueError(
                "images of one example reach the logit of another, or examples have unlike numbers "
                "of patches: whose patch is whose is not known; pass one example at a time"
            )
    return found


def grid(entries: Sequence[Entry], examples: int) -> dict[str, Tensor]:
    """Returns rows and columns of the patches, if one convolution maps one image per example."""
    maps = [x.leaf for x in entries if x.ids is None and x.channels == 1]
    if len(maps) != 1 or len(maps[0]) != examples:
        return {}
    _, _, *sides = maps[0].shape
    places = torch.tensor(sides, device=maps[0].device)
    return {"grid": places} if len(sides) == len("yx") else {}


def by_patch(entries: Sequence[Entry], of_entries: Sequence[Tensor], examples: int) -> Tensor:
    """Arranges relevance of all maps of pixels, side by side: (example, position).

    Raises ValueError for positions that cannot be dealt out to the examples, or that the model
    does not read once each.
    """
    pixels = [(x, r) for x, r in zip(entries, of_entries, strict=True) if x.ids is None]
    if not pixels:
        raise ValueError("pixel_values reach no linear map: explain a model that maps its pixels")
    return torch.cat([_dealt_out(x, r, examples) for x, r in pixels], dim=1)


def _dealt_out(entry: Entry, r: Tensor, examples: int) -> Tensor:
    if entry.place is not None:
        found = entry.by_channel(entry.place)[..., 0]
        found = found[found > 0]
        size = entry.leaf.select(entry.channels, 0).numel()
        if not found.equal(torch.arange(1, size + 1).to(found)):
            raise ValueError(
                f"the model reads {len(found)} positions of the {size} in its map of pixels: which "
                "patch is which is not known; pass one image without padding, and a model that "
                "reads every position once"
            )
    r = entry.by_channel(r).sum(dim=-1)
    if r.numel() % examples:
        raise ValueError(
            f"{r.numel()} positions of images are not the same number for each of {examples} "
            "examples; pass one example at a time"
        )
    return r.reshape(examples, -1)
