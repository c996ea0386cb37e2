"""Checks where tokens of a text meet in a model: only in known attention, or in other places."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.engine.attended import Attended
from lrp_axioms.numeric.engine.entry import Entry, of_tokens
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.models.heads import ANSWER, CLASSES
from lrp_axioms.numeric.models.identity import Code
from lrp_axioms.numeric.targets.chosen import Rows
from lrp_axioms.numeric.targets.readout import Readout

KNOWN: dict[tuple[Code | None, tuple[str, ...]], None] = {}
"""Code and places of attention of stock models whose tokens meet in attention alone.

``code_of_stock`` compares a model with its class and config before it is looked up here.
"""
MOST = 64  # entries of KNOWN
INSTEAD = 'pass another method, such as "loo" or "attnlrp"'


def check_text(model: PreTrainedModel, batch: Batch) -> None:
    name = type(model).__name__
    if batch.input_ids is None:
        raise ValueError(f"{name} reads no text, and has no mask of tokens; {INSTEAD}")
    if batch.facts.two:
        raise ValueError(f"{name} attends to two texts, in an encoder and a decoder; {INSTEAD}")


def of_all_tokens(
    model: PreTrainedModel, batch: Batch, attended: Sequence[Attended]
) -> tuple[list[int], str]:
    """Returns the calls that attend from each token to every token, and a list of all others."""
    count, tokens = batch.ids.shape
    calls: list[int] = []
    others: dict[str, None] = {}
    for n, x in enumerate(attended):
        shape = x.shape(count)
        if x.readouts and shape is not None and shape[2] == tokens <= shape[3]:
            calls.append(n)
        elif x.readouts:  # a softmax over experts weighs no values
            others[f"\n  {x.place}: weights {x.size}"] = None
    listed = "".join(others)
    if not calls:
        raise ValueError(
            f"{type(model).__name__} has no attention by a softmax from each of {tokens} tokens to "
            f"all of them{', but' if others else ''}{listed}\n{INSTEAD}"
        )
    return calls, listed


def is_known(code: Code, layers: Sequence[Attended]) -> bool:
    return (code, tuple(x.place for x in layers)) in KNOWN


def remember(code: Code | None, layers: Sequence[Attended]) -> None:
    if code is not None:
        KNOWN[code, tuple(x.place for x in layers)] = None
    for oldest in list(KNOWN)[:-MOST]:
        KNOWN.pop(oldest, None)  # another thread may have removed it


def check(
    model: PreTrainedModel,
    batch: Batch,
    layers: Sequence[Attended],
    entries: list[Entry],
    readout: Readout,
    rows: Rows,
    *,
    others: str,
) -> bool:
    """Raises ValueError where tokens meet outside of ``layers``, by the gradient with these cut.

    Then the last token that the first target reads must reach its logit, and no other token may;
    for a class, exactly one token must.  Returns False if no text has a second token to test.
    others: a list of other attention, in words
    """
    logit, token = _last_read(readout, rows)
    edges = [edge for layer in layers for edge in layer.readouts]
    hooks = [edge.node.register_prehook(lambda cs: (None,) * len(cs)) for edge in edges]
    embeddings = [entry.embedding for entry in entries]
    try:
        cs = torch.autograd.grad(
            logit, embeddings, torch.ones_like(logit), materialize_grads=True, retain_graph=True
        )
    finally:
        for hook in hooks:
            hook.remove()
    reach = of_tokens(entries, list(cs), batch.texts).ne(0).any(dim=-1)
    visible, counts = batch.present == 1, reach.sum(dim=1)
    wrong = counts != 1
    if token is not None:
        wrong |= ~reach.gather(1, token)[:, 0]
        visible = visible & (torch.arange(visible.shape[1], device=token.device) <= token)
    if wrong.any():
        count = int(counts[wrong][0])
        said = f"{count} tokens of a text reach" if count != 1 else "another token reaches"
        raise ValueError(
            f"{said} the logit of {type(model).__name__} beside its attention to all tokens, in "
            "place of the token that is read alone: means, convolutions, recurrences and other "
            f"attention have no mask{others}\n{INSTEAD}"
        )
    return bool((visible.sum(dim=1) > 1).any())


def _last_read(readout: Readout, rows: Rows) -> tuple[Tensor, Tensor | None]:
    """Returns the terms of the first target at its last token, summed, and the token, (batch, 1).

    A class has None: which token is read for it is not known.
    """
    chosen = readout.targets[0]
    with torch.enable_grad():
        terms = chosen.terms(rows)
        if readout.head == CLASSES:
            return terms.sum(dim=1), None
        tokens = chosen.label if readout.head == ANSWER else chosen.row
        last = tokens.where(chosen.weight != 0, -1).amax(dim=1, keepdim=True).clamp(min=0)
        return terms.where(tokens == last, 0).sum(dim=1), last
