"""A stock model as a computation graph: which operations its code performs on this input."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.axioms.graph import LEAVES, Node, topological
from lrp_axioms.numeric.auditing.draft import TYPE, Depth, Draft
from lrp_axioms.numeric.auditing.recorder import Recorder
from lrp_axioms.numeric.engine import packed
from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.engine.entry import Entry
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.models.checks import guarded_run
from lrp_axioms.numeric.targets.chosen import Rows
from lrp_axioms.numeric.targets.readout import Readout


@dataclass(frozen=True, eq=False, kw_only=True)
class Capture:
    """A graph that computes logits, with the values of its leaves.

    The root has the shape (example, class), or (example, row, class) for several rows.
    rows: the model's own logits, with an axis of rows
    values: of every leaf, on the CPU
    entries: where words or pixels enter, each with the node of the whole embedding
    signatures: by layer, the digest of its operations and connections; sizes and fixed
        numbers are not in it, so that a toy and a real model have one signature
    """

    root: Node
    rows: Rows
    values: Mapping[Node, Tensor]
    entries: tuple[tuple[Entry, Node], ...]
    signatures: Mapping[Depth, str]


def capture(model: PreTrainedModel, batch: Batch, readout: Readout | None = None) -> Capture:
    """Records the operations of ``model`` on this batch; the model is left as it was.

    Fused attention is recorded as a product, a softmax and a product.
    Raises UnassignedOperation for functions outside of the closed table, all of them listed with
    their places, and ValueError for a model that fails by itself.
    """
    model = packed.unpack(model)
    readout = readout or Readout.of(model, batch, [None])
    ends: list[Node] = []

    def settle(logits: Tensor) -> Tensor:
        logits = block.book.settle(logits)
        ends.append(draft.node_of(logits))
        return logits

    with outside(), torch.inference_mode(mode=False), torch.enable_grad():
        recorder = Recorder(model)
        draft, block = recorder.draft, recorder.block
        try:
            with readout.one_draw(model, batch), guarded_run(model, batch), block:
                rows = readout.run(model, batch.arguments(), settle=settle)
        finally:
            draft.calls.clear()  # their frames hold on to all that they computed
    (root,) = ends
    for leaf, entry in recorder.words.items():
        if entry not in block.entries.found:  # token types that are looked up among words
            about: Any = leaf.attributes  # a leaf that nothing else knows yet
            about["role"] = TYPE
    entries = [(entry, draft.node_of(entry.embedding)) for entry in block.entries.found]
    return finish(draft, root, rows, entries)


def finish(draft: Draft, root: Node, rows: Rows, entries: Sequence[tuple[Entry, Node]]) -> Capture:
    """Moves a drafted graph and its values to the CPU."""
    at = rows.columns
    return Capture(
        root=root,
        rows=Rows(rows.logits.detach().cpu(), None if at is None else at.cpu()),
        values={x: draft.values[x].cpu() for x in topological(root) if x.op in LEAVES},
        entries=tuple(entries),
        signatures=_signatures(draft.trace),
    )


def _signatures(trace: Iterable[tuple[Any, ...]]) -> dict[Depth, str]:
    layers: dict[Depth, list[list[Any]]] = {}
    for layer, *rest in trace:
        layers.setdefault(layer, []).append(rest)
    digest: Callable[[list[Any]], str] = lambda rows: hashlib.sha256(
        repr(rows).encode()
    ).hexdigest()[:16]
    return {layer: digest(rows) for layer, rows in layers.items()}
