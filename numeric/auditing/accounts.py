"""The accounts of one explained number: its ledger in float64, and verdicts about them."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.audit import Structure, Verdict, structure, verdicts
from lrp_axioms.axioms.composites import Composite, Operation
from lrp_axioms.axioms.graph import LEAVES, MOVE, Node, topological
from lrp_axioms.numeric.auditing import ledger as ledgers
from lrp_axioms.numeric.auditing.capture import Capture
from lrp_axioms.numeric.auditing.draft import WORD, Depth
from lrp_axioms.numeric.auditing.holding import hold
from lrp_axioms.numeric.auditing.meanings import LOGARITHM, OF_LEAVES
from lrp_axioms.numeric.models.places import check_overrides
from lrp_axioms.numeric.models.scans import scans
from lrp_axioms.numeric.reference import evaluate

Start: TypeAlias = tuple[float, np.ndarray]
"""The explained number, and the relevance of the root that it begins with."""
ROUNDING = 1e-3  # of the logits: more than float32 loses in a large model


@dataclass(frozen=True, eq=False, kw_only=True)
class Audit:
    """The accounts and verdicts of one logit's relevance; all in logits unless noted.

    target: its class, tag, token or position; a list for the terms of a sum
    relevance: (token,) at the whole embedding, before the first operation on it
    patches: (position,) of the images that come with the text, or None
    residual: logit minus the relevance of words: the causes and the other leaves add up to it
    forward_error: largest difference of the captured graph's logits, in float64, from the model's
    verdicts: statements proved, refuted or bounded of this explanation, with their operations
    seconds: by step
    """

    model: str
    composite: Composite
    epsilon: float
    target: int | list[int]
    logit: float
    relevance: np.ndarray
    residual: float
    captured: Capture
    ledger: ledgers.Ledger
    verdicts: tuple[Verdict, ...]
    structure: Structure
    forward_error: float
    seconds: Mapping[str, float]
    notes: tuple[str, ...] = field(default=())
    patches: np.ndarray | None = None

    def by_cause(self) -> dict[str, float]:
        """Splits the residual by cause: absorbed by operations, or received by leaves but words."""
        found: dict[str, float] = {}
        for line in self.lines():
            for cause, amount in line.absorbed.items():
                found[cause] = found.get(cause, 0.0) + amount
        for leaf, r in self.ledger.leaves.items():
            if leaf.attributes["role"] != WORD:
                name = OF_LEAVES[leaf.attributes["role"]]
                found[name] = found.get(name, 0.0) + float(r.sum())
        if beside := self.logit - self.ledger.started:
            found[LOGARITHM] = beside
        found[ledgers.NUMERICAL] = sum(line.numerical for line in self.ledger.lines)
        return dict(sorted(found.items(), key=lambda item: -abs(item[1])))

    def by_layer(self) -> dict[Depth, dict[str, float]]:
        """Sums absorbed relevance by layer and cause.

        Layers are numbers from 0, or such as "decoder.block 0" where a model has several stacks of
        layers; None is outside of layers.
        """
        return ledgers.totals(self.lines(), lambda line: line.node.attributes["depth"])

    def by_kind(self) -> dict[str, dict[str, float]]:
        """Sums absorbed relevance by kind of operation and cause."""
        return ledgers.totals(self.lines(), lambda line: line.kind)

    def lines(self) -> list[ledgers.Line]:
        """Returns the lines of the ledger, with causes named as in ``by_cause``."""
        return [
            replace(line, absorbed={cause_of(line, x): r for x, r in line.absorbed.items()})
            for line in self.ledger.lines
        ]

    def worst(self, count: int = 10) -> list[ledgers.Line]:
        """Returns the operations that absorb or make most relevance, as in ``lines``."""
        return sorted(self.lines(), key=size_of, reverse=True)[:count]


def size_of(line: ledgers.Line) -> float:
    """Returns the size of a line's absorbed relevance."""
    return sum(map(abs, line.absorbed.values()))


def account(
    model: nn.Module,
    captured: Capture,
    own: Tensor,
    composite: Composite,
    start: Callable[[np.ndarray], Start],
    *,
    epsilon: float,
    clock: dict[str, float],
) -> dict[str, Any]:
    """Returns the fields of an Audit that need no text: the ledger, its residual, the verdicts.

    ``own`` has the model's values of the root in float64, ``clock`` when the capture began.
    """
    notes = tuple(_notes(model, topological(captured.root)))
    clock["ledger"] = time.perf_counter()
    root = hold(captured.root, composite)
    order = topological(root)
    check_overrides(composite, [_operation(x) for x in order if x.op not in (*LEAVES, MOVE)])
    values = evaluate.forward(order, captured.values)
    error = float(abs(values[root].reshape(own.shape) - own.numpy()).max())
    _check_logits(model, error, own)
    logit, begun = start(values[root])
    found = ledgers.ledger(order, captured.values, values, composite, begun, eps=epsilon)
    clock["verdicts"] = time.perf_counter()
    absorbed = {(x.node, c): amount for x in found.lines for c, amount in x.absorbed.items()}
    missing = found.started - float(sum(r.sum() for r in found.leaves.values()))
    decided = verdicts(
        root, composite, eps=epsilon, absorbed=absorbed, started=found.started, missing=missing
    )
    clock["end"] = time.perf_counter()
    times = list(clock.values())
    words = [r for leaf, r in found.leaves.items() if leaf.attributes["role"] == WORD]
    return {
        "model": type(model).__name__,
        "composite": composite,
        "epsilon": epsilon,
        "logit": logit,
        "residual": logit - float(sum(r.sum() for r in words)),
        "captured": captured,
        "ledger": found,
        "forward_error": error,
        "verdicts": decided,
        "structure": structure(root),
        "seconds": {name: b - a for name, a, b in zip(clock, times, times[1:], strict=False)},
        "notes": notes,
    }


def _check_logits(model: nn.Module, error: float, own: Tensor) -> None:
    if not error <= ROUNDING * max(1.0, float(own.abs().max())):
        raise ValueError(
            f"the operations that were recorded of {type(model).__name__} do not compute its "
            f"logits, which are off by {error:.1e}: some of its code is not seen by torch; "
            "lrp-axioms plan lists what is"
        )


def refuse(model: nn.Module) -> None:
    """Raises ValueError for weights whose numbers the audit could not account for."""
    quantised = getattr(model, "is_quantized", False) or any(
        p.dtype in (torch.int8, torch.uint8) for p in model.parameters()
    )
    if quantised:
        raise ValueError(
            f"{type(model).__name__} has quantised weights, whose products hide their rounding; "
            "load it without quantization_config"
        )
    wide = (torch.float32, torch.float64)
    floats = (p.dtype for p in model.parameters() if p.is_floating_point())
    half = sorted({str(dtype) for dtype in floats if dtype not in wide})
    if half:
        raise ValueError(
            f"{type(model).__name__} is in half precision ({', '.join(half)}), which would be "
            "audited instead of the model; call model.float()"
        )


def _operation(node: Node) -> Operation:
    module = node.origin.module if node.origin else ""
    return Operation(kind=node.op, module=module, layer=node.attributes["layer"])


def _notes(model: nn.Module, order: Sequence[Node]) -> Iterator[str]:
    """Notes scans, which the ledger does not show, and parameters with several lines in it."""
    if scans(model):
        yield "what a scan selects by is held: it is no operation here, and gets no relevance"
    shared: dict[int, list[str]] = {}
    for path, p in model.named_parameters(remove_duplicate=False):
        shared.setdefault(id(p), []).append(path)
    for paths in shared.values():
        if len(paths) > 1:
            yield f"{' and '.join(paths)} are one parameter: each use has a line of its own"
    weights = [x.args[1] for x in order if x.op == kinds.LINEAR and len(x.args) > 1]
    uses = Counter(weight.name for weight in weights if weight.name in model.state_dict())
    for name, count in uses.items():
        if count > 1:
            yield f"{name} is used {count} times: each use has a line of its own"


def cause_of(line: ledgers.Line, cause: str) -> str:
    """Names the cause as reports do: a LayerNorm's bias is its beta."""
    return "LayerNorm beta" if (line.kind, cause) == (kinds.LAYER_NORM, "bias") else cause
