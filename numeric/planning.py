"""Lists the operations of a model that a rule of LRP acts on, in order."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite, Operation, UnassignedOperation
from lrp_axioms.numeric.engine import packed
from lrp_axioms.numeric.engine.at_output import RULES
from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.engine.calls import Call, Called
from lrp_axioms.numeric.engine.engine import Propagation
from lrp_axioms.numeric.engine.marks import Args, Function, Key, Kwargs, is_curved, mark
from lrp_axioms.numeric.engine.operations import ATTENTION, FUNCTION, ROLES
from lrp_axioms.numeric.engine.rulebook import Step
from lrp_axioms.numeric.methods.options import composite_of
from lrp_axioms.numeric.methods.tensor_runs import Run, open_run
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.models.checks import guarded_run
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.models.places import LAYER, Places

MOST = 20  # lines of a summary
UNKNOWN = "unknown"  # kind of a function that is in no table


@dataclass(frozen=True, kw_only=True)
class PlannedOperation(Operation):
    """One operation, the torch functions that compute it, and the rule that will act there."""

    function: str
    line: str  # of the model's code: file:number
    rule: str | None = None  # None: no rule, and the model is refused


Row = tuple[str, str, str, str, str]
"""The printed columns of an operation: kind, rule, function, module, line of code."""


@dataclass(frozen=True)
class Plan:
    """All operations of one model in the order of execution; ``print`` shows it on a screen.

    refusal: the error of ``attribute``, if some operations have no rule
    """

    model: str
    method: str
    operations: tuple[PlannedOperation, ...]
    refusal: str | None

    def __str__(self) -> str:
        head = f"{self.model} by {self.method}: {len(self.operations)} operations"
        lacking = sum(op.rule is None for op in self.operations)
        return "\n".join([head + f", {lacking} without a rule" * bool(lacking), *_text(self)])


def plan(
    model: nn.Module,
    inputs: Any,
    method: str | Composite = "attnlrp",
    *,
    of: str | Iterable[str] | None = None,
) -> Plan:
    """Lists the operations and rules of ``attribute(model, inputs, method)`` at epsilon 0.

    Takes one forward pass and explains nothing.  Operations without a rule are listed, too.
    ``of`` names tensors of a torch module that is no Transformers model, as in ``attribute``.
    Raises ValueError (bad inputs; rules for layers or modules that the model does not have).
    """
    _, rules, _ = composite_of(method, None)
    with outside(), torch.inference_mode(mode=False), torch.enable_grad():
        run: Batch | Run = open_run(model, inputs, of) if of else prepare(cast(Any, model), inputs)
        opened, refusal = run.model if isinstance(run, Run) else packed.unpack(model), None
        planner = _Planner(opened, rules)
        try:
            with guarded_run(opened, run), planner.block as block:
                out = run.call(opened)
                for x in out.values() if isinstance(out, Mapping) else tree_leaves(out):
                    if isinstance(x, Tensor):
                        block.end(x)  # lets the rules act that wait for a use
        except UnassignedOperation as error:
            if error.__cause__ is not None:  # the model failed in mid-pass
                raise
            refusal = str(error)
        if isinstance(run, Run) and not refusal and (faults := [*run.faults()]):
            raise ValueError("\n".join(faults))
    return Plan(type(model).__name__, rules.name, planner.planned, refusal)


def summary(found: Plan) -> str:
    """Counts the operations of each kind and rule."""
    counts = Counter((op.kind, op.rule or "no rule") for op in found.operations)
    lines = [f"{n:6}  {kind:14}  {rule}" for (kind, rule), n in counts.most_common(MOST)]
    lacking = sum(op.rule is None for op in found.operations)
    head = f"{found.model} by {found.method}: {len(found.operations)} operations"
    return "\n".join([head + f", {lacking} without a rule" * bool(lacking), *lines])


class _Lines(Places):
    """Places with their lines of code, and with the function that runs there."""

    function = ""

    def operations(self, kind: str) -> list[PlannedOperation]:
        function, line = self.function, self.line()
        places = super().operations(kind)
        return [PlannedOperation(**vars(x), function=function, line=line) for x in places]


class _Planner:
    """Records the rule of every operation of one pass, and every refusal."""

    def __init__(self, model: nn.Module, composite: Composite) -> None:
        self.places, self.composite = _Lines(model), composite
        self.of_place: list[tuple[Operation, PlannedOperation]] = []
        self.block = Propagation(model, composite, places=self.places)
        self.block.book.asks = True
        self.block.observe(
            called=self.called, rule=self.rule, settle=self.settle, note_refusal=self.refusal
        )

    def called(self, go: Called, call: Call, func: Function, args: Args, kwargs: Kwargs) -> Any:
        around, self.places.function = self.places.function, call.name
        try:
            return go(call, func, args, kwargs)
        finally:
            self.places.function = around

    def rule(self, go: Step, kind: str, places: Sequence[Operation] | None = None) -> str:
        known = cast(Sequence[PlannedOperation], places or self.places.operations(kind))
        place = known[0]
        if kind in (kinds.SCORES, kinds.BILINEAR) and ROLES.get(place.function) != ATTENTION:
            place = replace(place, function="matmul")  # its user decides on its kind
        rule = self.composite.rule(kind, layer=place.layer, module=place.module)
        rule = rule if (kind, rule) in RULES else None
        self.of_place.append((known[0], replace(place, rule=rule)))
        return str(go(kind, known))

    def settle(self, go: Step, x: Tensor, kind: str = kinds.BILINEAR) -> Tensor:
        chain = mark(x)
        if is_curved(x) and chain.settled is None:
            function = _functions(chain.key)
            chain.places = [replace(place, function=function) for place in chain.places]
        settled: Tensor = go(x, kind)
        return settled

    def refusal(self, go: Step, what: str, *words: object) -> None:
        go(what, *words)
        place = self.places.operations(UNKNOWN)[0]
        self.of_place.append((place, replace(place, function=what.format(*words))))

    @property
    def planned(self) -> tuple[PlannedOperation, ...]:
        """Planned operations without the recorded ones that turned out to be held."""
        kept = {id(x) for x in self.block.book.recorded}
        return tuple(op for x, op in self.of_place if op.kind == UNKNOWN or id(x) in kept)


def _functions(key: Key) -> str:
    """Names the activation functions of a chain; for x * x, the product."""
    names = [name for name in dict.fromkeys(_names(key)) if ROLES.get(name) == FUNCTION]
    return ", ".join(names) or key[0]


def _names(key: Key) -> Iterator[str]:
    for part in key[1:]:
        if isinstance(part, tuple):
            yield from _names(part)
    yield key[0]


def _text(plan: Plan) -> Iterator[str]:
    """Yields the operations by layer; layers with equal rows are one paragraph."""
    folded: dict[tuple[str, tuple[Row, ...]], list[tuple[int | None, Counter[Row]]]] = {}
    for (stem, layer), run in groupby(plan.operations, _layer):
        counts = Counter(_line(op, stem) for op in run)
        folded.setdefault((stem, tuple(counts)), []).append((layer, counts))
    rows = [row for _, lines in folded for row in lines]
    widths = [max((len(row[k]) for row in rows), default=0) for k in range(4)]
    for (stem, lines), found in folded.items():
        yield f"\n{_title(stem, [layer for layer, _ in found])}"
        for row in lines:
            words = "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=False))
            yield f"  {words}  {row[-1]}{_times([counts[row] for _, counts in found])}"


def _layer(op: PlannedOperation) -> tuple[str, int | None]:
    """Returns the path of the stack of layers that holds an operation, and its layer's number."""
    found = LAYER.search(op.module)
    return (op.module[: found.start(1) - 1], op.layer) if found else ("", None)


def _line(op: PlannedOperation, stem: str) -> Row:
    module = op.module.removeprefix(f"{stem}.{op.layer}").strip(".") if stem else op.module
    return (
        op.kind,
        op.rule or "no rule",
        op.function,
        module or ("(itself)" if stem else "(root)"),
        op.line,
    )


def _title(stem: str, layers: Sequence[int | None]) -> str:
    if not stem:
        return "outside of the layers" + f", {len(layers)} times" * (len(layers) > 1)
    numbers = sorted({layer for layer in layers if layer is not None})
    runs = groupby(enumerate(numbers), lambda item: item[1] - item[0])
    spans = [[number for _, number in run] for _, run in runs]
    words = ", ".join(f"{s[0]} to {s[-1]}" if len(s) > 1 else str(s[0]) for s in spans)
    return f"layer{'s' * (len(numbers) > 1)} {words} of {stem}"


def _times(counts: Sequence[int]) -> str:
    few, many = min(counts), max(counts)
    if many == 1:
        return ""
    return f" x {many}" if few == many else f" x {few} to {many}"
