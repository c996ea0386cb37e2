"""Finds the explained number in a model's output."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.generic import ModelOutput

from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.models import heads
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.models.heads import ANSWER, CLASSES, MASKED, NEXT, TAGS
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.models.texts import check_tokenizer
from lrp_axioms.numeric.spelling import listed
from lrp_axioms.numeric.targets import Label, Target
from lrp_axioms.numeric.targets.chosen import PREDICTED, Chosen, Rows, place_target

LEGAL = {
    CLASSES: "None (the predicted class), a class, logit(class) or log_probability(class)",
    NEXT: "None, a token that follows the last one, logit(token, at=column), "
    "log_probability(token, at=column) or span(first, end)",
    MASKED: "None, a token at the mask, logit(token, at=column) or log_probability(token, "
    "at=column)",
    TAGS: "logit(tag, at=column) or log_probability(tag, at=column)",
    ANSWER: 'None (the predicted ends), answer(first, last), logit(token, of="start") or '
    'logit(token, of="end")',
}


class Found(NamedTuple):
    """The result of a method for one target.

    relevance: (batch, token)   target: as ``Chosen.target``   logit: (batch,) the explained number
    """

    relevance: Tensor
    target: Tensor
    logit: Tensor
    details: dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Readout:
    """The targets that one forward pass of a batch is read for; one ``Chosen`` each.

    Raises ValueError that lists all demands of these targets that the model cannot meet.
    """

    head: str
    name: str
    targets: list[Chosen]

    @classmethod
    def of(
        cls,
        model: PreTrainedModel,
        batch: Batch,
        targets: Sequence[Label | Target],
        *,
        tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> "Readout":
        """Makes a readout; ``tokenizer`` has the mask token, and ids of tokens named by text."""
        decodes = batch.decoder_input_ids is not None
        head = heads.NEXT if decodes else batch.facts.head
        if tokenizer is not None:
            check_tokenizer(tokenizer)
        faults: list[str] = []
        chosen = [place_target(model, head, batch, target, faults, tokenizer) for target in targets]
        if faults:
            raise ValueError(
                f"{listed(dict.fromkeys(faults))}\na target of this {type(model).__name__} is "
                f"{LEGAL[head]}, and sums and differences of these (lrp_axioms.numeric.targets)"
            )
        return cls(head, type(model).__name__, chosen)

    def run(
        self,
        model: PreTrainedModel,
        inputs: Mapping[str, object],
        example: Tensor | None = None,
        *,
        settle: Callable[[Tensor], Tensor] = lambda x: x,
    ) -> Rows:
        """Runs one forward pass of copies of ``example``; of tokens only the rows that are read.

        ``settle`` applies rules to logits that are read.
        """
        columns = None if self.head in (CLASSES, ANSWER) else self.columns(example)
        logits = settle(heads.run(model, inputs, columns, of=self.head))
        return Rows(logits[:, None] if self.head == CLASSES else logits, columns)

    @contextmanager
    def one_draw(self, model: PreTrainedModel, batch: Batch) -> Iterator[None]:
        """Raises ValueError if the model draws random numbers in the block, and its logits tell.

        A draw that changes no logit, such as another order of patches, does no harm.
        """
        before = _generators(batch.device)
        yield
        if before == _generators(batch.device):
            return
        with outside(), torch.no_grad():
            first, second = (self.run(model, batch.arguments()).logits for _ in range(2))
        limit = torch.finfo(first.dtype).eps ** 0.5 * first.abs().max()
        if first.shape != second.shape or (first - second).abs().max() > limit:
            raise ValueError(
                f"{self.name} draws random numbers in eval mode, and two passes over this input "
                "have unlike logits: relevance would be of one draw; set its config, or change its "
                "code, so that it draws nothing"
            )

    def columns(self, example: Tensor | None = None) -> Tensor:
        """Returns the columns that some target of some ``example`` reads, in order."""
        found: Tensor = (self.rows if example is None else self.rows[example]).unique()
        return found

    @property
    def rows(self) -> Tensor:
        """The columns that all targets read, for every example: (batch, term)."""
        return torch.cat([each.row for each in self.targets], dim=1)

    def to(self, device: torch.device) -> "Readout":
        """Moves the targets to another device, for ``rows`` there."""
        return replace(self, targets=[each.to(device) for each in self.targets])

    def choose(self, rows: Rows) -> "Readout":
        """Returns a readout with the predicted labels in place; ``rows`` are the whole batch's.

        Raises ValueError for non-finite logits and for labels that the head does not have.
        """
        chosen = []
        for each in self.targets:
            logits = each.read(rows).detach()
            broken = ~logits.isfinite()
            if each.present is not None:
                broken = broken & each.present[:, None]
            if examples := broken.flatten(1).any(dim=1).nonzero()[:, 0].tolist():
                raise ValueError(
                    f"non-finite logits in examples {examples}: {logits[broken][:8].tolist()}; "
                    "check the weights, or load the model in float32"
                )
            predicted = each.label == PREDICTED
            chosen.append(replace(each, label=logits.argmax(2).where(predicted, each.label)))
        self._check_labels(chosen, rows.logits.shape[2])
        return replace(self, targets=chosen)

    def _check_labels(self, chosen: Sequence[Chosen], size: int) -> None:
        """Refuses labels out of range, which on a GPU would end the process."""
        labels = [each.label for each in chosen]
        wrong = [x[(x < 0) | (x >= size)] for x in labels]
        if self.head == ANSWER and not any(map(len, wrong)):
            pairs = zip(labels, (each.present for each in chosen), strict=True)
            wrong = [x[~present.gather(1, x)] for x, present in pairs if present is not None]
        if found := torch.cat(wrong).unique().tolist():
            raise ValueError(
                f"target {found} out of range; the model has {NOUNS[self.head]} 0 to {size - 1}"
            )


def _generators(device: torch.device) -> list[bytes]:
    """Returns digests of the generators that a model may draw from; a state is 5 KB."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return [sha256(x.numpy().tobytes()).digest() for x in states]


Run = Callable[[PreTrainedModel, Batch, Readout], Iterable[Found]]
"""A method with bound options: one ``Found`` for every target of the readout."""

NOUNS = {
    CLASSES: "classes", NEXT: "tokens", MASKED: "tokens", TAGS: "tags",
    ANSWER: "the tokens of each text, of columns",
}  # fmt: skip


def read(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    output: ModelOutput,
    target: Label | Target = None,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> Tensor:
    """Returns the explained number of every example, (batch,), in the ``output`` on ``inputs``.

    For code of yours that runs the model, such as a block of ``propagation``: call it inside the
    block.  ``inputs``, ``target`` and ``tokenizer``, and the errors, are as in ``attribute``.
    """
    batch = prepare(model, inputs, targets=[target])
    readout = Readout.of(model, batch, [target], tokenizer=tokenizer)
    logits = heads.read(model, output, of=readout.head)
    rows = Rows(logits[:, None] if readout.head == CLASSES else logits, None)
    (chosen,) = readout.choose(rows).targets
    return chosen.of(rows)
