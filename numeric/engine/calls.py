"""Identifies torch calls by any spelling; detects computation that the mode cannot see."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C import _functorch as functorch
from torch.autograd.function import BackwardCFunction
from torch.nn import functional

from lrp_axioms.numeric.engine.marks import (
    Args,
    Function,
    Kwargs,
    Tensors,
    carries,
    reached,
)
from lrp_axioms.numeric.engine.operations import GRADIENT, MOVE, NOTHING, ROLES
from lrp_axioms.numeric.engine.refusals import IN_VMAP, UNSEEN, WRITTEN

SPECIAL = re.compile(r"__(?:[ir]?)([a-z]+)__")  # of operators: + calls __add__, __radd__, __iadd__
INSTEAD = {
    "torch.utils.checkpoint": "; pass use_reentrant=False to the checkpoint",
    "bitsandbytes.autograd._functions": "; call model.dequantize().eval() first",
    "transformers.models.bloom.modeling_bloom": "; call attribute(), which shows it",
}
"""By module of an autograd function: advice to its user."""
OF_TORCH = os.path.dirname(str(torch.__file__)) + os.sep
SEEN = "_lrp_axioms_seen"  # the attribute of a tensor that a torch function gave


@dataclass(frozen=True)
class Call:
    """A torch function by its plain name, with its role.

    instead: for a function that writes to an argument, its counterpart that does not
    writes: whether others may hold the argument, so that it must be written to; not for x += y
    """

    name: str
    role: str | None
    instead: Function | None = None
    writes: bool = False

    @cached_property
    def fills(self) -> bool:
        """Whether it writes into its first argument and has no counterpart."""
        return self.name == "setitem" or self.name[-1] == "_"


class Use(NamedTuple):
    """A call of a torch function under the rules.

    func: the function, or its counterpart that writes to no argument
    carrying: arguments that relevance comes to
    """

    call: Call
    func: Function
    args: Args
    kwargs: Kwargs
    carrying: Tensors

    @property
    def name(self) -> str:
        return self.call.name

    def other(self, x: Tensor) -> Any:
        """Returns the one of the first two arguments that is not ``x``."""
        return self.args[1] if self.args[0] is x else self.args[0]


Called = Callable[[Call, Function, Args, Kwargs], Any]
"""Calls a function under the rules."""

CALLS: dict[Function, Call] = {}


def call_of(func: Function) -> Call:
    """Identifies a torch function by any of its spellings."""
    if func in CALLS:
        return CALLS[func]
    file = getattr(getattr(func, "__code__", None), "co_filename", OF_TORCH)
    if not file.startswith(OF_TORCH):  # under any name, as functools.wraps copies names
        return Call(f"{func.__name__} of {file}, in place of a function of torch", None)
    return CALLS.setdefault(func, _call(func))


def _call(func: Any) -> Call:
    name = func.__name__
    if name == "__get__":  # of an attribute; most attributes are sizes and the like
        name = func.__self__.__name__
        role = ROLES.get(name)
        return Call(name, role if role in (MOVE, GRADIENT) else NOTHING)
    if name in ROLES:
        return Call(name, ROLES[name])
    if operator := SPECIAL.fullmatch(name):
        short = name.strip("_")
        name = short if short in ROLES else operator[1]
        instead = getattr(Tensor, name, None) if name != short and short[0] == "i" else None
        return Call(name, ROLES.get(name), instead)
    if name.endswith("_") and name[:-1] in ROLES:
        short = name[:-1]
        owner = next(x for x in (Tensor, torch, functional) if hasattr(x, short))
        return Call(short, ROLES[short], getattr(owner, short), writes=True)
    return Call(name, None)


def foreign(backward: type) -> tuple[str, ...]:
    """Returns the name of an autograd function that is not of these rules, and advice."""
    if not issubclass(backward, BackwardCFunction):
        return ()
    own = getattr(backward, "_forward_cls", BackwardCFunction).__module__
    return () if own.startswith("lrp_axioms.") else (backward.__name__, INSTEAD.get(own, ""))


def hidden(call: Call, args: Args, kwargs: Kwargs) -> str:
    """Returns the reason why rules do not see the gradient of a call, or "" where they do."""
    if functorch.maybe_current_level() is not None:
        inside = torch.is_grad_enabled() and any(map(_has_gradient, (*args, *kwargs.values())))
        return IN_VMAP if inside else ""
    if torch.is_grad_enabled():
        return ""
    inside, out = bool(call.fills or call.instead or kwargs.get("inplace")), kwargs.get("out")
    written = (*(out if isinstance(out, list | tuple) else [out]), *args[:inside])
    return WRITTEN if any(carries(x) or carries(getattr(x, "_base", None)) for x in written) else ""


def _has_gradient(x: Any) -> bool:
    if isinstance(x, list | tuple):
        return any(map(_has_gradient, x))
    while isinstance(x, Tensor) and functorch.is_functorch_wrapped_tensor(x):
        x = functorch.get_unwrapped(x)
    return carries(x)


def checkpoints() -> bool:
    """Whether tensors saved for the backward pass are dropped here and computed again."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)  # noqa: FBT003
    return hooks is not None and hooks[0].__module__ == "torch.utils.checkpoint"


def scripts() -> bool:
    """Whether there are functions of TorchScript, which no function mode sees."""
    functions: Any = torch.jit._state._python_cu.get_functions  # torch's stub forgets the list
    return bool(functions())


class Watch:
    """Refuses activations that come from none of the torch functions that were seen.

    Tensors made before the block began may come from anywhere.
    """

    def __init__(self, refuse: Callable[[str], object]) -> None:
        self.began, self.refuse = torch._C._autograd._get_sequence_nr(), refuse

    def is_unseen(self, x: Tensor) -> bool:
        known = (y.is_leaf or hasattr(y, SEEN) for y in (x, x._base) if y is not None)
        in_python = issubclass(type(x.grad_fn), BackwardCFunction)  # a rule's, or refused by name
        if x.is_leaf or in_python or any(known) or x.grad_fn is None:
            return False
        return x.grad_fn._sequence_nr() >= self.began

    def note(self, out: object) -> None:
        for x in reached(out if isinstance(out, tuple) else (out,)):
            setattr(x if x._base is None else x._base, SEEN, True)
            setattr(x, SEEN, True)

    def called(self, go: Called, call: Call, func: Function, args: Args, kwargs: Kwargs) -> Any:
        """Refuses unseen activations, and marks the call's results as seen."""
        for x in filter(self.is_unseen, reached((*args, *kwargs.values()))):
            self.refuse(UNSEEN)
            self.note(x)  # once
        out = go(call, func, args, kwargs)
        self.note(args[0] if call.name == "setitem" else out)
        return out
