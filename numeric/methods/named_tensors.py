"""Relevance of named tensors of any torch module: of inputs, or of outputs of modules in it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.engine.engine import Propagation
from lrp_axioms.numeric.engine.rules import check_stabiliser, wide
from lrp_axioms.numeric.methods.options import builtin, composite_of
from lrp_axioms.numeric.methods.tensor_runs import check_alone, checked, odd_arguments, open_run
from lrp_axioms.numeric.models.checks import guarded_run
from lrp_axioms.numeric.results.result import Attribution

HELD = (
    " by these rules, but perhaps through what they hold, or through another named tensor; name "
    "one tensor, or pass 'gradient-x-input'"
)


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
    ``of`` is an argument, or the path of a module whose output is meant, such as an embedding;
    ``"lstm[0]"`` is the first of several tensors, ``"args[1]"`` the second of ``*args``.
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
    epsilon = builtin(epsilon)
    check_stabiliser(epsilon, torch.float32)
    if said := [*odd_arguments(of, read, axes)]:
        raise ValueError("\n".join(said))
    with outside(), torch.inference_mode(mode=False), torch.enable_grad():
        run = open_run(module, inputs, of)
        rules = Propagation(run.model, composite, eps=epsilon)
        with torch.autocast(run.device.type, enabled=False):
            with guarded_run(module, run), rules:
                found = rules.end(read(run.call(run.model)))
            leaves = checked(run, found, axes)
            check_alone(module, run.given, read, found)
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
        number="number",
    )


def unreached(*names: str) -> str:
    return f"read returns a number that does not depend on {' or '.join(names)}{HELD}"


def _relevance(found: Tensor, leaves: Mapping[str, Tensor]) -> Iterator[Tensor]:
    """Yields relevance of every leaf, from one backward pass, or two if there are examples.

    The second pass weighs every example otherwise, which weighs its own gradients alike.
    """
    if not found.requires_grad:
        raise ValueError(unreached(*leaves))
    chance = torch.Generator().manual_seed(0)
    other = 1 + torch.rand(len(found), device="cpu", generator=chance).to(found)
    passes = [
        torch.autograd.grad(
            (found * weight).sum(), [*leaves.values()], allow_unused=True, retain_graph=True
        )
        for weight in (torch.ones_like(other), other)[: len(found)]
    ]
    for name, x, once, *again in zip(leaves, leaves.values(), *passes, strict=True):
        if once is None:
            raise ValueError(unreached(name))
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
