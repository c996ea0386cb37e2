"""Calls of any torch module with tensors in it, named by the user, as leaves of the graph."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import BoundArguments, signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_map, tree_map_with_path

from lrp_axioms.numeric.engine import packed
from lrp_axioms.numeric.models.checks import check_code
from lrp_axioms.numeric.models.patches import change_output, twin
from lrp_axioms.numeric.spelling import did_you_mean

OUTPUT = "output of "
"""Stands before the path of a module whose name an argument has, too."""
PLACE = re.compile(r"(\[(\d+|'\w+')\])*$")
"""Ends a name of one tensor among several, such as ``lstm[1][0]`` or ``args[0]``."""
RETURNS = "a float tensor (batch,), such as read=lambda output: output[:, 0]"


@dataclass(eq=False)
class Run:
    """A call of a module with named tensors as leaves of the graph.

    model: runs in place of the module: a twin with hooks
    given: the arguments of ``forward``, as the user passed them
    read: the same arguments with copies of leaves, for the model to read
    leaves: tensors by name, in the order they were asked for; filled while the model runs
    change: is given the name and the copy of a leaf, and returns the tensor that the module reads
    often: names of modules that were called more than once
    copies: of the leaves, which the module reads
    began: is called with the name of every leaf when it is made
    """

    model: nn.Module
    given: BoundArguments
    read: BoundArguments
    leaves: dict[str, Tensor | None]
    change: Callable[[str, Tensor], Tensor]
    often: list[str] = field(default_factory=list)
    copies: dict[str, Tensor] = field(default_factory=dict)
    began: Callable[[str, Tensor], object] = lambda name, leaf: None

    def call(self, model: nn.Module) -> Any:
        return model(*self.read.args, **self.read.kwargs)

    @property
    def device(self) -> torch.device:
        return next((x.device for x in self.model.parameters()), torch.device("cpu"))

    def faults(self) -> Iterator[str]:
        """Yields faults of the names after a run."""
        if missing := [name for name, x in self.leaves.items() if x is None]:
            yield f"of={missing}: these modules are not called"
        if self.often:
            yield (
                f"of={self.often}: these modules are called more than once; put an nn.Identity "
                "behind the call that is meant, and name that"
            )

    def begin(self, name: str, x: Any) -> Any:
        """Makes ``x``, or a tensor in it, a leaf; returns a copy, which the model may write to."""
        return _put(x, name, partial(self._leaf, name))

    def _leaf(self, name: str, x: Any) -> Tensor:
        if not isinstance(x, Tensor) or not x.is_floating_point() or not x.ndim:
            kind = f"tensor of {x.dtype}" if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(
                f"of={name!r} is a {kind}; name floats, (batch, ...), such as the output of a "
                "module inside, or one of several tensors, such as 'lstm[0]'"
            )
        if self.leaves[name] is not None:
            self.often.append(name)
        leaf = x.detach().clone().requires_grad_()
        self.leaves[name] = leaf
        self.began(name, leaf)
        self.copies[name] = self.change(name, leaf.clone())
        return self.copies[name]


def open_run(
    module: nn.Module,
    inputs: Any,
    of: str | Iterable[str],
    *,
    change: Callable[[str, Tensor], Tensor] = lambda name, x: x,
) -> Run:
    """Prepares a call of ``module`` with the tensors named ``of`` as leaves; see ``Run.change``.

    Raises ValueError that lists all names of neither an argument nor a module, and for inputs
    that ``forward`` does not take.
    """
    check_code(module)
    if hasattr(module, "_orig_mod"):
        raise ValueError("compiled: compiled code runs past the rules; pass module._orig_mod")
    model = _copy(module)
    named, rest = (inputs, ()) if isinstance(inputs, Mapping) else ({}, inputs)
    rest = (rest,) if isinstance(rest, Tensor) else rest
    try:
        given = signature(module.forward).bind(*rest, **named)
    except TypeError as error:
        raise ValueError(
            f"{type(module).__name__}.forward does not take inputs: {error}"
        ) from error
    names = [of] if isinstance(of, str) else list(of)
    paths = {path for path, _ in module.named_modules() if path}
    known = {*given.arguments, *paths}
    bases = {name: _base(name) for name in names}
    unknown = [name for name in names if bases[name].removeprefix(OUTPUT) not in known]
    if unknown or not names:
        raise ValueError(
            f"of={of!r}: pass names of arguments ({', '.join(given.arguments)}) or of modules in "
            "module.named_modules(), at least one"
            f"{did_you_mean([bases[name] for name in unknown], known)}"
        )
    if both := [name for name in names if bases[name] in paths & {*given.arguments}]:
        raise ValueError(
            f"of={both}: an argument and a module have this name; pass {OUTPUT + both[0]!r} for "
            "the output of the module, or rename the argument in a function around the module"
        )
    run = Run(model, given, _cloned(given), dict.fromkeys(names), change)
    for name in run.leaves:
        if (path := bases[name]) in given.arguments:
            run.read.arguments[path] = run.begin(name, run.read.arguments[path])
        else:
            path = path.removeprefix(OUTPUT)
            change_output(model.get_submodule(path), partial(run.begin, name))
    return run


def _cloned(given: BoundArguments) -> BoundArguments:
    """Returns arguments with tensors of their own, which the module's code may write to."""
    clone = lambda x: x.clone() if isinstance(x, Tensor) else x
    return BoundArguments(given.signature, tree_map(clone, dict(given.arguments)))


def _base(name: str) -> str:
    return PLACE.sub("", name, count=1)


def _put(x: Any, name: str, change: Callable[[Any], Tensor]) -> Any:
    """Changes ``x``, or the one of its tensors that ``name`` ends with."""
    place = name.removeprefix(_base(name))
    if not place:
        return change(x)
    known = [keystr(path) for path, _ in tree_flatten_with_path(x)[0]]
    if place not in known:
        raise ValueError(f"of={name!r}: tensors there are {', '.join(known)}; name one of these")
    return tree_map_with_path(lambda at, y: change(y) if keystr(at) == place else y, x)


def odd_arguments(of: Any, read: Any, axes: Any) -> Iterator[str]:
    """Yields problems of arguments that no module needs to run for."""
    names = [of] if isinstance(of, str) else of
    if not isinstance(names, Iterable) or not all(isinstance(x, str) for x in names):
        yield f"of={of!r}: pass the name of an argument or of a module, or a list of names"
    if not callable(read):
        yield f"read={read!r}: pass a function of the output that returns {RETURNS}"
    if not all(type(x) is int for x in (axes if isinstance(axes, tuple) else (axes,))):
        yield f"axes={axes!r}: pass a number, or a tuple of numbers, such as -1 for embeddings"


def _check_axes(axes: int | tuple[int, ...], leaves: Mapping[str, Tensor]) -> None:
    """Raises ValueError for axes that a tensor does not have, or that are its examples'."""
    numbers = axes if isinstance(axes, tuple) else (axes,)
    for name, x in leaves.items():
        if not len(x):
            raise ValueError(f"{name} has no examples: its shape is {tuple(x.shape)}")
        if any(not -x.ndim < n < x.ndim or n == 0 for n in numbers):
            raise ValueError(
                f"axes={axes}: {name} has the shape {tuple(x.shape)}; pass axes of channels, from "
                f"1 to {x.ndim - 1}"
            )


def checked(run: Run, found: Any, axes: int | tuple[int, ...]) -> dict[str, Tensor]:
    """Returns the leaves; ValueError unless ``axes`` fit and ``found`` has a number per example."""
    said = [*run.faults()]
    sizes = {name: len(x) for name, x in run.leaves.items() if x is not None}
    if not isinstance(found, Tensor) or not found.is_floating_point() or found.ndim != 1:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        said.append(f"read returns {shape}; return {RETURNS}")
    elif {*sizes.values()} - {len(found)}:
        said.append(f"read returns {len(found)} numbers for examples {sizes}; return {RETURNS}")
    if said:
        raise ValueError("\n".join(said))
    leaves = {name: x for name, x in run.leaves.items() if x is not None}
    _check_axes(axes, leaves)
    return leaves


def _copy(module: nn.Module) -> nn.Module:
    """Returns a twin with buffers of its own, which its code may write to."""
    model = twin(packed.unpack(module))
    for each in model.modules():
        each._buffers = {k: None if x is None else x.clone() for k, x in each._buffers.items()}
    return model


def check_alone(
    module: nn.Module, given: BoundArguments, read: Callable[[Any], Tensor], found: Tensor
) -> None:
    """Raises ValueError if the number of the first or last example is another one alone.

    Arguments are cut where their first axis has as many entries as there are examples.
    """
    count, unit = len(found), torch.finfo(found.dtype).eps ** 0.5
    for n in {0, count - 1}:
        own = _cloned(given)
        cut = lambda x, n=n: (
            x[n : n + 1] if isinstance(x, Tensor) and x.ndim > 0 and len(x) == count else x
        )
        args, kwargs = tree_map(cut, (own.args, own.kwargs))
        try:
            with torch.no_grad(), torch.autocast(found.device.type, enabled=False):
                (alone,) = read(_copy(module)(*args, **kwargs))
        except Exception as error:  # the code of a module raises any type
            raise ValueError(
                f"{type(module).__name__} fails on example {n} alone ({error}), so that nothing "
                "tells whether examples depend on each other; pass one example at a time"
            ) from error
        if (alone - found[n]).abs() > unit * found.detach().abs().max():
            raise ValueError(
                f"the number of example {n} is {found[n].item():.6g} here and {alone.item():.6g} "
                "alone: it depends on other examples, or on chance; pass one example at a time, or "
                "make the module give one number at every call"
            )
