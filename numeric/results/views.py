"""An explanation of texts in words: what its page, its picture and a terminal say of it."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.constrain import Constrain

from numeric.methods.catalogue import METHODS
from numeric.results import render
from numeric.results.layer_maps import LayerMap
from numeric.results.result import Attribution

ROLLOUT = "attention-rollout"


def section(
    a: Attribution,
    sample: int,
    *,
    why: str = "",
    explains: str = "target",
    maps: Sequence[LayerMap] = (),
) -> render.Section:
    """One example of ``a``: why the target, or ``why``, which is what the model ``explains``."""
    lines = a.lines(sample)
    tokens = [str(n) if token is None else token for n, token, _ in lines]
    relevance = [value for *_, value in lines]
    title = f"{a.method}: why {why or f'target {a.target[sample].tolist()}'}?"
    legend = render.legend(explains)
    if a.method == ROLLOUT:
        title, legend = f"{ROLLOUT}: where the model attends", "Red: the larger share of attention."
    return render.Section(tokens, relevance, title, _caption(a, sample), legend, maps)


def _caption(a: Attribution, sample: int) -> str:
    """What the relevance of one example adds up to."""
    if a.method == ROLLOUT:
        return "Shares of attention, which are not logits: they sum to 1 whatever the model says."
    said = (
        f"Logit {a.logit[sample]:+z.4f} = relevance of the tokens "
        f"{a.logit[sample] - a.residual[sample]:+z.4f} + residual {a.residual[sample]:+z.4f}."
    )
    if a.method not in METHODS:
        return said
    conserves = METHODS[a.method].conserves
    return f"{said} Does {a.method} conserve relevance? {conserves[0].upper()}{conserves[1:]}."


def sections(a: Attribution) -> list[render.Section]:
    return [section(a, n) for n in range(len(a.relevance))]


def page(found: Sequence[render.Section], a: Attribution) -> str:
    """The page of texts that were all explained as the first of them, ``a``, was."""
    title = found[0].title if len(found) == 1 else f"{a.method}: {len(found)} texts"
    return render.html(found, title=title, made=made(a))


def made(a: Attribution) -> str:
    return render.made(a.model, a.method, a.options)


def terminal(a: Attribution, width: int) -> Iterator[RenderableType]:
    for each in sections(a):
        yield from (Constrain(part, width) for part in each.terminal())
