"""Audits any torch module: where the relevance of a number goes between it and named tensors."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.axioms.graph import Node
from lrp_axioms.numeric.auditing.accounts import Audit, account, refuse
from lrp_axioms.numeric.auditing.capture import Capture, finish
from lrp_axioms.numeric.auditing.draft import FIXED, WORD
from lrp_axioms.numeric.auditing.recorder import Recorder
from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.engine.rules import check_stabiliser
from lrp_axioms.numeric.methods.named_tensors import unreached
from lrp_axioms.numeric.methods.options import composite_of
from lrp_axioms.numeric.methods.tensor_runs import (
    Run,
    check_alone,
    checked,
    odd_arguments,
    open_run,
)
from lrp_axioms.numeric.models.checks import guarded_run
from lrp_axioms.numeric.targets.chosen import Rows


def of_tensors(
    module: nn.Module,
    inputs: Any,
    method: str | Composite = "cp-lrp",
    *,
    of: str | Iterable[str],
    read: Callable[[Any], Tensor],
    axes: int | tuple[int, ...] = (),
    epsilon: float = 0.0,
) -> Audit:
    """Accounts for the relevance of a number of one example, in float64.

    Arguments and errors are documented in ``attribute`` of named tensors and in ``audit``.
    ``relevance`` has the named tensors side by side, summed over ``axes``.
    """
    clock = {"capture": time.perf_counter()}
    _, composite, _ = composite_of(method, None)
    check_stabiliser(epsilon)
    if said := [*odd_arguments(of, read, axes)]:
        raise ValueError("\n".join(said))
    refuse(module)
    with outside(), torch.inference_mode(mode=False), torch.enable_grad():
        run = open_run(module, inputs, of)
        captured, leaves = _capture(module, run, read, axes)
    own = captured.rows.logits.double()
    start = lambda values: (float(values.sum()), values)
    found = account(module, captured, own, composite, start, epsilon=epsilon, clock=clock)
    reached = found["ledger"].leaves
    if missing := [leaf.name for leaf in leaves if leaf not in reached]:
        raise ValueError(unreached(*missing))
    parts = [torch.from_numpy(reached[leaf]) for leaf in leaves]
    flat = [r.sum(dim=axes) if axes != () else r for r in parts]
    return Audit(target=0, relevance=torch.cat([r.flatten() for r in flat]).numpy(), **found)


def _capture(
    module: nn.Module, run: Run, read: Callable[[Any], Tensor], axes: int | tuple[int, ...]
) -> tuple[Capture, list[Node]]:
    """Records the operations between the named tensors and the number, and their leaves."""
    recorder = Recorder(run.model)
    draft, block = recorder.draft, recorder.block
    leaves: dict[str, Node] = {}

    def begin(name: str, x: Tensor) -> None:
        leaves[name] = draft.leaf(x, WORD, name=name)
        draft.put(x, leaves[name])

    for name, x in run.leaves.items():
        if x is not None:  # an argument, whose copy the module reads
            begin(name, x)
            draft.put(run.copies[name], leaves[name])
    run.began = begin
    try:
        with guarded_run(module, run), block:
            number = block.end(read(run.call(run.model)))
            checked(run, number, axes)
            if not number.requires_grad:
                raise ValueError(unreached(*leaves))
            root = draft.node_of(number)
    finally:
        draft.calls.clear()  # their frames hold on to all that they computed
    if len(number) != 1:
        raise ValueError(f"the batch has {len(number)} examples; audit one at a time")
    check_alone(module, run.given, read, number)
    for leaf in recorder.words:  # words that are looked up past the named tensors
        about: Any = leaf.attributes  # a leaf that nothing else knows yet
        about["role"] = FIXED
    return finish(draft, root, Rows(number, None), ()), [leaves[name] for name in run.leaves]
