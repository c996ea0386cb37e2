"""Runs a method of rules, and after some calls of one shape its recorded operations alone."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.methods.lrp import lrp
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.replay.tape import Play, Recorder
from lrp_axioms.numeric.replay.unchanged import Snapshot, is_watched
from lrp_axioms.numeric.targets.readout import Found, Readout, Run

AFTER = 12  # calls of one shape that run as they are; the number doubles at every change
LARGEST = 8192  # tokens of a batch: beside more operations on tensors, Python takes no time
TAPES = 64  # of one model
SHAPES = 4096  # whose calls are counted
MOST_FAILURES = 12  # of a tape, which is dropped then
MODELS = 4
NO_TWIN = {"at": None, "positions": None, "channels": False, "checkpoint": False}
"""Options without which ``lrp`` runs the model itself, and returns nothing further."""


@dataclass(eq=False)
class Tape:
    """The operations of one call.

    proved: whether they have given the result of rules in all digits
    failures: number of last calls without a result
    """

    play: Play
    proved: bool = False
    failures: int = 0


@dataclass(eq=False)
class Memory:
    """The tapes of one model, the snapshot that they are of, and the calls of each shape."""

    snapshot: Snapshot | None = None
    tapes: dict[Hashable, Tape] = field(default_factory=dict)
    calls: Counter[Hashable] = field(default_factory=Counter)
    after: int = field(default_factory=lambda: AFTER)

    def forget(self, changed: Snapshot) -> None:
        """Drops everything after a change; of several threads that see the change, one does."""
        with TURN:
            if self.snapshot is changed:
                self.tapes, self.calls, self.snapshot = {}, Counter(), None
                self.after *= 2

    def count(self, key: Hashable) -> int:
        """Counts a call of one shape, and returns the number of such calls."""
        with TURN:
            if len(self.calls) > SHAPES:
                self.calls.clear()
            self.calls[key] += 1
            return self.calls[key]

    def keep(self, key: Hashable, play: Play) -> None:
        self.tapes[key] = Tape(play)
        for oldest in list(self.tapes)[:-TAPES]:
            self.tapes.pop(oldest, None)
            self.calls.pop(oldest, None)


MEMORIES: WeakKeyDictionary[PreTrainedModel, Memory] = WeakKeyDictionary()
TURN = Lock()


def call(run: Run, model: PreTrainedModel, batch: Batch, readout: Readout) -> list[Found]:
    """Returns ``run(model, batch, readout)``, by its recorded operations where there are some.

    Operations of a stock model (``is_stock``) are recorded after ``AFTER`` calls of one shape.
    They are used while nothing has changed (``Snapshot``), and only after they gave the result of
    the next call in all digits.
    """
    shape = None if is_watched() else _shape(run, batch, readout)
    if shape is None:
        return list(run(model, batch, readout))
    key, inputs = shape
    memory = _memory_of(model)
    snapshot = memory.snapshot
    if snapshot is not None and not snapshot.is_current(model):
        memory.forget(snapshot)
    tape = memory.tapes.get(key)
    replayed = None if tape is None else _replayed(tape, inputs)
    if tape is not None and tape.proved and replayed is not None:
        tape.failures = 0
        return replayed
    if tape is not None and replayed is None:  # other values than at the record
        tape.failures += 1
        if tape.failures >= MOST_FAILURES:
            memory.tapes.pop(key, None)
    if memory.count(key) == memory.after + 1 and tape is None:
        return _recorded(memory, key, inputs, run, model, batch, readout)
    found = list(run(model, batch, readout))
    if tape is not None and replayed is not None:
        tape.proved = all(map(_are_equal, found, replayed))
        if not tape.proved:
            memory.tapes.pop(key, None)
    return found


def _memory_of(model: PreTrainedModel) -> Memory:
    with TURN:
        if model not in MEMORIES:
            while len(MEMORIES) >= MODELS:
                del MEMORIES[next(iter(MEMORIES))]
            MEMORIES[model] = Memory()
        return MEMORIES[model]


def _shape(run: Run, batch: Batch, readout: Readout) -> tuple[Hashable, list[Tensor]] | None:
    """Returns a call's tensors, and everything else that a tape is of beside the model.

    None for a call that is not recorded.
    """
    given: dict[str, Any] = getattr(run, "keywords", {})
    own = {name: x for name, x in given.items() if name not in NO_TWIN or x is not NO_TWIN[name]}
    known = getattr(run, "func", None) is lrp and own.keys() <= {"composite", "epsilon", "share"}
    text = batch.pixel_values is None and batch.input_features is None
    if not known or not text or sum(x.numel() for x in batch.texts) > LARGEST:
        return None
    rules: Composite = own.pop("composite")
    if type(rules) is not Composite:  # whose methods may choose rules by more than its tables
        return None
    overrides = [{x: dict(table) for x, table in t.items()} for t in (rules.layers, rules.modules)]
    records = [vars(batch), batch.others, *map(vars, readout.targets)]
    named = [(n, name, x) for n, each in enumerate(records) for name, x in each.items()]
    tensors = [(n, name, x) for n, name, x in named if isinstance(x, Tensor)]
    layouts = tuple((n, name, x.shape, x.stride(), x.dtype, x.device) for n, name, x in tensors)
    padded = bool((batch.attention_mask != 1).any())  # else models skip the mask
    key = repr((own, dict(rules.rules), overrides)), readout.head, len(records), layouts, padded
    return key, [x for *_, x in tensors]


def _recorded(
    memory: Memory,
    key: Hashable,
    inputs: Sequence[Tensor],
    run: Run,
    model: PreTrainedModel,
    *others: Any,
) -> list[Found]:
    """Runs rules, and keeps their operations if these are all that the result depends on."""
    snapshot = memory.snapshot or Snapshot.of(model)
    if snapshot is None:
        return list(run(model, *others))
    with Recorder(inputs, snapshot.weights) as recorder:
        found = list(run(model, *others))
    more = any(isinstance(x, Tensor) for each in found for x in each.details.values())
    play = None if more else recorder.tape([x for each in found for x in each[:3]])
    if play is not None and snapshot.is_current(model):
        memory.snapshot = snapshot
        memory.keep(key, play)
    return found


def _replayed(tape: Tape, inputs: Sequence[Tensor]) -> list[Found] | None:
    """Returns the result of a tape, or None where the rules have to run."""
    try:
        with torch.no_grad(), torch._C._AutoDispatchBelowAutograd():
            ends = tape.play(*inputs)
    except RuntimeError:  # such as too little memory, which the rules then report
        return None
    if ends is None:
        return None
    thirds = (ends[n : n + 3] for n in range(0, len(ends), 3))
    return [Found(relevance, target, logit, {}) for relevance, target, logit in thirds]


def _are_equal(one: Found, other: Found) -> bool:
    return all(torch.equal(x, y) for x, y in zip(one[:3], other[:3], strict=True))
