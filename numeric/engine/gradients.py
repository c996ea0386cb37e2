"""Gradients that a user's code takes under the rules, at tensors whose rule may wait for a use."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from lrp_axioms.numeric.engine.marks import PRODUCT, Args, Function, Kwargs, mark
from lrp_axioms.numeric.models.places import Places

Settle = Callable[[Any], Any]
"""Applies the rule that waited for a tensor's use; returns anything else as it is."""


def differentiate(
    func: Function, args: Args, kwargs: Kwargs, *, settle: Settle, end: Settle, places: Places
) -> Any:
    """Calls ``func`` on tensors in the graph, after the rules that waited for a use.

    ``settle`` applies these rules, and ``end`` does where a backward pass starts.
    """
    asked: Args
    first, *others = args
    if func in STARTS:
        first, asked = _each(end, first), (*others, kwargs.get("inputs"))
    else:
        asked = args if func in LISTENS else ()
    if any(mark(x) == PRODUCT for x in tensors(asked)):
        raise ValueError(
            f"{func.__name__} at a product of two activations, {places.describe()}: its "
            "relevance is decided where it is used; ask at a tensor that is computed from it"
        )
    act = lambda x: x if mark(x) == PRODUCT else settle(x)
    named = {key: _each(act, x) for key, x in kwargs.items()}
    if func is Tensor.register_hook:
        others, named = [_only_looks(hook) for hook in (*others, *named.values())], {}
    return func(*(_each(act, x) for x in (first, *others)), **named)


def _only_looks(hook: Callable[[Tensor], object]) -> Callable[[Tensor], None]:
    def look(c: Tensor) -> None:
        if hook(c) is not None:
            raise ValueError(
                f"the hook {getattr(hook, '__qualname__', hook)} of a tensor changes the gradient, "
                "in whose place relevance goes back; let it return None, or leave it out"
            )

    return look


STARTS = {torch.autograd.grad, torch.autograd.backward, Tensor.backward}
LISTENS = {Tensor.retain_grad, Tensor.register_hook}


def _each(function: Callable[[Any], Any], x: Any) -> Any:
    return type(x)(map(function, x)) if type(x) in (list, tuple) else function(x)


def tensors(args: Iterable[Any]) -> Iterator[Any]:
    """Yields arguments, and the arguments within lists."""
    for x in args:
        yield from x if type(x) in (list, tuple) else (x,)
