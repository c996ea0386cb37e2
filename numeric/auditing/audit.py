"""Audits one model on one input: where relevance goes, and whether it is kept."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.auditing import ledger as ledgers
from lrp_axioms.numeric.auditing.accounts import Audit, Start, account, refuse
from lrp_axioms.numeric.auditing.capture import Capture, capture
from lrp_axioms.numeric.auditing.named_tensors import of_tensors
from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.engine.entry import of_tokens
from lrp_axioms.numeric.engine.rules import check_stabiliser
from lrp_axioms.numeric.methods.amplification import amplified, tested
from lrp_axioms.numeric.methods.image_relevance import by_patch
from lrp_axioms.numeric.methods.options import builtin, composite_of
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.targets import Label, Target
from lrp_axioms.numeric.targets.chosen import Chosen, Rows
from lrp_axioms.numeric.targets.readout import Readout


@torch.inference_mode(mode=False)  # its tensors take part in no gradient
def audit(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    method: str | Composite = "attnlrp",
    target: Label | Target = None,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    epsilon: float = 0.0,
    **named: Any,
) -> Audit:
    """Captures a model on one example and accounts for its relevance in float64 (Eqs. 1-5).

    Takes the arguments of ``attribute``, for one example and a method by rules; ``epsilon`` is the
    stabiliser, 0 for the limit.  Any other torch module is audited with ``of``, ``read`` and
    ``axes``, which name tensors and a number as for ``attribute``.  The model is left as it was.
    Raises ValueError for a model that cannot be captured, UnassignedOperation and LookupError for
    operations without a rule in the method or in the ledger, all of them listed, and
    ZeroDivisionError where the limit does not exist.
    """
    epsilon = builtin(epsilon)
    if named:
        if target is not None or tokenizer is not None:
            raise ValueError("target and tokenizer would be ignored: `read` returns the number")
        return of_tensors(model, inputs, method, epsilon=epsilon, **named)
    clock = {"capture": time.perf_counter()}
    _, composite, _ = composite_of(method, None)
    check_stabiliser(epsilon)
    batch = prepare(model, inputs, targets=[target])
    refuse(model)
    _one_text(batch)
    readout = Readout.of(model, batch, [target], tokenizer=tokenizer)
    captured = capture(model, batch, readout)
    own = captured.rows.logits.double()
    (chosen,) = readout.to(torch.device("cpu")).choose(captured.rows._replace(logits=own)).targets
    start: Callable[[np.ndarray], Start] = lambda logits: _start(chosen, captured.rows, logits)
    found = account(model, captured, own, composite, start, epsilon=epsilon, clock=clock)
    relevance, patches = _by_token(captured, found["ledger"], batch)
    logit = torch.tensor([found["logit"]], device="cpu")
    each = [(composite, torch.from_numpy(relevance)[None], logit)]
    with outside(), torch.autocast(batch.device.type, enabled=False):
        find = partial(amplified, model, batch, readout, each, epsilon=epsilon, share="word")
        if said := tested(find):
            found["notes"] = (*found["notes"], said)
    return Audit(target=chosen.target[0].tolist(), relevance=relevance, patches=patches, **found)


def _start(chosen: Chosen, rows: Rows, logits: np.ndarray) -> tuple[float, np.ndarray]:
    """Returns the explained number, and the relevance of the logits: each times its gradient."""
    values = torch.from_numpy(logits).reshape(rows.logits.shape).requires_grad_()
    number = chosen.of(rows._replace(logits=values)).sum()
    with torch.no_grad():
        (gradient,) = torch.autograd.grad(number, values)
        return float(number), (gradient * values).reshape(logits.shape).numpy()


def _by_token(
    captured: Capture, found: ledgers.Ledger, batch: Batch
) -> tuple[np.ndarray, np.ndarray | None]:
    """Reads relevance as ``attribute`` does: at the sum of embeddings, before anything else."""
    nodes = [node for _, node in captured.entries]
    nothing = [np.zeros(node.attributes["shape"]) for node in nodes]
    arrived = map(found.received.get, nodes, nothing)
    whole = [torch.from_numpy(r) for r in arrived]
    entries = [entry for entry, _ in captured.entries]
    of_token = of_tokens(entries, whole, batch.texts)
    relevance: np.ndarray = of_token.sum(dim=-1).numpy()[0]
    patches = by_patch(entries, whole, 1).numpy()[0] if batch.mixed else None
    return relevance, patches


def _one_text(batch: Batch) -> None:
    size = len(batch.attention_mask)
    if size != 1:
        raise ValueError(f"the batch has {size} examples; audit one text at a time")
    if not batch.attention_mask[0, :1].all():
        raise ValueError(
            "attention_mask hides the first token, whose row of causal attention then has no key; "
            "leave padding on the left out, since an audit takes one text"
        )
