"""Follows chains of elementwise functions to their roots, and extends them."""

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from lrp_axioms.numeric.engine.calls import Use
from lrp_axioms.numeric.engine.marks import ROOT, Chain, Cut, Key, mark, marked
from lrp_axioms.numeric.engine.operations import ADD, DIVIDE, MULTIPLY, SUBTRACT

EXPONENTS = {"exp": 0, "exp2": 0, "expm1": 0, "rpow": 0, "pow": 1, "float_power": 1}
"""By function: the operand in its exponent."""
EITHER = [0], [1]
LINEAR: dict[str | None, tuple[list[int], ...]] = {
    ADD: EITHER, SUBTRACT: EITHER, MULTIPLY: EITHER, DIVIDE: ([0],)
}  # fmt: skip
"""By role: the operands that it is linear in, each while the other one is fixed."""
SQUARES = {("mul", "x", "x"), ("pow", "x", 2), ("square", "x"), ("__pow__", "x", 2)}
"""Keys of the square of the root, in every spelling."""


def root_of(x: Tensor) -> Tensor:
    return next(roots(x))


def roots(x: Tensor) -> Iterator[Tensor]:
    """Yields the roots of ``x``: the nearest, then roots behind linear steps, nearest first."""
    what = mark(x)
    if type(what) is not Chain or (not what.curved and (what.stale or x._version != what.made)):
        yield x
        return
    if what.shifts and not what.curved:
        yield x
    yield from roots(what.root)


def common_root(xs: Sequence[Tensor]) -> Tensor | None:
    """Returns the nearest tensor that all ``xs`` are elementwise functions of, or None."""
    others = [{id(root) for root in roots(x)} for x in xs[1:]]
    return next((x for x in roots(xs[0]) if all(id(x) in known for known in others)), None)


def cuts(x: Tensor) -> Iterator[Cut]:
    """Yields the cuts between ``x`` and its farthest root, in this order."""
    for root in roots(x):
        if type(what := mark(root)) is Cut:
            yield what
            yield from cuts(what.chain.root)


def extend_chain(use: Use, root: Tensor, *, curved: bool, out: Tensor | None = None) -> Tensor:
    """Applies a function to chains from ``root`` and fixed arguments; returns the longer chain.

    ``out`` is the result of the function, if it is known.
    """
    _, func, args, kwargs, _ = use
    given = [*args, *kwargs.values()]
    between = [_chains_between(x, root) for x in given]
    fixed = [x.detach() if isinstance(x, Tensor) else x for x in given]

    def step(xs: Sequence[Any]) -> Tensor:
        y: Tensor = func(*xs[: len(args)], **dict(zip(kwargs, xs[len(args) :], strict=True)))
        return y

    def replay(z: Tensor) -> Tensor:
        steps = zip(fixed, between, strict=True)
        return step([x if c is None else _replay_chains(c, z) for x, c in steps])

    keys = (x if c is None else _key(c) for x, c in zip(given, between, strict=True))
    key = (func.__name__, *keys, *kwargs)
    if out is None:
        out = step(fixed if curved else given)
    if curved and out.is_floating_point():
        out.requires_grad_()
    version = min((c[-1].version for c in between if c), default=root._version)
    chain = Chain(root, replay, key, curved=curved, version=version)
    bent = any(cut.chain.curved for cut in cuts(root))
    chain.made = out._version
    chain.shifts = use.call.role in (ADD, SUBTRACT) and not bent
    varies = [n for n, c in enumerate(between) if c is not None]
    chain.exponential = varies == [EXPONENTS.get(use.name)] or (
        varies in LINEAR.get(use.call.role, ()) and _is_exponential(given[varies[0]])
    )
    return marked(out, chain)


def _is_exponential(x: Tensor) -> bool:
    return type(what := mark(x)) is Chain and what.exponential


def _chains_between(x: Any, root: Tensor) -> list[Chain] | None:
    """Returns the chains from ``x`` to ``root``: empty for the root, None if none leads there."""
    found: list[Chain] = []
    while x is not root:
        what = mark(x)
        if type(what) is not Chain:
            return None
        found.append(what)
        x = what.root
    return found


def _replay_chains(chains: Sequence[Chain], z: Tensor) -> Tensor:
    for chain in reversed(chains):
        z = chain.replay(z)
    return z


def _key(chains: Sequence[Chain]) -> Any:
    key: Any = ROOT
    for chain in reversed(chains):
        key = _put(chain.key, key)
    return key


def _put(key: Key, inner: Any) -> Key:
    """Puts ``inner`` in place of the root in a key."""
    named = lambda x: _put(x, inner) if type(x) is tuple else inner if x is ROOT else x
    return tuple(map(named, key))
