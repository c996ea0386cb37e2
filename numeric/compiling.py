"""LRP for many batches: both passes as one compiled graph, traced once for each shape.

The compiler cannot look into the rules, but ``make_fx`` sees both passes under the rules as plain
operations on tensors; these are compiled.  Weights are attributes of the graph.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import Any, Literal

import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from transformers import PreTrainedModel

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.attribution import run_method
from lrp_axioms.numeric.engine.rules import check_stabiliser, wide
from lrp_axioms.numeric.methods.lrp import check_share, lrp
from lrp_axioms.numeric.methods.options import builtin, composite_of
from lrp_axioms.numeric.models import heads
from lrp_axioms.numeric.models.batches import DECODER, Batch
from lrp_axioms.numeric.models.checks import check_model
from lrp_axioms.numeric.models.facts import ModelFacts, facts_of
from lrp_axioms.numeric.models.heads import CLASSES, NEXT
from lrp_axioms.numeric.models.patches import is_altered
from lrp_axioms.numeric.results.result import GRID, Attribution
from lrp_axioms.numeric.targets import Label, Target
from lrp_axioms.numeric.targets.chosen import PREDICTED, Rows
from lrp_axioms.numeric.targets.readout import Found, Readout, Run

Graph = Callable[..., tuple[Tensor, Tensor]]
"""Takes the tensors of a batch and the target; returns relevance and logits."""
Serves = Callable[[Sequence[Tensor]], bool]
"""Decides whether a graph can be used for tensors."""


class _Whole(Batch):
    """A batch without padding, which attends without a mask.

    Stock code checks whether a mask hides anything, and a graph cannot: it would always attend with
    a mask, and GPUs' kernels for masks are slower.
    """

    def arguments(self) -> dict[str, Tensor]:
        return {key: x for key, x in super().arguments().items() if key != "attention_mask"}


@contextmanager
def compiled(
    model: PreTrainedModel,
    method: str | Composite = "attnlrp",
    *,
    epsilon: float = 0.0,
    share: str | None = None,
    **options: Any,
) -> Iterator[Callable[..., Attribution]]:
    """Yields ``explain(inputs, target=None)``, which runs ``attribute`` by ``torch.compile``.

    ``method`` is "attnlrp", "cp-lrp", "gradient-x-input" or a Composite; ``epsilon`` and ``share``
    are described in ``lrp_axioms.numeric.methods.lrp``; ``options`` go to ``torch.compile``
    (``dynamic``, ``mode``, ``backend``...).  The first batch of a shape, with padding or without,
    waits for the compiler, half a minute or more; relevance equals the relevance by ``attribute``
    up to rounding.
    With ``dynamic=True`` one graph serves all shapes that take one path through the model's code.
    The graph shares the model's weights and sees every write into them; it does not see modules
    that are replaced inside the block.
    Raises the errors of ``attribute``, and ValueError for methods that are no rules.
    """
    known = list(inspect.signature(torch.compile).parameters)[1:]  # behind the model
    unknown = [name for name in options if name not in known]
    if unknown:
        raise TypeError(
            f"compiled() has no option {', '.join(map(repr, unknown))}; it has epsilon, share and "
            f"those of torch.compile: {', '.join(known)}"
        )
    name, composite, share = composite_of(method, share)
    check_share(share)
    modules = check_model(model)
    if is_altered(model):
        raise ValueError(
            "hooks or replaced forwards run while a graph is traced, and never again; call "
            "attribute(), or remove them for the block"
        )
    check_stabiliser(epsilon, model.dtype)
    used: dict[str, Any] = {"epsilon": builtin(epsilon), "share": share}
    graphs = _Graphs(partial(lrp, composite=composite, **used), options)
    ended: list[bool] = []
    head = facts_of(model).head

    def explain(inputs: Mapping[str, Tensor], target: Label | Target = None) -> Attribution:
        if isinstance(inputs, Mapping) and inputs.get(DECODER) is not None:
            raise ValueError(f"inputs has {DECODER}: graphs are of one text; call attribute()")
        if isinstance(target, Target) or head not in (CLASSES, NEXT):
            raise ValueError(
                f"target={target!r}: graphs explain a class, or a language model's next token, of "
                f"{type(model).__name__}: call attribute()"
            )
        if ended:
            raise RuntimeError(
                "the block of compiled() has ended, and with it the rules; call inside the block, "
                "or open another"
            )
        how: dict[str, Any] = {"modules": modules, "composite": composite}
        return run_method(model, inputs, [target], name, graphs.run, used, **how)[0]

    try:
        yield explain
    finally:
        ended.append(True)


class _Graphs:
    """The graphs of one block, by shape and kind of batch."""

    def __init__(self, plain: Run, options: dict[str, Any]) -> None:
        self.plain, self.options = plain, {"fullgraph": True} | options
        self.mode: Literal["symbolic", "fake"] = "symbolic" if options.get("dynamic") else "fake"
        self.found: dict[tuple[object, ...], list[tuple[Serves, Graph]]] = {}
        self.grids: dict[torch.Size | None, dict[str, Tensor]] = {}  # by shape of images
        self.turn = RLock()  # neither the tracer nor the compiler is for several threads

    def run(self, model: PreTrainedModel, batch: Batch, readout: Readout) -> Iterator[Found]:
        """Runs ``lrp`` by a graph that takes the class as an input; -1 is the predicted class."""
        mask = batch.of_text().attention_mask
        label = readout.targets[0].label[:, 0]
        inputs = {key: x for key, x in vars(batch).items() if isinstance(x, Tensor)}
        inputs["target"] = torch.where(label == PREDICTED, -1, label)
        kind = _Whole if (mask == 1).all() else Batch
        with self.turn, torch.no_grad():
            shape = None if batch.pixel_values is None else batch.pixel_values.shape[1:]
            if shape not in self.grids:  # refuses calls without a rule; slopes at 0 get known
                (found,) = self.plain(model, batch, readout)
                self.grids[shape] = {key: x for key, x in found.details.items() if key == GRID}
            graph = self._graph(model, kind, batch.facts, inputs)
            relevance, logits = (x.clone() for x in graph(*inputs.values()))  # it uses them again
        rows = Rows(logits, None)
        # Logits hold only the explained row.
        targets = [replace(each, row=torch.zeros_like(each.row)) for each in readout.targets]
        (chosen,) = replace(readout, targets=targets).choose(rows).targets
        grid = {key: x.clone() for key, x in self.grids[shape].items()}
        yield Found(relevance, chosen.target, chosen.of(rows), grid)

    def _graph(
        self,
        model: PreTrainedModel,
        kind: type[Batch],
        facts: ModelFacts,
        inputs: Mapping[str, Tensor],
    ) -> Graph:
        tensors = list(inputs.values())
        of_kind = (kind, *((key, x.dtype, x.device) for key, x in inputs.items()))
        found = self.found.setdefault(of_kind, [])
        for serves, graph in found:
            if serves(tensors):
                return graph
        both_ways = partial(self._both_ways, model, partial(kind, facts=facts), list(inputs))
        trace = make_fx(both_ways, tracing_mode=self.mode, _allow_non_fake_inputs=True)
        try:
            traced = trace(*tensors)
        except RuntimeError as error:  # tensors without values
            raise RuntimeError(
                f"{type(model).__name__} computes different things by the values of tensors, which "
                f"one graph cannot ({error}); call attribute()"
            ) from error
        found.append((_serves(traced), torch.compile(traced, **self.options)))
        return found[-1][1]

    def _both_ways(
        self,
        model: PreTrainedModel,
        kind: Callable[..., Batch],
        names: Sequence[str],
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        inputs = dict(zip(names, tensors, strict=True))
        target = inputs.pop("target")
        readout: Any = _Traced(kind(**inputs), target)  # in place of a Readout
        (found,) = self.plain(model, readout.batch, readout)
        return found.relevance, *readout.seen


class _Traced:
    """A ``Readout`` of one target, a class that is an input of the graph; it looks at no values."""

    def __init__(self, batch: Batch, target: Tensor) -> None:
        self.batch, self.target = batch, target
        self.seen: list[Tensor] = []
        self.targets = [self]

    def run(
        self,
        model: PreTrainedModel,
        inputs: Mapping[str, object],
        *,
        settle: Callable[[Tensor], Tensor],
    ) -> Rows:
        head = self.batch.facts.head
        logits = settle(heads.read(model, model(**inputs), of=head))
        if head == NEXT:
            example = torch.arange(len(logits), device=logits.device)
            logits = logits[example, self.batch.known_read]
        return Rows(logits, None)

    def choose(self, rows: Rows) -> "_Traced":
        logits = wide(rows.logits.detach())
        self.seen.append(logits[:, None])
        given = self.target.clamp(max=logits.shape[1] - 1)  # out of range is refused behind it
        self.target = torch.where(self.target < 0, logits.argmax(dim=1), given)
        return self

    def of(self, rows: Rows) -> Tensor:
        return wide(rows.logits).gather(1, self.target[:, None])[:, 0]


def _serves(graph: GraphModule) -> Serves:
    """Returns the test whether a shape of inputs would have been traced to the same ``graph``."""
    inputs = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    shapes = inputs[0].fake_mode.shape_env
    code = shapes.produce_guards_expression(inputs, ignore_static=False)
    return lambda tensors: code is None or shapes.evaluate_guards_expression(code, tensors)
