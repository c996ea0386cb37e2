"""What is known of a tensor while a model runs under propagation rules, kept on the tensor."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from axioms.composites import Operation

if TYPE_CHECKING:
    from numeric.fast.calls import Use

MARK = "_lrp_axioms"  # the attribute of a tensor

WEIGHTS = "weights"  # attention weights: what a softmax gave, moved or not
PRODUCT = "product"  # of two activations, whose rule its user decides: scores if it is a softmax
HELD = "held"  # what norms divide by
COSINE, SINE = "cosine", "sine"  # of positions, by which queries and keys are turned
TOKEN_TYPE = "token type"  # rows of such a table
INHERITED = (HELD, COSINE, SINE, WEIGHTS)  # marks of constants that functions of them keep

PLAIN = frozenset((int, float, bool, str, type(None), torch.dtype))
"""Types of most of all arguments that are no tensors, such as sizes and axes."""


Function = Callable[..., Any]
"""A function of torch."""
Args = Sequence[Any]
Kwargs = dict[str, Any]
"""What it is called with."""
Tensors = Sequence[Tensor]
Key = tuple[Any, ...]
"""The name of a function, and of each of its arguments the key or the value."""


class Weights(str):
    """The mark WEIGHTS of what one softmax gave, with the list of all products that read it."""

    readouts: list[GradientEdge]

    @classmethod
    def of(cls, readouts: list[GradientEdge]) -> "Weights":
        what = cls(WEIGHTS)
        what.readouts = readouts
        return what


class Chain:
    """The mark of a function of the tensor ``root``, entry by entry: one, however it is spelled.

    Of a chain that is ``curved`` the tensor is a leaf that holds values alone: whoever uses them
    settles the rule of the whole chain.  It requires a gradient only so that what is computed from
    it by code that no torch function shows has one, and is found out.  ``replay`` computes the
    function of any other root; ``key`` says which function it is, wherever the root comes from.
    ``version`` tells whether code has written into the root since.
    """

    __slots__ = (
        "curved", "floor", "key", "places", "replay", "root", "settled", "uses", "version"
    )  # fmt: skip

    def __init__(
        self,
        root: Tensor,
        replay: Callable[[Tensor], Tensor],
        key: Key,
        *,
        curved: bool,
        version: int,
    ) -> None:
        self.root, self.replay, self.key, self.curved = root, replay, key, curved
        self.version = version
        self.settled: Tensor | None = None
        self.places: Sequence[Operation] = []  # where it was computed, if that is asked
        self.uses = 0
        self.floor = False  # whether it only keeps what is no function from being too small

    @property
    def stale(self) -> bool:
        """Whether the root no longer is what this is a function of."""
        return self.root._version != self.version

    def slope_at_zero(self) -> float | Tensor:
        """The derivative at 0, which is computed once for every function.

        Of a function with a parameter for each channel it has the shape of the root.
        """
        try:
            return _SLOPES[self.key]
        except (KeyError, TypeError):  # not yet, or with a tensor in it
            pass
        with torch.inference_mode(mode=False), torch.enable_grad():
            if any(isinstance(x, Tensor) and x.ndim for x in _leaves(self.key)):
                zero = torch.zeros_like(self.root, requires_grad=True)
                return torch.autograd.grad(self.replay(zero).sum(), zero)[0]
            zero = torch.zeros(1, dtype=torch.float64, device="cpu", requires_grad=True)
            slope = torch.autograd.grad(self.replay(zero).sum(), zero)[0].item()
        if all(isinstance(x, (int, float, str)) for x in _leaves(self.key)):
            _SLOPES[self.key] = slope
        return slope


class Summed:
    """The mark of a sum over entries of a function, such as the mean square that norms take."""

    __slots__ = ("chain",)

    def __init__(self, chain: Chain) -> None:
        self.chain = chain


class Cut:
    """The mark of a tensor at which the function ``chain`` was cut, so as to look at it there.

    ``met`` is called if the rest of the function reads its root as well: its rule was for all.
    """

    __slots__ = ("chain", "met")

    def __init__(self, chain: Chain, met: Callable[[], object]) -> None:
        self.chain, self.met = chain, met

    def shifts(self) -> bool:
        """Whether what was cut off adds a constant, which by itself would keep relevance."""
        return not self.chain.curved and bool(self.chain.replay(self.chain.root.new_zeros(1)))


_SLOPES: dict[Key, float] = {}


def _leaves(key: Key) -> Iterator[object]:
    for x in key:
        yield from _leaves(x) if isinstance(x, tuple) else (x,)


def mark(x: object) -> Any:
    return getattr(x, MARK, None)


def marked(x: Tensor, what: object) -> Tensor:
    setattr(x, MARK, what)
    return x


def carries(x: object) -> TypeGuard[Tensor]:
    """Whether relevance comes to ``x``; parameters may require gradients, too."""
    return isinstance(x, Tensor) and x.requires_grad and not is_parameter(x)


def is_parameter(x: Tensor) -> bool:
    """Whether a tensor that requires a gradient is a parameter; a plain leaf is a user's input."""
    return x.is_leaf and type(x) is not Tensor and not is_curved(x)


def reached(values: Iterable[Any]) -> list[Tensor]:
    """Those of ``values``, and of lists among them, that relevance comes to."""
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


def root_of(x: Tensor) -> Tensor:
    what = getattr(x, MARK, None)
    return what.root if type(what) is Chain and (what.curved or not what.stale) else x


def cuts(x: Tensor) -> Iterator[Cut]:
    """Where the function that ``x`` is was cut, one after the other."""
    while type(what := mark(root_of(x))) is Cut:
        yield what
        x = what.chain.root


def in_order(*, input: Any, other: Any = None, **kwargs: Any) -> tuple[Args, Kwargs]:
    """Arguments of functions of one or two tensors, which code may give by name."""
    return (input,) if other is None else (input, other), kwargs


def exchanged(args: Any, new: Mapping[int, Tensor | None]) -> Any:
    """``args`` with the tensors that ``new`` has by identity replaced, also within lists."""
    each = (exchanged(x, new) if type(x) in (list, tuple) else new.get(id(x), x) for x in args)
    return type(args)(each)


def without_gradient(x: Any) -> Any:
    computed = isinstance(x, Tensor) and x.requires_grad and not x.is_leaf
    return x.detach() if computed else x


def is_number(x: object) -> bool:
    return not isinstance(x, Tensor) or x.ndim == 0


def chained(use: "Use", root: Tensor, *, curved: bool) -> Tensor:
    """What a function gives of a chain from ``root`` and of numbers, as a longer chain."""
    _, func, args, kwargs, _ = use
    steps = [_step(x, root) for x in args]

    def replay(z: Tensor) -> Tensor:
        out: Tensor = func(*(step(z) if callable(step) else step for step in steps), **kwargs)
        return out

    key = (func.__name__, *(_key(x, root) for x in args), *map(str, sorted(kwargs.items())))
    values = [x.detach() if isinstance(x, Tensor) else x for x in args] if curved else args
    out = func(*values, **kwargs)
    if curved and out.is_floating_point():
        out.requires_grad_()
    chains = [what for what in map(mark, args) if type(what) is Chain and what.root is root]
    version = min((what.version for what in chains), default=root._version)
    return marked(out, Chain(root, replay, key, curved=curved, version=version))


def _step(x: Any, root: Tensor) -> Any:
    if x is root:
        return lambda z: z
    what = mark(x)
    if type(what) is Chain:
        return what.replay
    return x.detach() if isinstance(x, Tensor) else x


def _key(x: Any, root: Tensor) -> Any:
    if x is root:
        return "x"
    what = mark(x)
    return what.key if type(what) is Chain else x
