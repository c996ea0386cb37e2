"""Measures the explanations of one architecture."""

import re
import signal
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

import torch
from torch import Tensor, nn
from transformers.utils import logging

from axioms.composites import ATTNLRP, BIAS, CP_LRP, UnassignedOperation
from numeric import attribute, targets
from numeric.auditing.accounts import Audit
from numeric.auditing.audit import audit
from numeric.auditing.capture import capture
from numeric.models.facts import facts_of
from tests.census.build import (
    ANSWERS,
    CAUSAL,
    MASKED,
    MIXED,
    TAGS,
    TASKS,
    Unfit,
    float64,
    with_inputs,
)
from tests.census.images import SQUARE, cut_images, packed_images
from tests.census.sizes import MARK

SECONDS = 120


@dataclass(frozen=True)
class Found:
    """The measurements of one architecture for one task.

    refusal: why it could not be built or run, or nothing
    errors: by column, the relative error, or why there is none
    keeps: the causes that keep relevance, if it is not conserved
    """

    architecture: str
    task: str
    refusal: str = ""
    errors: Mapping[str, float | str] = field(default_factory=dict)
    keeps: str = ""


def explained(model: nn.Module, batch: Mapping, task: str) -> float:
    """0 if AttnLRP gives finite relevance that is not all 0, else 1."""
    found = attribute(model, batch, "attnlrp", TARGETS[task])
    parts = [x for x in (found.relevance, found.patches) if x is not None]
    return float(not all(x.isfinite().all() and x.any() for x in parts))


def conserved(model: nn.Module, batch: Mapping, task: str) -> float:
    """The part of the logit that CP-LRP loses when nothing is added anywhere."""
    with without_shifts(model):
        found = attribute(model, batch, "cp-lrp", TARGETS[task])
    return (found.residual / found.logit).abs().max().item()


def keeps(model: nn.Module, batch: Mapping, task: str) -> str:
    """The causes of CP-LRP's loss on the worse example when nothing is added."""
    with without_shifts(model):
        lost = attribute(model, batch, "cp-lrp", TARGETS[task])
        worst_first = (lost.residual / lost.logit).abs().argsort(descending=True).tolist()
        one, found = _audited(model, batch, task, worst_first)
    least = COLUMNS["conserves"][1] * abs(found.logit)
    causes = [cause for cause, amount in found.by_cause().items() if abs(amount) > least]
    biased = (line for line in found.ledger.lines if abs(line.absorbed.get(BIAS, 0)) > least)
    places = dict.fromkeys(f"{x.kind} in {x.node.origin.module or '(root)'}" for x in biased)
    words = [f"{x} ({', '.join(places)})" if x == BIAS else x for x in causes]
    if not words and facts_of(model).two:
        words = ["the token that starts the decoder"]  # which is no word of the text
    if not words and not one.get("attention_mask", torch.ones(1)).all():
        words = ["padding"]  # which some models read
    return ", ".join(words)


def _audited(
    model: nn.Module, batch: Mapping, task: str, examples: Sequence[int]
) -> tuple[Mapping, Audit]:
    """The first of ``examples`` that can be audited; padding may have no keys to attend to."""
    for example in examples:
        one = _one(batch, example)
        try:
            return one, audit(model, one, CP_LRP, target=TARGETS[task])
        except ValueError as error:
            refused = error
    raise refused


def _one(batch: Mapping, example: int) -> Mapping:
    mixed = {"input_ids", "pixel_values"} <= batch.keys()  # these have one example
    return batch if mixed else {key: x[example : example + 1] for key, x in batch.items()}


def audited(model: nn.Module, batch: Mapping, task: str) -> float:
    """How far both methods are from the NumPy rules over the recorded operations of one example.

    Or how far the causes of a residual are from adding up to it, if that is more.  AttnLRP is
    taken at a finite epsilon, too.
    """
    one, errors, known = _one(batch, 0), [], []
    # One graph serves all three; capturing it is most of an audit's time.
    once = lambda *given: known[0] if known else known.append(capture(*given)) or known[0]
    for composite, epsilon in ((ATTNLRP, 0.0), (ATTNLRP, 0.125), (CP_LRP, 0.0)):
        options = {"target": TARGETS[task], "epsilon": epsilon}
        fast = attribute(model, one, composite, **options)
        with mock.patch("lrp_axioms.numeric.auditing.audit.capture", once):
            found = audit(model, one, composite, **options)
        gap = abs(sum(found.by_cause().values()) - found.residual) / abs(found.logit)
        pairs = [(found.relevance, fast.relevance), (found.patches, fast.patches)]
        both = [(torch.from_numpy(x), y[0]) for x, y in pairs if x is not None]
        errors += [_difference(*(torch.cat(each) for each in zip(*both, strict=True))), gap]
    return max(errors)


def left_out(model: nn.Module, batch: Mapping, task: str) -> float:
    """How far Leave-One-Out is from one forward pass per token, as anyone would write it."""
    if "pixel_values" in batch:
        return max(_patches_left_out(model, batch, task))
    found = attribute(model, batch, "loo", TARGETS[task])
    naive = torch.zeros_like(found.relevance)
    for example, token in batch["attention_mask"].nonzero().tolist():
        mask = batch["attention_mask"].clone()
        mask[example, token] = 0
        changed = logit(model, {**batch, "attention_mask": mask}, batch, task, found.target)
        naive[example, token] = found.logit[example] - changed[example]
    return _difference(naive, found.relevance)


def _patches_left_out(model: nn.Module, batch: Mapping, task: str) -> Iterator[float]:
    """Yields how far patches are from one pass each, and the tokens of a text with the image."""
    pixels = batch["pixel_values"]
    packed = pixels.ndim < 4 or "image_grid_thw" in batch
    options = {} if packed else {"patch": SQUARE}
    found = attribute(model, batch, "loo", TARGETS[task], **options)
    naive = []
    for changed in packed_images(pixels) if packed else cut_images(pixels):
        less = logit(model, {**batch, "pixel_values": changed}, batch, task, found.target)
        naive.append(found.logit - less)
    yield _difference(
        torch.stack(naive, dim=1), found.relevance if found.patches is None else found.patches
    )
    if "input_ids" in batch:
        ids = batch["input_ids"]
        hidden = {n: batch["attention_mask"].clone() for n in range(ids.shape[1])}
        for n, mask in hidden.items():
            mask[0, n] = ids[0, n] == MARK  # placeholders stay
            less = logit(model, {**batch, "attention_mask": mask}, batch, task, found.target)
            lost = (found.logit - less).item()
            yield abs(lost - found.relevance[0, n].item()) / abs(found.logit.item())


PLACE = 2
TARGETS = dict.fromkeys(TASKS) | dict.fromkeys((TAGS, MASKED), targets.logit(at=PLACE))
"""The explained logit: the prediction, at one token where every token has a prediction."""

COLUMNS = {
    "explained": (explained, 0.0),
    "conserves": (conserved, 1e-6),
    "audited": (audited, 1e-8),
    "Leave-One-Out": (left_out, 1e-8),
}
"""Column -> its measurement, and the largest error that counts as none."""


def logit(model: nn.Module, changed: Mapping, batch: Mapping, task: str, target: Tensor) -> Tensor:
    """The explained logit of a changed batch, (batch,)."""
    with torch.no_grad():
        found = model(**changed)
    every = torch.arange(len(target))
    if task == ANSWERS:
        return found.start_logits[every, target[:, 0]] + found.end_logits[every, target[:, 1]]
    if task in (TAGS, MASKED):
        return found.logits[every, PLACE, target]
    if task in (CAUSAL, MIXED) and "decoder_input_ids" in batch:
        return found.logits[every, -1, target]
    if task in (CAUSAL, MIXED):
        return found.logits[every, batch["attention_mask"].sum(dim=1) - 1, target]
    return found.logits[every, target]


def _difference(a, b):
    if a.equal(b):  # where no pixel counts, both are 0
        return 0.0
    return ((a - b).abs().max() / a.abs().max()).item()


SHIFTS = re.compile(r"(bias|beta|z_L_init|latents|stages\.\d\.cls_token)$")
"""Parameters that are added to activations: by linear maps and norms, and deep inside by HRM (its
first state), Perceiver (its queries) and CvT (its class token)."""


@contextmanager
def without_shifts(model: nn.Module) -> Iterator[None]:
    """All ``SHIFTS`` are 0 for the while, and the means that BatchNorms subtract.

    Embeddings of 0 then make a logit of 0.
    """
    shifts = [x for name, x in model.named_parameters() if SHIFTS.search(name)]
    shifts += [x for name, x in model.named_buffers() if name.endswith("running_mean")]
    kept = [(x, x.detach().clone()) for x in shifts]
    with torch.no_grad():
        for x in shifts:
            x.zero_()
    try:
        yield
    finally:
        with torch.no_grad():
            for x, value in kept:
                x.copy_(value)


def measure(item: tuple[str, str], *, columns=tuple(COLUMNS), catch=Exception) -> Found:
    """The ``columns`` of one architecture and task, within ``SECONDS`` each.

    ``catch`` are the errors that become reasons: whatever the model's own code raises, too.
    """
    name, task = item
    try:
        with conditions():
            model, batch = with_inputs(name, task)
            with torch.no_grad():
                model(**batch)
    except catch as error:
        return Found(name, task, refusal=reason(error))
    errors = {}
    for column in columns:
        try:
            with conditions():
                errors[column] = COLUMNS[column][0](model, batch, task)
        except catch as error:
            errors[column] = reason(error)
    found = errors.get("conserves", 0.0)
    if isinstance(found, str) or found <= COLUMNS["conserves"][1]:
        return Found(name, task, errors=errors)
    try:
        with conditions():
            return Found(name, task, errors=errors, keeps=keeps(model, batch, task))
    except catch:  # of a model that cannot be audited
        return Found(name, task, errors=errors)


def reason(error: Exception) -> str:
    """The message of an error, with its type where the message may not be enough."""
    plain = isinstance(error, (Unfit, UnassignedOperation, TimeoutError, ValueError))
    said = str(error)
    if isinstance(error, ImportError):  # which goes on to say how to install it
        said = said.partition(". ")[0]
    return said if plain else f"{type(error).__name__}: {said}"


@contextmanager
def conditions() -> Iterator[None]:
    """Float64, a time limit, and no warnings of architectures, which are known here."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with limit(SECONDS), float64(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(before)


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Raises TimeoutError when the block takes longer; in the main thread alone."""

    def end(*_):
        raise TimeoutError(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
