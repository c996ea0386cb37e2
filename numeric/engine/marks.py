"""Marks on tensors: facts about a tensor while a model runs under propagation rules."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from lrp_axioms.axioms.composites import Operation

MARK = "_lrp_axioms"  # the attribute of a tensor

WEIGHTS = "weights"  # attention weights: the output of a softmax, moved or not
PRODUCT = "product"  # of two activations; its user decides on the rule: scores if it is a softmax
HELD = "held"  # divisors of norms
COSINE, SINE = "cosine", "sine"  # of positions; they rotate queries and keys
TOKEN_TYPE = "token type"  # rows of a table of token types
ADAPTER = "adapter"  # rows of a second table in the module of words, such as LoRA's
INHERITED = (HELD, COSINE, SINE, WEIGHTS, ADAPTER)  # constants' marks that functions of them keep

ROOT = "x"  # stands for the root in keys
OPERANDS = (
    "condition", "input", "self", "mat1", "batch1", "other", "exponent", "mat2", "batch2", "vec",
    "tensor", "end",
)  # fmt: skip
"""Names of operands in torch, in the order that all its functions keep."""
PLAIN: frozenset[type] = frozenset((int, float, bool, str, type(None), torch.dtype))
"""Types of most arguments that are no tensors, such as sizes and axes."""


Function = Callable[..., Any]
"""A function of torch."""
Args = Sequence[Any]
Kwargs = dict[str, Any]
"""Arguments of such a function by name."""
Tensors = Sequence[Tensor]
Key = tuple[Any, ...]
"""The name of a function, and the key or the value of each of its arguments."""
AtZero = tuple[float | Tensor | None, float | Tensor]


class Weights(str):
    """The mark WEIGHTS of one softmax's output, with the list of all products that read it."""

    readouts: list[GradientEdge]


@dataclass(eq=False, slots=True)
class Chain:
    """The mark of an elementwise function of the tensor ``root``, in whatever steps it is spelled.

    The tensor of a ``curved`` chain is a leaf that holds values alone: whoever uses them settles
    the rule of the whole chain.  It requires a gradient only so that results of code that torch
    functions do not show have one, and are found out.  ``replay`` computes the function of any
    other root; ``key`` identifies the function, wherever the root comes from.
    ``version`` tells whether code has written into the root since, and ``made`` whether code has
    written into the values of the function, such as through a view of ``settled``.
    """

    root: Tensor
    replay: Callable[[Tensor], Tensor]
    key: Key
    curved: bool = field(kw_only=True)
    version: int = field(kw_only=True)
    made: int = 0  # version of the marked tensor when it got this mark
    settled: Tensor | None = None
    places: Sequence[Operation] = ()  # places where it was computed, if they are needed
    uses: int = 0
    exponential: bool = False  # whether it is one of its root, behind linear steps alone
    floor: bool = False  # whether it is only a lower limit of a tensor that is no function
    shifts: bool = False  # whether it is a sum and may be the root of the next function

    @property
    def stale(self) -> bool:
        """Whether code has written into the root since."""
        return self.root._version != self.version

    def at_zero(self) -> AtZero:
        """Returns the value at 0 (None if it is 0 or infinite) and the derivative at 0, cached.

        Both have the shape of the root if a step of the function is a tensor.
        """
        try:
            return _AT_ZERO[self.key]
        except (KeyError, TypeError):  # not yet known, or with a tensor in it
            pass
        alone = not any(isinstance(x, Tensor) and x.ndim for x in _leaves(self.key))
        with torch.inference_mode(mode=False), torch.enable_grad():
            like = torch.zeros(1, dtype=torch.float64, device="cpu") if alone else self.root
            zero = torch.zeros_like(like, requires_grad=True)
            y = self.replay(zero)
            (slope,) = torch.autograd.grad(y.sum(), zero)
            value = y.detach().nan_to_num(nan=0, posinf=0, neginf=0)
            some = bool(value.any())
            found: AtZero = (value if some else None, slope)
            if alone:
                found = (value.item() if some else None, slope.item())
        if all(isinstance(x, tuple(PLAIN)) for x in _leaves(self.key)):
            if len(_AT_ZERO) == MOST:
                _AT_ZERO.clear()
            _AT_ZERO[self.key] = found
        return found

    def above(self, value: float | Tensor, y: Tensor) -> Tensor:
        """Returns ``y`` minus the ``value`` at 0; 0 where y is 0 and has nothing to share.

        A number is subtracted in float64, because near 0 ``y`` and ``value`` hardly differ.
        """
        if not isinstance(value, Tensor):
            with torch.no_grad():
                y = self.replay(self.root.detach().double()).double()
        above = y - value
        return torch.where(above + value == 0, 0, above)


@dataclass(eq=False, slots=True)
class Summed:
    """The mark of a sum over entries of a function, such as the mean square in norms."""

    chain: Chain


@dataclass(eq=False, slots=True)
class Cut:
    """The mark of a tensor where the function ``chain`` was cut to be looked at.

    ``met`` is called if the rest of the function reads its root as well: its rule was for all.
    """

    chain: Chain
    met: Callable[[], object]

    def shifts(self) -> bool:
        """Decides whether the cut function is not 0 at 0: its value at 0 then absorbs relevance."""
        return self.chain.at_zero()[0] is not None


_AT_ZERO: dict[Key, AtZero] = {}
MOST = 4096  # functions in this table


def _leaves(key: Key) -> Iterator[object]:
    for x in key:
        yield from _leaves(x) if isinstance(x, tuple) else (x,)


def mark(x: object) -> Any:
    return getattr(x, MARK, None)


def marked(x: Tensor, what: object) -> Tensor:
    setattr(x, MARK, what)
    return x


def carries(x: object) -> TypeGuard[Tensor]:
    """Decides whether relevance comes to ``x``; parameters may require gradients, too."""
    return isinstance(x, Tensor) and x.requires_grad and not is_parameter(x)


def is_parameter(x: Tensor) -> bool:
    """Tells a parameter from other tensors with a gradient; a plain leaf is a user's input."""
    return x.is_leaf and type(x) is not Tensor and not is_curved(x)


def reached(values: Iterable[Any]) -> list[Tensor]:
    """Lists tensors in ``values``, and in lists among them, that relevance comes to."""
    found = []
    for x in values:
        kind = type(x)
        if kind is Tensor:
            if x.requires_grad:
                found.append(x)
        elif kind in PLAIN:
            continue
        elif isinstance(x, Tensor):
            if x.requires_grad and not is_parameter(x):
                found.append(x)
        elif kind in (list, tuple):
            found += reached(x)
    return found


def is_curved(x: object) -> bool:
    what = getattr(x, MARK, None)
    return type(what) is Chain and what.curved


def in_order(args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """Moves operands that code gave by name to their places in torch."""
    named = [name for name in OPERANDS if name in kwargs]
    if not named:
        return args, kwargs
    rest = {name: x for name, x in kwargs.items() if name not in named}
    return (*args, *(kwargs[name] for name in named)), rest


def exchanged(args: Any, new: Mapping[int, Tensor | None]) -> Any:
    """Replaces tensors in ``args``, also within lists, by ``new``, which is by identity."""
    each = (exchanged(x, new) if type(x) in (list, tuple) else new.get(id(x), x) for x in args)
    return type(args)(each)


def without_gradient(x: Any) -> Any:
    """Detaches computed tensors, also within lists."""
    if isinstance(x, list | tuple):  # or such as the two results of a maximum
        return type(x)([without_gradient(y) for y in x])
    computed = isinstance(x, Tensor) and x.requires_grad and not x.is_leaf
    return x.detach() if computed else x


def is_number(x: object) -> bool:
    return not isinstance(x, Tensor) or x.ndim == 0


def is_like_number(other: Any, x: Tensor) -> bool:
    """Decides whether ``other`` is fixed and fits ``x``, and so can be a step of a function."""
    if is_number(other):
        return not carries(other)
    fits = torch.broadcast_shapes(x.shape, other.shape) == x.shape
    return fits and mark(other) is None and not carries(other)
