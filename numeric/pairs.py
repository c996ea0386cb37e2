"""Explains which words of a text act together: ``interactions(model, tokenizer, text)``."""

import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.numeric.attribution import inputs_of
from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.methods import meetings, pair_losses
from lrp_axioms.numeric.methods.loo import first_seen_tokens, losses
from lrp_axioms.numeric.methods.memory_budget import AUTO, check_batch_size
from lrp_axioms.numeric.methods.options import builtin
from lrp_axioms.numeric.methods.pair_losses import Parts, estimated
from lrp_axioms.numeric.methods.windows import blind_copies
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.models.checks import guarded_run, open_object
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.models.texts import check_order
from lrp_axioms.numeric.results.interactions import Interactions
from lrp_axioms.numeric.results.words import UNITS, named_units
from lrp_axioms.numeric.spelling import listed
from lrp_axioms.numeric.targets import Label, Target
from lrp_axioms.numeric.targets.readout import Readout

WAYS = ("exact", "estimated")
BY_TOKEN = "pass the id of a token to put in place, removal=tokenizer.mask_token_id"


def interactions(
    model: PreTrainedModel | Any,
    tokenizer: PreTrainedTokenizerBase | None,
    text: str | tuple[str, str] | Mapping[str, Tensor],
    *,
    target: Label | Target = None,
    by: str = "token",
    pairs: str = "exact",
    budget: int | None = None,
    seed: int = 0,
    batch_size: int = 128,
    memory: int | str = AUTO,
) -> Interactions:
    """Returns I_ij = f(x) - f(x without i) - f(x without j) + f(x without both), of all pairs.

    i and j are tokens, words or sentences of ``text`` (``by`` "token", "word" or "sentence"), and f
    is the logit of ``target``, as in ``attribute``.  ``text`` is one text, a pair of texts, or the
    inputs of one text without padding, such as a tokenizer makes of a text that it cuts.  Parts are
    left out by the attention mask, as in Leave-One-Out, ``batch_size`` copies to a pass.
    ``pairs="exact"`` takes one forward pass for each pair.
    ``pairs="estimated"`` takes a forward and a backward pass for each part instead
    (``methods.pair_losses.estimated``), and then leaves out the ``budget`` pairs with the largest
    estimates, by default as many as there are parts.
    Groups of parts that act together are found, and each is left out as a whole.  ``seed`` draws
    random quarters of the parts.  These are left out to measure how much of the variance of their
    losses the parts, the groups and the pairs explain.
    The result is in logits; ``Interactions`` describes it.  Nothing makes it add up to the logit.
    Raises ValueError that lists bad options, for a text, or a row that is read, of fewer than three
    parts, and for all that ``explain``, Leave-One-Out and, with estimates, mask relevance refuse.
    """
    model, tokenizer = open_object(model, tokenizer)
    check_order(model, tokenizer)
    budget, seed, batch_size = map(builtin, (budget, seed, batch_size))
    _check(text, by, pairs, budget, seed)
    check_batch_size(batch_size)
    inputs, names, numbers = _parts_of(model, tokenizer, text, by)
    batch = prepare(model, inputs, targets=[target]).of_text()
    if batch.decoder_input_ids is not None:
        raise ValueError("inputs has decoder_input_ids: parts are of one text; leave it out")
    with outside(), torch.inference_mode(mode=False), guarded_run(model, batch), _own_advice():
        readout = Readout.of(model, batch, [target], tokenizer=tokenizer)
        with readout.one_draw(model, batch), torch.no_grad():
            texts = losses(model, batch, readout, batch_size=batch_size, memory=memory)
            each = torch.arange(len(names), device=batch.device)
            masks = torch.tensor(numbers, device=batch.device) == each[:, None]
            logit = texts.logits[0]
            blind = partial(_is_blind, model, batch, texts.readout)
            parts = Parts(masks, first_seen_tokens(batch, texts.readout)[0], texts.without, blind)
            _check_seen(parts)
            estimate, most = None, None
            if pairs == "estimated":
                most = len(names) if budget is None else budget
                with torch.enable_grad():
                    limits = {"batch_size": batch_size, "memory": memory}
                    estimate = estimated(model, batch, texts.readout, masks, **limits)
            alone, details = _measured(parts, logit, estimate, most, seed)
    return Interactions(
        relevance=alone[None],
        target=texts.readout.targets[0].target,
        logit=logit,
        residual=logit - alone.sum(),
        method="interactions",
        options={"by": by, "pairs": pairs, "budget": budget, "seed": seed},
        details=details,
        tokens=(tuple(names),),
        model=type(model).__name__,
        number=texts.readout.targets[0].number,
    )


def _parts_of(
    model: Any, tokenizer: Any, text: Any, by: str
) -> tuple[Mapping[str, Tensor], list[str], list[int]]:
    """Returns a text's inputs, the names of its parts, and the number of each token's part."""
    inputs = text if isinstance(text, Mapping) else inputs_of(model, tokenizer, [text])
    ids = inputs["input_ids"][0].tolist()
    if by == "token":
        names = [str(tokenizer.convert_ids_to_tokens(x) or x) for x in ids]
        numbers = list(range(len(ids)))
    else:
        numbers, names = named_units(tokenizer, ids, by)
    if len(names) < 3:
        several = "s" * (len(names) != 1)
        raise ValueError(
            f"{reprlib.repr(text)} has {len(names)} {by}{several}: without two of them nothing is "
            "left to attend to; "
            + ("pass a longer text" if by == "token" else "pass a longer text, or by='token'")
        )
    return inputs, names, numbers


@contextmanager
def _own_advice() -> Iterator[None]:
    """Replaces advice that other methods give in their errors."""
    try:
        yield
    except ValueError as error:
        said = str(error).replace(meetings.INSTEAD, 'pass pairs="exact"')
        raise ValueError(said.replace(BY_TOKEN, "pass a model that reads the mask")) from error


def _is_blind(
    model: PreTrainedModel, batch: Batch, readout: Readout, example: Tensor, hidden: Tensor
) -> Tensor:
    keep = (batch.present == 1)[example] & ~hidden
    found = blind_copies(model, batch, example, keep, readout).values()
    return torch.stack([torch.zeros_like(hidden[:, 0]), *found]).any(dim=0)


def _check_seen(parts: Parts) -> None:
    """Raises ValueError where the row that is read attends to fewer than three parts."""
    seen = int((parts.masks & parts.needed).any(dim=1).sum())
    if seen < 3:
        raise ValueError(
            f"the first row that is read attends to {seen} of {len(parts.masks)} parts: without "
            "two of them nothing is left to attend to; explain a later column"
        )


def _measured(
    parts: Parts, logit: Tensor, estimate: Tensor | None, most: int | None, seed: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns the losses of the parts, and the details of ``Interactions``."""
    count, device = len(parts.masks), parts.masks.device
    alone = parts.lost(torch.eye(count, dtype=torch.bool, device=device))
    found = alone.new_zeros(count, count) if estimate is None else estimate.to(alone.dtype)
    first, second = pair_losses.all_pairs(count, device)
    if estimate is not None:
        first, second = pair_losses.largest(found, most or 0)
    known = pair_losses.exact(parts, alone, torch.stack([first, second]))
    error = (found[first, second] - known).square().mean().sqrt()
    by_loss = torch.zeros_like(found)
    for places in ((first, second), (second, first)):
        found[places], by_loss[places] = known, 1
    tree = pair_losses.merges(found)
    members = pair_losses.nodes(tree)
    lost = torch.cat([alone, alone.new_full((count - 1,), torch.nan)])
    tested = ~parts.hide_all(members)
    tested[:count] = False  # single parts were left out before
    lost[tested] = parts.lost(members[tested])
    sets = pair_losses.random_sets(parts, seed)
    guesses = pair_losses.predicted(sets, alone, found, members, lost)
    details = {
        "pairs": found,
        "by_loss": by_loss,
        "merges": tree,
        "losses": lost,
        "explained": pair_losses.explained(parts.lost(sets), guesses, logit),
    }
    return alone, details if estimate is None else details | {"error": error[None]}


def _check(text: object, by: object, pairs: object, budget: object, seed: object) -> None:
    """Raises ValueError that lists all bad options."""
    units = ("token", *UNITS)
    wrong = []
    if isinstance(text, Mapping):
        ids, mask = (text.get(name) for name in ("input_ids", "attention_mask"))
        padded = mask is not None and not torch.as_tensor(mask).all()
        if not isinstance(ids, Tensor) or ids.ndim != 2 or len(ids) != 1 or padded:
            wrong.append("text is a batch: pass the inputs of one text, without padding")
    elif not isinstance(text, str) and not (isinstance(text, tuple) and len(text) == 2):
        wrong.append(f"text={reprlib.repr(text)}: pass one text, a pair (a, b), or inputs")
    if by not in units:
        wrong.append(f"by={by!r}: pass one of {', '.join(units)}")
    if pairs not in WAYS:
        wrong.append(f"pairs={pairs!r}: pass one of {', '.join(WAYS)}")
    if budget is not None and pairs == "exact":
        wrong.append(
            f"budget={budget!r}: exact pairs leave out every pair; pass "
            "pairs='estimated', or no budget"
        )
    elif budget is not None and (type(budget) is not int or budget < 0):
        wrong.append(f"budget={budget!r}: pass a whole number of pairs, at least 0")
    if type(seed) is not int or not 0 <= seed < 2**64:
        wrong.append(f"seed={seed!r}: pass a whole number, at least 0 and below 2**64")
    if wrong:
        raise ValueError(listed(wrong))
