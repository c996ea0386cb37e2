"""Finds relevance that is far larger than the logit, and the operation that amplifies it most."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.axioms.composites import GRADIENT_X_INPUT, Composite, UnassignedOperation
from lrp_axioms.numeric.engine import operations as does
from lrp_axioms.numeric.engine import packed
from lrp_axioms.numeric.engine.calls import Use
from lrp_axioms.numeric.engine.engine import Propagation
from lrp_axioms.numeric.engine.marks import carries, exchanged, is_curved, mark, marked
from lrp_axioms.numeric.engine.rulebook import Step
from lrp_axioms.numeric.methods.lrp import lrp
from lrp_axioms.numeric.methods.mask_relevance import GRADIENTS
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.targets.readout import Readout
from lrp_axioms.numeric.warning import warn_caller

BESIDE_LOGIT = 20  # allowed: sum of |relevance| over |logit|
BESIDE_GRADIENT = 20  # allowed: sum of |relevance| over sum of |gradient x input|
BESIDE_HELD = 1  # the last with norms held: gradient x input before a norm sums to 0
FULL = (MemoryError, torch.OutOfMemoryError)
NO_GRADIENT = (UnassignedOperation, LookupError, RuntimeError, ValueError)
"""Errors of a model that has rules but no gradient."""
WAITING = {does.ADD, does.SUBTRACT}  # roles that may be steps of a function
SUMS = {*WAITING, does.SUM, does.LINEAR, does.PACKED_LINEAR, does.MATMUL, does.ATTENTION}
SUMS |= {does.LAYER_NORM}
_left_out = ContextVar("left_out", default=False)


class AmplifiedRelevance(UserWarning):
    """Warns that sizes of relevance add up to many times the logit and gradient x input."""


@contextmanager
def left_out() -> Iterator[None]:
    """Explains without this check: its caller decides by ``amplified_rows``, or compares rules."""
    token = _left_out.set(True)
    try:
        yield
    finally:
        _left_out.reset(token)


def warn(*given: Any, **options: Any) -> None:
    """Warns once, for all rows and composites that ``amplified`` finds."""
    if _left_out.get():
        return
    if said := tested(partial(amplified, *given, **options)):
        warn_caller(said, AmplifiedRelevance)


def tested(find: Callable[[], str]) -> str:
    """Returns the warning that ``find`` makes, or says that memory did not allow the test."""
    try:
        return find()
    except FULL as error:
        return f"relevance was not tested for amplification, for want of memory ({error})"


def amplified(
    model: PreTrainedModel,
    batch: Batch,
    readout: Readout,
    each: Iterable[tuple[Composite, Tensor, Tensor]],
    *,
    epsilon: float = 0.0,
    share: str = "embedding",
    checkpoint: bool = False,
) -> str:
    """Returns the warning about ``each``, or "": tells of all composites, and where for the first.

    each: (composite, relevance (batch, token), logit (batch,)) of the one target
    Rows beyond ``BESIDE_LOGIT`` take a pass with norms held, rows beyond ``BESIDE_HELD`` a pass for
    gradient x input, and rows beyond ``BESIDE_GRADIENT`` a third, for the place, which takes the
    memory of all layers and is left out with ``checkpoint``.
    """
    found = [(*given, beside_logit(*given[1:])) for given in each]
    doubtful = torch.stack([rows for *_, rows in found]).any(dim=0)
    if not doubtful.any():
        return ""
    known = sizes(model, *_only(doubtful, batch, readout), share, checkpoint=checkpoint)
    for composite, relevance, logit, rows in found:
        rows[doubtful] = amplified_rows(composite, relevance[doubtful], logit[doubtful], known)
    found = [given for given in found if given[-1].any()]
    if not found:
        return ""
    others = ", ".join(repr(composite.name) for composite, *_ in found[1:])
    more = f"; so is relevance by {others}" if others else ""
    return _told(model, batch, readout, *found[0], epsilon, whole=not checkpoint) + more


def beside_logit(relevance: Tensor, logit: Tensor) -> Tensor:
    """Decides for each row of relevance, (batch, token), whether it exceeds the logit by far."""
    return relevance.abs().sum(dim=1) > BESIDE_LOGIT * logit.abs()


def _only(rows: Tensor, batch: Batch, readout: Readout) -> tuple[Batch, Readout]:
    """Returns the examples of a batch where ``rows``, (batch,), is True, and their targets.

    Packed images are not divided: then all ``rows`` become True.
    """
    tensors = {key: x for key, x in vars(batch).items() if isinstance(x, Tensor)}
    if batch.others or any(len(x) != len(rows) for x in tensors.values()):
        rows[:] = True
    if rows.all():
        return batch, readout
    kept = rows.to(batch.device)
    parts: dict[str, Any] = {key: x[kept] for key, x in tensors.items()}
    return replace(batch, **parts), replace(
        readout, targets=[x.only(kept) for x in readout.targets]
    )


def amplified_rows(
    composite: Composite,
    relevance: Tensor,
    logit: Tensor,
    known: Callable[[bool], Tensor | None],
) -> Tensor:
    """Decides for each row of relevance, (batch, token), whether rules amplify it.

    ``known(held)`` sums |gradient x input| of each row, with or without norms held (``sizes``).
    """
    size = relevance.abs().sum(dim=1)
    rows = beside_logit(relevance, logit)
    if composite == GRADIENT_X_INPUT:
        return torch.zeros_like(rows)
    for held, times in ((True, BESIDE_HELD), (False, BESIDE_GRADIENT)):  # the strictest first
        beside = known(held) if rows.any() else None
        if beside is not None:
            rows &= size > times * beside.to(size.device)
    return rows


def _told(
    model: PreTrainedModel,
    batch: Batch,
    readout: Readout,
    composite: Composite,
    relevance: Tensor,
    logit: Tensor,
    rows: Tensor,
    epsilon: float,
    *,
    whole: bool,
) -> str:
    """Tells of the worst of the amplified ``rows``, and of the place where it happens."""
    size = relevance.abs().sum(dim=1)
    worst = int(size.where(rows, 0).argmax())
    total, explained = size[worst].item(), logit[worst].item()
    where = "the operation that amplifies it is unknown"
    if whole:
        with suppress(*FULL, *NO_GRADIENT):
            where = _largest_gain(_steps(model, batch, readout, composite, epsilon, worst))
    return (
        f"relevance of examples {rows.nonzero()[:, 0].tolist()} is amplified: in example {worst} "
        f"its sizes add up to {total:.4g}, but the logit is {explained:.4g}; {where}; call "
        "lrp_axioms.audit() to see where it goes, or pass another method"
    )


def sizes(
    model: PreTrainedModel,
    batch: Batch,
    readout: Readout,
    share: str = "embedding",
    *,
    checkpoint: bool = False,
) -> Callable[[bool], Tensor | None]:
    """Returns a function that sums |gradient x input|, (batch,), plain or with norms held.

    It runs once for each; its result is None for a model without a gradient.
    """

    @cache
    def of(held: bool) -> Tensor | None:  # noqa: FBT001 (the only argument)
        composite = GRADIENTS["held" if held else "true"]
        options: dict[str, Any] = {"share": share, "checkpoint": checkpoint}
        try:
            (found,) = lrp(model, batch, readout, composite=composite, **options)
        except FULL:
            raise
        except NO_GRADIENT:
            return None
        return found.relevance.abs().sum(dim=1)

    return of


@dataclass(eq=False)
class _Step:
    """A sum, with the sizes of the relevance that it receives and passes on, by entry."""

    name: str
    place: str
    arrived: list[float] = field(default_factory=list)
    passed: list[float] = field(default_factory=list)

    @property
    def gain(self) -> float:
        return sum(self.passed) / (sum(self.arrived) or torch.inf)


def _largest_gain(steps: list[_Step]) -> str:
    """Names the step with the largest gain among steps with much relevance."""
    most = max(sum(step.passed) for step in steps)
    step = max((x for x in steps if sum(x.passed) * BESIDE_LOGIT >= most), key=lambda x: x.gain)
    gain = f"{step.gain:.3g} times the relevance it receives, because terms nearly cancel"
    return f"{step.name} in {step.place} passes on {gain}"


def _steps(
    model: PreTrainedModel,
    batch: Batch,
    readout: Readout,
    composite: Composite,
    epsilon: float,
    row: int,
) -> list[_Step]:
    rules = Propagation(packed.unpack(model), composite, eps=epsilon)
    watched = _SumWatch(rules)
    with torch.enable_grad():
        with rules:
            rows = readout.run(rules.model, batch.arguments(), settle=rules.end)
        (target,) = readout.choose(rows).targets
        ends = [entry.embedding for entry in rules.entries.found]
        torch.autograd.grad(target.of(rows)[row], ends, allow_unused=True)
    return watched.steps


class _SumWatch:
    """Records the relevance around every sum of a pass; only sums amplify relevance."""

    def __init__(self, block: Propagation) -> None:
        self.entries, self.places, self.book = block.entries, block.places, block.book
        self.steps: list[_Step] = []
        block.observe(act=self.act)

    def act(self, go: Step, use: Use) -> Any:
        rising = any(map(self.entries.is_rising, use.carrying))
        waits = use.call.role in WAITING and any(map(is_curved, use.carrying))
        if use.call.role not in SUMS or rising or waits:
            return go(use)
        step = _Step(use.name, self.places.describe())
        self.steps.append(step)
        own: dict[int, Tensor] = {}
        for x in use.carrying:  # copies, because other operations may read the same tensor
            copy = self.book.settle(x).clone() if is_curved(x) else marked(x.clone(), mark(x))
            own[id(x)] = _record_sizes(copy, step.passed)
        named = exchanged(tuple(use.kwargs.values()), own)
        kwargs = dict(zip(use.kwargs, named, strict=True))
        args, carrying = exchanged(use.args, own), list(own.values())
        out = go(use._replace(args=args, kwargs=kwargs, carrying=carrying))
        return _record_sizes(out, step.arrived) if carries(out) else out


def _record_sizes(x: Tensor, sizes: list[float]) -> Tensor:
    note: Callable[[Tensor, Tensor], None] = lambda value, c: sizes.append(
        (value * c).nan_to_num(0, 0, 0).abs().sum().item()
    )
    if x.requires_grad and x.grad_fn is not None:
        x.register_hook(partial(note, x.detach()))
    return x
