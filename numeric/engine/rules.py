"""Propagation rules as modified gradients, so that one backward pass propagates relevance.

Every rule of the paper multiplies an input by a share of ``relevance / output``.  Carrying
``c = relevance / output`` backwards instead of the relevance itself, a rule is the plain
backward pass of its operation after ``c`` was scaled at the operation's output, and the
relevance of any tensor is ``tensor * c``.  The softmax rule (Eq. 5) is then the plain gradient.
"""

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def stabilize(z: Tensor, eps: float) -> Tensor:
    """Returns ``z + eps * sign(z)`` with sign(0) = +1."""
    return torch.where(z >= 0, z + eps, z - eps)


def check_stabiliser(eps: Any, dtype: torch.dtype = torch.float64) -> None:
    """Raises ValueError unless ``eps`` is 0 or well above subnormal numbers."""
    real = isinstance(eps, Real) and not isinstance(eps, bool)
    if not real or not 0 <= eps < (2**63 if isinstance(eps, int) else float("inf")):
        raise ValueError(
            f"eps={eps!r} ({type(eps).__name__}): the stabiliser must be finite and >= 0; "
            "pass eps=0 for the limit"
        )
    if eps == 0:
        return
    number = torch.finfo(torch.promote_types(dtype, torch.float32))  # as in ``wide``
    if eps < (least := number.tiny / number.eps):
        raise ValueError(
            f"eps={eps!r}: in {number.dtype} the stabiliser must be 0 or at least {least:.0e}, "
            "because processors may take numbers near it for 0; pass eps=0 for the limit, or more"
        )


class _Scale(torch.autograd.Function):
    apply: Callable[..., tuple[Tensor, ...]]

    @staticmethod
    def forward(ctx: Any, factors: Sequence[float | Tensor], *xs: Tensor) -> tuple[Tensor, ...]:
        ctx.factors = factors
        return tuple(x.detach() for x in xs)  # no views: code may write in them

    @staticmethod
    def backward(ctx: Any, *cs: Tensor) -> tuple[Tensor | None, ...]:
        return None, *(c * factor for c, factor in zip(cs, ctx.factors, strict=True))


class _Slope(torch.autograd.Function):
    apply: Callable[..., Tensor]

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor, above: Tensor, slope_at_zero: float | Tensor
    ) -> Tensor:
        ctx.save_for_backward(_slope(x, above, slope_at_zero))
        return y.detach()

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.saved_tensors[0] * c, None, None, None


def _slope(x: Tensor, y: Tensor, slope_at_zero: float | Tensor) -> Tensor:
    if isinstance(slope_at_zero, Tensor):
        around = torch.finfo(x.dtype).tiny * (2 / slope_at_zero.abs()).clamp(min=1)
        return torch.where(x.abs() <= around.nan_to_num(posinf=0), slope_at_zero, y / x)
    least = torch.finfo(x.dtype).tiny * max(1, 2 / abs(slope_at_zero)) if slope_at_zero else 0
    slope = functional.hardshrink(x, least)
    torch.div(y, slope, out=slope)
    pole = slope_at_zero or torch.inf
    return slope.nan_to_num_(nan=slope_at_zero, posinf=pole, neginf=pole)


class _InPlaceOf(torch.autograd.Function):
    """Gives ``z`` the gradient of ``x @ weight.T``, or of ``x`` if there is no weight."""

    apply: Callable[..., Tensor]

    @staticmethod
    def forward(ctx: Any, z: Tensor, x: Tensor, weight: Tensor | None) -> Tensor:
        ctx.weight = weight
        return z.detach()

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> tuple[None, Tensor, None]:
        return None, c if ctx.weight is None else c @ ctx.weight.dequantize().to(c.dtype), None


class HeldLayerNorm(torch.autograd.Function):
    """LayerNorm as the linear map that it is while its standard deviation is held."""

    apply: Callable[..., Tensor]

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        shape: Sequence[int],
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
    ) -> Tensor:
        y, _, rstd = torch.native_layer_norm(x, shape, weight, bias, eps)
        ctx.save_for_backward(rstd, weight)
        ctx.axes = tuple(range(-len(shape), 0))
        return y

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> tuple[Tensor, None, None, None, None]:
        rstd, weight = ctx.saved_tensors
        scaled = c.clone() if weight is None else c * weight
        scaled.mul_(rstd)
        return scaled.sub_(scaled.mean(ctx.axes, keepdim=True)), None, None, None, None


def scale(x: Tensor, factor: float | Tensor) -> Tensor:
    """Returns ``x`` and multiplies its cotangent by ``factor`` on the way back; 0 cuts it off."""
    if isinstance(factor, Tensor) or factor not in (0, 1):
        return scale_each((x,), (factor,))[0]
    return x if factor else x.detach()


def scale_each(xs: Sequence[Tensor], factors: Sequence[float | Tensor]) -> tuple[Tensor, ...]:
    """Scales the cotangents of ``xs`` by factors other than 0, in one step of the backward pass."""
    return _Scale.apply(factors, *xs)


def in_place_of(y: Tensor, value: Tensor) -> Tensor:
    """Returns ``value`` in the memory of ``y``, which has equal entries."""
    return _InPlaceOf.apply(y.detach(), value, None)


def wide(x: Tensor) -> Tensor:
    """Casts ``x`` to float32 or wider, where a stabiliser keeps its size."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def epsilon(z: Tensor, *, eps: float, bias: Tensor | None = None) -> Tensor:
    """Applies the epsilon rule (Eq. 1) at the output ``z`` of a linear map or a sum.

    Without ``bias`` the denominator is ``z``, and a bias inside ``z`` absorbs its share; with
    it the denominator is ``z - bias``, so that the inputs share all relevance.
    """
    if (eps == 0 and bias is None) or z.is_complex():  # complex numbers are only rotated
        return z
    fixed = wide(z.detach())
    share = fixed / stabilize(fixed if bias is None else fixed - bias.detach(), eps)
    share = torch.where(fixed.isinf(), 1, share)  # logits hidden by a mask
    return scale(z, share.to(z.dtype))


def quantised(z: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Makes a kernel's result ``z`` for ``x @ weight.T`` that linear map; rounding absorbs.

    ``weight`` stays in few bits until the backward pass needs it.
    """
    return _InPlaceOf.apply(z.detach(), x, weight)


def bilinear_epsilon(o: Tensor, *, eps: float) -> Tensor:
    """Applies the epsilon rule at ``o = a @ b`` (Eqs. 3, 4): R o / (2 o + eps sign o) to each."""
    if eps == 0:
        return scale(o, 0.5)
    fixed = wide(o.detach())
    return scale(o, (fixed / stabilize(2 * fixed, eps)).to(o.dtype))


def slope(
    x: Tensor, y: Tensor, *, slope_at_zero: float | Tensor, above: Tensor | None = None
) -> Tensor:
    """Returns ``y`` with the slope y / x towards ``x``, so that relevance in = relevance out.

    For a function that is not 0 at 0, ``above`` is y minus the value at 0, which absorbs its share,
    and the slope is ``above`` / x.  Where x = y = 0 the slope is ``slope_at_zero``, the derivative.
    If that is not 0, it also stands in for the slope where x or y may be subnormal.
    """
    return _Slope.apply(x, y, y if above is None else above.to(x.dtype), slope_at_zero)


def identity(f: Callable[[Tensor], Tensor], x: Tensor, *, slope_at_zero: float) -> Tensor:
    """Applies the identity rule at ``y = f(x)``: relevance in = out, that is, a slope of y / x."""
    with torch.no_grad():
        y = f(x)
    return slope(x, y, slope_at_zero=slope_at_zero)
