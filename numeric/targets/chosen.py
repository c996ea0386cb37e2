"""Finds the rows of logits that a target's terms are read from, and reads them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.numeric.engine.rules import wide
from lrp_axioms.numeric.models import heads
from lrp_axioms.numeric.models.batches import Batch, last_column
from lrp_axioms.numeric.models.heads import ANSWER, CLASSES, NEXT, TAGS
from lrp_axioms.numeric.targets import OWN, Label, Target, Term, answer, logit, terms
from lrp_axioms.numeric.targets.naming import resolve_names

PREDICTED = torch.iinfo(torch.int64).min
"""Stands for a label until the logits are known."""
WITHOUT_FLOAT64 = {"mps"}  # types of devices


class Rows(NamedTuple):
    """The output of a head, (copy, row, class), and the columns of its rows, in order."""

    logits: Tensor
    columns: Tensor | None  # None: rows are counted from 0


@dataclass(frozen=True, eq=False)
class Chosen:
    """A target of every example of a batch; all (batch, term) unless noted.

    weight, log: (term,)
    present: (batch, token) True at tokens, among which an answer is; None for other heads
    """

    row: Tensor
    label: Tensor
    weight: Tensor
    log: Tensor | None = None  # None: no term is a log-probability
    present: Tensor | None = None

    @property
    def target(self) -> Tensor:
        """The labels, (batch,) if there is one each, else (batch, term)."""
        return self.label[:, 0] if self.label.shape[1] == 1 else self.label

    @property
    def number(self) -> str:
        """The kind of the explained number, such as "logit" or "log-probability difference"."""
        kind, weights = "logit" if self.log is None else "log-probability", self.weight.tolist()
        if self.log is not None and not self.log.all():
            return "sum of logits and log-probabilities"
        if len(weights) == 1:
            return kind if weights == [1] else f"weighted {kind}"
        if max(weights) < 0:
            return f"weighted {kind} sum"
        return f"{kind} {'difference' if min(weights) < 0 else 'sum'}"

    def read(self, rows: Rows, example: Tensor | None = None) -> Tensor:
        """Returns rows of logits at all terms, (copy, term, class), in float32 or wider."""
        found = wide(rows.logits[self._places(rows, example)])
        if self.present is None:
            return found
        present = self.present if example is None else self.present[example]
        return found.masked_fill(~present[:, None, : found.shape[2]], -torch.inf)

    def terms(self, rows: Rows, example: Tensor | None = None) -> Tensor:
        """Returns the numbers that are added up, (copy, term)."""
        label = self.label if example is None else self.label[example]
        values = wide(rows.logits[*self._places(rows, example), label])
        if self.log is not None:
            logarithm = self.read(rows, example).logsumexp(dim=2)
            values = torch.where(self.log, values - logarithm, values)
        return values * self.weight.to(values.dtype)

    def of(self, rows: Rows, example: Tensor | None = None) -> Tensor:
        """Returns the explained number of every copy of ``example``, by default of the batch."""
        return self.terms(rows, example).sum(dim=1)

    def size(self, rows: Rows) -> Tensor:
        """Returns the size of the logits in ``of``, (copy,): rounding grows with them."""
        own = replace(self, log=None).terms(rows).abs()
        largest = self.read(rows).amax(dim=2).abs() * self.weight.abs()
        return (own + largest).sum(dim=1)

    def to(self, device: torch.device) -> "Chosen":
        parts = {name: x for name, x in vars(self).items() if x is not None}
        return Chosen(**{name: x.to(device) for name, x in parts.items()})

    def only(self, kept: Tensor) -> "Chosen":
        """Returns the target of the examples ``kept``: (batch,) True or False, or their numbers."""
        present = None if self.present is None else self.present[kept]
        return replace(self, row=self.row[kept], label=self.label[kept], present=present)

    def _places(self, rows: Rows, example: Tensor | None) -> tuple[Tensor, Tensor]:
        """Returns indices of the copies, (copy, 1), and of the rows, (copy, term)."""
        row = self.row if example is None else self.row[example]
        if rows.columns is not None:
            row = torch.searchsorted(rows.columns, row)
        return torch.arange(len(row), device=row.device)[:, None], row


def place_target(
    model: PreTrainedModel,
    head: str,
    batch: Batch,
    target: Label | Target,
    faults: list[str],
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> Chosen:
    """Finds the rows of the terms of ``target``; adds a line to ``faults`` for each missing one.

    ``tokenizer`` gives the mask token, by default the mask token of the config, and the ids of
    tokens that ``target`` names by their text.
    """
    size, device = len(batch.attention_mask), batch.device
    mask = getattr(tokenizer, "mask_token_id", None)
    target = resolve_names(model, head, target, tokenizer, faults)
    given = terms(target) or (answer() if head == ANSWER else logit()).terms
    ids, _ = batch.predicting
    rows, labels = [], []
    for term in given:
        faults += _unmet_demands(model, head, term)
        row = _row(model, head, batch, term, faults, mask)
        if term.label is OWN and ids is not None:
            # The next token; a row after the text is refused elsewhere.
            label = ids.gather(1, (row + 1).clamp(0, ids.shape[1] - 1)[:, None])[:, 0].long()
        else:
            label = _fill(term.label, size, device)
        rows.append(row)
        labels.append(label)
    log = [term.log for term in given]
    exact = torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64
    return Chosen(
        row=torch.stack(rows, dim=1),
        label=torch.stack(labels, dim=1),
        weight=torch.tensor([term.weight for term in given], device=device, dtype=exact),
        log=torch.tensor(log, device=device) if any(log) else None,
        present=batch.attention_mask == 1 if head == ANSWER else None,
    )


def _fill(numbers: Any, size: int, device: torch.device) -> Tensor:
    numbers = PREDICTED if numbers is None else 0 if numbers is OWN else numbers
    return torch.tensor(numbers, device=device).expand(size)


def _unmet_demands(model: PreTrainedModel, head: str, term: Term) -> Iterator[str]:
    """Yields a term's demands that this head cannot meet."""
    if term.of is not None and (head != ANSWER or term.of not in heads.ENDS):
        yield f"of={term.of!r}: " + (
            "pass 'start' or 'end'" if head == ANSWER else "only question answering has ends"
        )
    if head == ANSWER and term.of is None:
        yield "a head that finds answers has two rows of logits: pass of='start' or of='end'"
    if head in (CLASSES, ANSWER) and term.at is not None:
        yield f"at={term.at!r}: the head has one row of logits for the whole text; leave it out"
    if head == TAGS and term.at is None:
        yield "every token has a tag: pass at, the column whose tag is explained"
    if term.label is OWN and head != NEXT:
        yield "a span of the text's own tokens is of a language model, which predicts the next one"
    if term.log and not is_distribution(model, head):
        yield "outputs that are no distribution have no log-probability: pass logit()"


def is_distribution(model: PreTrainedModel, head: str) -> bool:
    """Decides whether the softmax of a row of logits is the model's distribution."""
    kind = getattr(model.config, "problem_type", None)
    alone = kind in ("multi_label_classification", "regression") or model.config.num_labels == 1
    return head != CLASSES or not alone


def _row(
    model: PreTrainedModel,
    head: str,
    batch: Batch,
    term: Term,
    faults: list[str],
    masking: int | None,
) -> Tensor:
    """Returns the row that a term is read from, (batch,)."""
    _, mask = batch.predicting
    nothing = mask.new_zeros(len(mask), dtype=torch.int64)
    if head == ANSWER:
        return nothing + heads.ENDS.get(term.of or "", 0)
    if head == CLASSES or (term.at is None and head == TAGS):
        return nothing
    if term.at is None:
        return last_column(mask == 1) if head == NEXT else _mask(model, batch, faults, masking)
    at = nothing + torch.tensor(term.at, device=mask.device)
    row = torch.where(at < 0, last_column(mask == 1) + 1 + at, at)
    behind = row + (term.label is OWN)
    inside = (row >= 0) & (behind < mask.shape[1])
    present = [mask.gather(1, x.clamp(0, mask.shape[1] - 1)[:, None])[:, 0] for x in (row, behind)]
    absent = (~inside | (present[0] != 1) | (present[1] != 1)).nonzero()[:, 0].tolist()
    if absent:
        what = "a token, and one after it," if term.label is OWN else "a token"
        faults.append(
            f"at={term.at!r}: there is not {what} in examples {absent}; the columns of tokens are "
            f"{_columns(mask)}"
        )
    return row.clamp(0, mask.shape[1] - 1)


def _columns(mask: Tensor) -> str:
    spans = [f"{x[0]} to {x[-1]}" for row in mask if (x := (row == 1).nonzero()[:, 0].tolist())]
    return ", ".join(dict.fromkeys(spans))


def _mask(model: PreTrainedModel, batch: Batch, faults: list[str], token: int | None) -> Tensor:
    """Returns the one token of every example that is to be filled in."""
    token = getattr(model.config, "mask_token_id", None) if token is None else token
    if token is None:
        faults.append(
            "the config has no mask_token_id, by which to find the mask: pass tokenizer, or at, "
            "its column, or set model.config.mask_token_id = tokenizer.mask_token_id"
        )
        return batch.attention_mask.new_zeros(len(batch.attention_mask), dtype=torch.int64)
    masks = batch.ids == token
    if wrong := (masks.sum(dim=1) != 1).nonzero()[:, 0].tolist():
        places = {n: masks[n].nonzero()[:, 0].tolist() for n in wrong}
        faults.append(
            f"the mask, token {token}, is not in one place of each example, but at "
            f"{places}: pass at, the column to explain"
        )
    return masks.to(torch.uint8).argmax(dim=1)
