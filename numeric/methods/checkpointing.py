"""Runs layers once more in the backward pass, so that few activations are kept for it.

In the forward pass a layer keeps nothing but its input.  In the backward pass it runs again under
the same rules, one layer at a time.  Memory for activations is needed for one layer only, at the
price of a second forward pass.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten
from transformers import PreTrainedModel

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.engine.engine import Propagation
from lrp_axioms.numeric.engine.marks import Chain, carries, mark, marked
from lrp_axioms.numeric.models import patches
from lrp_axioms.numeric.models.places import numbered_layers


class Checkpointed(Propagation):
    """Applies ``composite`` to a twin of ``model`` whose numbered layers run again.

    Raises ValueError for a model without numbered layers, for layers whose results differ when they
    run again, and for a layer that reads activations of an earlier layer beside its input.
    """

    def __init__(self, model: PreTrainedModel, composite: Composite, *, eps: float = 0.0) -> None:
        paths = numbered_layers(model)
        twin = patches.twin(model)
        # Keys and values of the first run would be there in the second.
        patches.set_everywhere(twin.modules(), "use_cache", value=False)
        super().__init__(twin, composite, eps=eps)
        for path in paths:
            layer = twin.get_submodule(path)
            vars(layer)["forward"] = partial(self._run, path, layer.forward)

    def _run(self, path: str, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        parts, form = tree_flatten((args, kwargs))
        places = [n for n, x in enumerate(parts) if carries(x)]
        if not places or not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        xs = [self.book.settle(parts[n]) for n in places]
        constants = [None if n in places else x for n, x in enumerate(parts)]

        def run(xs: Sequence[Tensor]) -> tuple[list[Any], Any]:
            filled = constants.copy()
            for n, x in zip(places, xs, strict=True):
                filled[n] = x
            again, named = tree_unflatten(filled, form)
            return tree_flatten(forward(*again, **named))

        layer = _Layer(self, path, run)
        found = iter(_Again.apply(layer, *xs))
        outs = [marked(next(found), x.mark) if isinstance(x, _Mark) else x for x in layer.returned]
        if self.watch is not None:
            with torch._C.DisableTorchFunction():  # looking at them is no operation of the model
                self.watch.note(tuple(outs))
        return tree_unflatten(outs, layer.form)


Parts = Callable[[Sequence[Tensor]], tuple[list[Any], Any]]
"""Runs a layer on its inputs with relevance; returns its output in parts, and their form."""


class _Mark(NamedTuple):
    """Stands for a tensor with relevance that a layer returns, with its mark.

    A chain is no mark of it, because the chain's root is freed.
    """

    mark: object


class _Layer:
    """A layer of ``whole``; ``run`` returns its output in parts."""

    def __init__(self, whole: Propagation, path: str, run: Parts) -> None:
        self.whole, self.path, self.run = whole, path, run

    def outs(self, rules: Propagation, xs: Sequence[Tensor]) -> list[Tensor]:
        """Returns outputs with relevance; ``returned`` has a mark of each, and all others."""
        parts, self.form = self.run(xs)
        settled = [rules.book.settle(x) if carries(x) else x for x in parts]
        self.returned: list[Any] = [
            _Mark(None if type(mark(x)) is Chain else mark(x)) if carries(x) else x for x in settled
        ]
        return [x for x in settled if carries(x)]

    def check_alone(self, xs: Sequence[Tensor], outs: Sequence[Tensor]) -> None:
        """Raises ValueError where ``outs`` depend on an activation that is not in ``xs``."""
        if not {id(x) for x in leaves(outs)} <= {id(x) for x in xs}:  # weights have no gradients
            raise ValueError(
                f"{self.path} reads activations of an earlier layer beside its inputs, such as "
                "keys and values that layers share; leave out checkpoint=True"
            )

    def back(
        self, xs: Sequence[Tensor], outs: Sequence[Tensor], cs: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        """Returns the cotangents of ``xs``; ``cs`` belong to ``outs``, None where one is unused."""
        book = self.whole.book
        # Its operations were checked in the forward pass.
        with Propagation(self.whole.model, book.composite, eps=book.eps, part=True) as rules:
            again = self.outs(rules, xs)
        for x, out in zip(again, outs, strict=True):
            near = torch.finfo(out.dtype).eps ** 0.5
            if not torch.allclose(x, out, rtol=near, atol=near * out.abs().max().item()):
                raise ValueError(
                    f"{self.path} does not give the same when it runs again: leave out "
                    "checkpoint=True, by which layers run again on the way back"
                )
        used = [(x, c) for x, c in zip(again, cs, strict=True) if c is not None]
        ends, given = zip(*used, strict=True)
        return torch.autograd.grad(ends, xs, given, allow_unused=True)


def leaves(outs: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yields the first tensors of the graph of ``outs``."""
    seen, waiting = set[Any](), [x.grad_fn for x in outs]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [before for before, _ in node.next_functions]
            if (variable := getattr(node, "variable", None)) is not None:
                yield variable


class _Again(torch.autograd.Function):
    apply: Callable[..., tuple[Tensor, ...]]

    @staticmethod
    def forward(ctx: Any, layer: _Layer, *xs: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():  # rules act on tensors with gradients; the graph is freed
            own = [x.detach().requires_grad_() for x in xs]
            found = layer.outs(layer.whole, own)
        layer.check_alone(own, found)
        outs = tuple(x.detach() for x in found)
        ctx.layer, ctx.count = layer, len(xs)
        ctx.save_for_backward(*xs, *outs)
        ctx.set_materialize_grads(False)
        return outs

    @staticmethod
    def backward(ctx: Any, *cs: Tensor | None) -> tuple[Tensor | None, ...]:
        xs, outs = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        with torch.enable_grad():
            return None, *ctx.layer.back([x.detach().requires_grad_() for x in xs], outs, cs)
