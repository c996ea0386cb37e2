"""Relevance of named tensors of any torch module: of inputs, or of outputs of modules in it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import BoundArguments, signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.engine import packed, scope
from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.engine.engine import Propagation
from lrp_axioms.numeric.engine.rules import wide
from lrp_axioms.numeric.methods.options import composite_of
from lrp_axioms.numeric.models.checks import check_code, own_failures
from lrp_axioms.numeric.models.patches import change_output, twin
from lrp_axioms.numeric.results.result import Attribution
from lrp_axioms.numeric.spelling import did_you_mean

OUTPUT = "output of "
"""Stands before the path of a module whose name an argument has, too."""
HELD = (
    " by these rules, but perhaps through what they hold, or through another named tensor; name "
    "one tensor, or pass 'gradient-x-input'"
)
RETURNS = "a float tensor (batch,), such as read=lambda output: output[:, 0]"


@dataclass(eq=False)
class Run:
    """A call of a module with named tensors as leaves of the graph.

    model: runs in place of the module: a twin with hooks
    given: the arguments of ``forward``
    leaves: tensors by name, in the order they were asked for; filled while the model runs
    often: names of modules that were called more than once
    """

    model: nn.Module
    given: BoundArguments
    leaves: dict[str, Tensor | None]
    often: list[str] = field(default_factory=list)

    def call(self, model: nn.Module) -> Any:
        return model(*self.given.args, **self.given.kwargs)

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

    def begin(self, name: str, x: Any) -> Tensor:
        """Makes ``x`` a leaf, and returns a copy, which the model may write to."""
        if not isinstance(x, Tensor) or not x.is_floating_point() or not x.ndim:
            kind = f"tensor of {x.dtype}" if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(
                f"of={name!r} is a {kind}; name floats, (batch, ...), such as the output of a "
                "module inside, or wrap the module in one whose forward takes the tensor"
            )
        if self.leaves[name] is not None:
            self.often.append(name)
        leaf = x.detach().clone().requires_grad_()
        self.leaves[name] = leaf
        return leaf.clone()


def open_run(module: nn.Module, inputs: Any, of: str | Iterable[str]) -> Run:
    """Prepares a call of ``module`` with the tensors named ``of`` as leaves.

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
    unknown = [name for name in names if name.removeprefix(OUTPUT) not in known]
    if unknown or not names:
        raise ValueError(
            f"of={of!r}: pass names of arguments ({', '.join(given.arguments)}) or of modules in "
            "module.named_modules(), at least one"
            f"{did_you_mean(unknown, known)}"
        )
    if both := [name for name in names if name in paths & {*given.arguments}]:
        raise ValueError(
            f"of={both}: an argument and a module have this name; pass {OUTPUT + both[0]!r} for "
            "the output of the module, or rename the argument in a function around the module"
        )
    run = Run(model, given, dict.fromkeys(names))
    for name in run.leaves:
        if name in given.arguments:
            given.arguments[name] = run.begin(name, given.arguments[name])
        else:
            path = name.removeprefix(OUTPUT)
            change_output(model.get_submodule(path), partial(run.begin, name))
    return run


def of_tensors(
    module: nn.Module,
    inputs: Any,
    method: str | Composite = "cp-lrp",
    *,
    of: str | Iterable[str],
    read: Callable[[Any], Tensor],
    axes: int | tuple[int, ...] = (),
    epsilon: float = 0.0,
) -> Attribution:
    """Returns relevance of the tensors named ``of`` for a number of any torch module, by rules.

    ``inputs`` are the arguments of ``forward``: a mapping, a tuple, or one tensor.  A name in
    ``of`` is an argument, or the path of a module whose output is meant, such as an embedding.
    ``read`` gets the output of the module, and returns the explained number of each example,
    (batch,).  ``inside`` holds relevance by name, in the shape of the tensor; ``relevance``,
    (batch, position), has all of them side by side, summed over ``axes`` of channels, such as
    -1 for embeddings and 1 for images.  ``residual`` is the number less this sum.
    Of several tensors each has the relevance that reaches it past the others: a tensor that acts
    only through another one has none, and is refused.
    Padding is not known here: read no padded rows, and hide padding as the module does.
    Raises ValueError (bad inputs or names; a method without rules; relevance that is not finite;
    numbers that depend on other examples, on chance, or not on the tensors) and
    UnassignedOperation (all functions without a rule).
    """
    name, composite, _ = composite_of(method, None)
    scope.check_stabiliser(epsilon, torch.float32)
    if said := [*_odd_arguments(of, read, axes)]:
        raise ValueError("\n".join(said))
    with outside(), torch.inference_mode(mode=False), torch.enable_grad():
        run = open_run(module, inputs, of)
        rules = Propagation(run.model, composite, eps=epsilon)
        with torch.autocast(run.device.type, enabled=False):
            with own_failures(module, run), rules:
                found = rules.end(read(run.call(run.model)))
            leaves = _checked(run, found)
            _check_axes(axes, leaves)
            _check_alone(module, run.given, read, found)
            parts = dict(zip(leaves, _relevance(found, leaves), strict=True))
    flat = [r.sum(dim=axes) if axes != () else r for r in parts.values()]
    relevance = torch.cat([r.reshape(len(r), -1) for r in flat], dim=1)
    number = wide(found.detach())
    return Attribution(
        relevance=relevance,
        target=torch.zeros(len(number), dtype=torch.int64),
        logit=number,
        residual=number - relevance.sum(dim=1),
        method=name,
        options={"of": list(leaves), "axes": axes, "epsilon": epsilon},
        details={},
        inside=parts,
        model=type(module).__name__,
    )


def _odd_arguments(of: Any, read: Any, axes: Any) -> Iterator[str]:
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


def _checked(run: Run, found: Any) -> dict[str, Tensor]:
    """Returns the leaves; ValueError unless ``found`` is a number of each example."""
    said = [*run.faults()]
    sizes = {name: len(x) for name, x in run.leaves.items() if x is not None}
    if not isinstance(found, Tensor) or not found.is_floating_point() or found.ndim != 1:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        said.append(f"read returns {shape}; return {RETURNS}")
    elif {*sizes.values()} - {len(found)}:
        said.append(f"read returns {len(found)} numbers for examples {sizes}; return {RETURNS}")
    if said:
        raise ValueError("\n".join(said))
    return {name: x for name, x in run.leaves.items() if x is not None}


def _copy(module: nn.Module) -> nn.Module:
    """Returns a twin with buffers of its own, which its code may write to."""
    model = twin(packed.unpack(module))
    for each in model.modules():
        each._buffers = {k: None if x is None else x.clone() for k, x in each._buffers.items()}
    return model


def _check_alone(
    module: nn.Module, given: BoundArguments, read: Callable[[Any], Tensor], found: Tensor
) -> None:
    """Raises ValueError if the number of the first or last example is another one alone.

    Arguments are cut where their first axis has as many entries as there are examples.
    """
    count, unit = len(found), torch.finfo(found.dtype).eps ** 0.5
    for n in {0, count - 1}:
        cut = lambda x, n=n: x[n : n + 1] if _is_batch(x, count) else x
        args, kwargs = tree_map(cut, (given.args, given.kwargs))
        try:
            with torch.no_grad():
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


def _is_batch(x: Any, count: int) -> bool:
    return isinstance(x, Tensor) and x.ndim > 0 and len(x) == count


def _relevance(found: Tensor, leaves: Mapping[str, Tensor]) -> Iterator[Tensor]:
    """Yields relevance of every leaf, from one backward pass, or two if there are examples.

    The second pass weighs every example otherwise, which weighs its own gradients alike.
    """
    if not found.requires_grad:
        raise ValueError(f"read returns what depends on none of {', '.join(leaves)}{HELD}")
    chance = torch.Generator().manual_seed(0)
    other = 1 + torch.rand(len(found), generator=chance).to(found)
    passes = [
        torch.autograd.grad(
            (found * weight).sum(), [*leaves.values()], allow_unused=True, retain_graph=True
        )
        for weight in (torch.ones_like(other), other)[: len(found)]
    ]
    for name, x, once, *again in zip(leaves, leaves.values(), *passes, strict=True):
        if once is None:
            raise ValueError(f"read returns a number that does not depend on {name}{HELD}")
        r = wide(x.detach()) * once
        if not r.isfinite().all():
            wrong = (~r.isfinite()).flatten(1).any(dim=1).nonzero()[:, 0].tolist()
            raise ValueError(
                f"non-finite relevance of {name} in examples {wrong}: a denominator is zero, or "
                f"{x.dtype} overflows; pass epsilon=1e-6, or the module and its inputs in float32"
            )
        weight = other.view(len(x), *[1] * (x.ndim - 1))
        unit = torch.finfo(once.dtype).eps ** 0.5
        for weighed in again:
            if (weighed - once * weight).abs().max() > unit * once.abs().max():
                raise ValueError(
                    f"numbers of some examples depend on {name} of others; pass one at a time"
                )
        yield r
