"""Runs torch functions on NumPy arrays in float64, even where a model narrows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from lrp_axioms.numeric.engine.calls import call_of
from lrp_axioms.numeric.engine.operations import CAST


class _Wide(TorchFunctionMode):
    """Computes in float64 on the CPU: widens operands, and narrows nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if call_of(func).role == CAST and args[0].is_floating_point() and _narrows(args, kwargs):
            return args[0].double()
        if getattr(kwargs.get("dtype"), "is_floating_point", False):
            kwargs = kwargs | {"dtype": torch.float64}
        args, kwargs = tree_map_only(Tensor, _widen, (args, kwargs))
        if func.__name__ in GROUPED:
            return _by_group(*args, **kwargs)
        return func(*args, **kwargs)


GROUPED = ("grouped_mm", "_grouped_mm")


def _by_group(rows: Tensor, weights: Tensor, offs: Tensor, **options: object) -> Tensor:
    """Multiplies each expert's rows by its weights; torch's own function has no float64."""
    ends = offs.tolist()
    spans = zip([0, *ends], ends, strict=False)
    parts = [rows[a:b] @ w for (a, b), w in zip(spans, weights, strict=True)]
    return torch.cat([*parts, rows[ends[-1] :] @ weights[-1] * 0])  # rows of no expert


def _narrows(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    dtypes = [getattr(x, "dtype", x) for x in (*args[1:], *kwargs.values())]
    return not any(isinstance(x, torch.dtype) and not x.is_floating_point for x in dtypes)


def _widen(x: Tensor) -> Tensor:
    wide = torch.complex128 if x.is_complex() else torch.float64
    return x.to("cpu", wide if x.is_complex() or x.is_floating_point() else x.dtype)


@dataclass(frozen=True, eq=False)
class Map:
    """A function of tensors and its transposed Jacobian, on arrays in float64."""

    function: Callable[..., Tensor]

    def __call__(self, *xs: np.ndarray) -> np.ndarray:
        with torch.no_grad(), _Wide():
            return self.function(*map(_tensor, xs)).cpu().numpy()

    def back(self, xs: Sequence[np.ndarray], cotangent: np.ndarray) -> list[np.ndarray]:
        """Returns the cotangent of each of ``xs``, each in its own shape."""
        tensors = [_tensor(x).requires_grad_() for x in xs]
        with torch.enable_grad(), _Wide():
            z = self.function(*tensors)
        if not z.requires_grad:  # no entry of ``xs`` is kept
            return [np.zeros(x.shape) for x in xs]
        found = torch.autograd.grad(z, tensors, _tensor(cotangent), allow_unused=True)
        pairs = zip(tensors, found, strict=True)
        return [(torch.zeros_like(x.detach()) if g is None else g).numpy() for x, g in pairs]


def _tensor(x: np.ndarray) -> Tensor:
    return torch.from_numpy(np.array(x, dtype=np.float64, order="C"))
