"""Weights of layers that some texts teach: no weight is below 0, and no label is used."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor


def learnt(texts: Sequence[Mapping[str, Tensor]]) -> Tensor:
    """(layer,), in float64: how much of "layers", (layer, token), comes closest to "loo", (token,).

    By least squares over the tokens of all texts, after each map lost its mean over the tokens of
    its text.  Every text counts as much as any other, as it does in a mean r.
    """
    parts = []
    for x in texts:
        both = torch.cat([x["layers"], x["loo"][None]]).double()
        both = both - both.mean(dim=1, keepdim=True)
        parts.append(both / both[-1].norm())
    *layers, loo = torch.cat(parts, dim=1).numpy()
    return torch.tensor(nnls(np.stack(layers, axis=1), loo)[0])


def weighted(x: Mapping[str, Tensor], weights: Tensor) -> Tensor:
    """The relevance, (token,), that the layers add up to."""
    return (weights @ x["layers"].double()).to(x["layers"].dtype)
