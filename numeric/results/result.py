"""The result of a method: relevance of every token, and its forms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jinja2 import Environment
from rich.console import RenderableType
from rich.constrain import Constrain
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lrp_axioms.axioms.extras import need
from lrp_axioms.numeric.results import pictures, render, stored
from lrp_axioms.numeric.results.render import LayerMap
from lrp_axioms.numeric.results.words import pieces, units
from lrp_axioms.numeric.spelling import printable

if TYPE_CHECKING:
    from pandas import DataFrame

TENSORS = ("relevance", "target", "logit", "residual")
GROUPS = ("details", "inside")
SHOWN = 20  # samples of a notebook's cell
SMALL = 3  # samples of a line
ROLLOUT = "attention-rollout"


@dataclass(frozen=True)
class Facts:
    """Fields of an Attribution in its file, except tensors."""

    method: str
    tokens: tuple[tuple[str | None, ...], ...] | None
    options: dict[str, Any]
    details: list[str]
    inside: list[str]
    model: str = ""


@dataclass(frozen=True, eq=False, repr=False)  # tensors have no one truth value
class Attribution:
    """Relevance of every token for one logit per example; all in logits unless noted.

    relevance: (batch, token), 0 at padding
    target: (batch,) explained class, tag, token, or position; (batch, term) of a sum
    logit: (batch,) its logit, or another explained number
    residual: (batch,) logit minus the sum of relevance: absorbed or lost relevance
    details: further tensors of the method, such as the completeness gap of Integrated Gradients
    inside: relevance at the outputs of the modules in ``at``, by path, in the order of their
        returns: (batch, token), or (batch, token, channel)
    tokens: where a tokenizer was given, the token in every column of each example, None at padding
    model: the name of its class, or another name for pages and pictures
    """

    relevance: Tensor
    target: Tensor
    logit: Tensor
    residual: Tensor
    method: str
    options: dict[str, Any]
    details: dict[str, Tensor]
    inside: dict[str, Tensor] = field(default_factory=dict)
    tokens: tuple[tuple[str | None, ...], ...] | None = None
    model: str = ""

    def __repr__(self) -> str:
        count, length = self.relevance.shape
        first = ", ".join(f"{x:+z.4f}" for x in self.logit[:SMALL].tolist())
        more = ", ..." if count > SMALL else ""
        said = f"Attribution({self.method}: {count} x {length} tokens, logit [{first}{more}])"
        return printable(said)

    def _repr_html_(self) -> str:
        return heat_maps(self, SHOWN)

    def lines(self, sample: int) -> list[tuple[int, str | None, float]]:
        """Lists position, token and relevance of one example; no padding if tokens are known."""
        values = self.relevance[sample].tolist()
        if self.tokens is None:
            return [(n, None, value) for n, value in enumerate(values)]
        pairs = zip(self.tokens[sample], values, strict=True)
        return [(n, token, value) for n, (token, value) in enumerate(pairs) if token is not None]

    def to_pandas(self) -> "DataFrame":
        """Returns one line per token: sample, position, token, relevance; see ``lines``."""
        need("Attribution.to_pandas", "pandas")
        import pandas as pd

        found = [(n, *line) for n in range(len(self.relevance)) for line in self.lines(n)]
        return pd.DataFrame(found, columns=["sample", "position", "token", "relevance"])

    def by(self, unit: str, tokenizer: PreTrainedTokenizerBase) -> "Attribution":
        """Sums relevance of tokens to words or sentences (``unit`` "word" or "sentence").

        Details and ``inside`` are by token, and left out.  Raises ValueError for another unit, and
        for a result that does not know its tokens.
        """
        if self.tokens is None:
            raise ValueError("tokens are not known: pass tokenizer=tokenizer to attribute()")
        rows, names = [], []
        for row in self.tokens:
            ids: Any = tokenizer.convert_tokens_to_ids([x for x in row if x is not None])
            if tokenizer.convert_ids_to_tokens(ids) != [x for x in row if x is not None]:
                raise ValueError(
                    "some tokens are not the tokenizer's: pass the tokenizer of the model, and add "
                    "up a result of tokens, not of words"
                )
            texts = pieces(tokenizer, ids)
            found = units(texts, unit)
            words = [
                "".join(x for x, n in zip(texts, found, strict=True) if n == k).strip()
                for k in range(max(found) + 1)
            ]
            left = iter(found)
            rows.append([len(words) if x is None else next(left) for x in row])
            names.append(words)
        width = max(map(len, names))
        numbers = torch.tensor(rows, device=self.relevance.device).clamp(max=width)
        sums = self.relevance.new_zeros(len(rows), width + 1)  # the last is padding's
        return replace(
            self,
            relevance=sums.scatter_add(1, numbers, self.relevance)[:, :width],
            tokens=tuple((*x, *[None] * (width - len(x))) for x in names),
            details={},
            inside={},
        )

    def save(self, path: str | Path) -> None:
        """Writes one file of safetensors, whose header holds the rest as JSON; no pickle.

        Tensors come back on the CPU.  Raises TypeError for an option that is neither data nor a
        tensor.
        """
        tensors: dict[str, Tensor] = {name: getattr(self, name) for name in TENSORS}
        for group in (*GROUPS, "options"):
            named = getattr(self, group).items()
            tensors |= {f"{group}/{key}": x for key, x in named if isinstance(x, Tensor)}
        plain = {key: x for key, x in self.options.items() if not isinstance(x, Tensor)}
        facts: dict[str, Any] = {
            name: getattr(self, name) for name in ("method", "model", "tokens")
        }
        facts["options"] = plain
        facts |= {group: list(getattr(self, group)) for group in GROUPS}
        stored.write(path, "attribution", tensors, facts)

    @classmethod
    def load(cls, path: str | Path) -> "Attribution":
        """Reads a file that ``save`` wrote.  Raises ValueError for any other file."""
        return stored.read(path, "attribution", Facts, cls._of)

    @classmethod
    def _of(cls, tensors: dict[str, Tensor], facts: Facts) -> "Attribution":
        own = [name.removeprefix("options/") for name in tensors if name.startswith("options/")]
        keys = {"details": facts.details, "inside": facts.inside, "options": own}
        others = {f"{group}/{key}" for group in keys for key in keys[group]}
        shapes = {name: tuple(x.shape) for name, x in tensors.items()}
        shape = count, length = (*shapes.get("relevance", ()), 0, 0)[:2]
        floats = {"relevance": shape, "logit": (count,), "residual": (count,)}
        stored.check(tensors, floats, {"target", *others})
        if shapes["target"][:1] != (count,) or len(shapes["target"]) > 2:
            raise ValueError(f"target has the shape {shapes['target']} for {count} examples")
        if facts.tokens is not None and [*map(len, facts.tokens)] != [length] * count:
            raise ValueError(f"tokens must be {count} rows of {length}, as relevance is")
        given: dict[str, Any] = {name: tensors[name] for name in TENSORS}
        given |= {group: {key: tensors[f"{group}/{key}"] for key in keys[group]} for group in keys}
        given["options"] = facts.options | given["options"]
        return cls(**given, method=facts.method, tokens=facts.tokens, model=facts.model)

    def terminal(self, width: int = 80) -> Iterator[RenderableType]:
        """Yields every text for rich: its tokens coloured, and their numbers."""
        for each in sections(self):
            yield from (Constrain(part, width) for part in each.terminal())

    def html(self) -> str:
        """Returns a self-contained page of all texts, with colours and numbers."""
        return page(sections(self), self)

    def png(self) -> bytes:
        """Draws all texts as a picture, every token on its colour and above its number."""
        return pictures.texts(sections(self), made=made(self))


def section(
    a: Attribution,
    sample: int,
    *,
    why: str = "",
    explains: str = "target",
    maps: Sequence[LayerMap] = (),
) -> render.Section:
    """Makes a section of one example: why the target, or ``why``; ``explains`` is its noun."""
    lines = a.lines(sample)
    tokens = [str(n) if token is None else token for n, token, _ in lines]
    relevance = [value for *_, value in lines]
    title = f"{a.method}: why {why or f'target {a.target[sample].tolist()}'}?"
    legend = render.legend(explains)
    if a.method == ROLLOUT:
        title, legend = f"{ROLLOUT}: where the model attends", "Red: the larger share of attention."
    return render.Section(tokens, relevance, title, _caption(a, sample), legend, maps)


def _caption(a: Attribution, sample: int) -> str:
    """Writes the sum of one example's relevance, in words."""
    if a.method == ROLLOUT:
        return "Shares of attention, which are not logits: they sum to 1 whatever the model says."
    said = (
        f"Logit {a.logit[sample]:+z.4f} = relevance of the tokens "
        f"{a.logit[sample] - a.residual[sample]:+z.4f} + residual {a.residual[sample]:+z.4f}."
    )
    from lrp_axioms.numeric.methods.catalogue import METHODS

    if a.method not in METHODS:
        return said
    if METHODS[a.method].composite:
        said += _in_percent(a.residual[sample].item(), a.logit[sample].item())
    conserves = METHODS[a.method].conserves
    return f"{said} Does {a.method} conserve relevance? {conserves[0].upper()}{conserves[1:]}."


def _in_percent(residual: float, logit: float) -> str:
    """Compares the residual with its logit, in words; nothing if it is below half a percent."""
    if abs(residual) < 0.005 * abs(logit) or not logit:
        return ""
    share = residual / logit
    if share > 0:
        return f" {share:.0%} of the logit did not reach the tokens; `audit` says where it went."
    return f" The tokens received {-share:.0%} more than the logit; `audit` says from where."


def sections(a: Attribution) -> list[render.Section]:
    return [section(a, n) for n in range(len(a.relevance))]


def page(found: Sequence[render.Section], a: Attribution) -> str:
    """Returns a page of texts that were all explained like the first of them, ``a``."""
    title = found[0].title if len(found) == 1 else f"{a.method}: {len(found)} texts"
    return render.html(found, title=title, made=made(a))


def made(a: Attribution) -> str:
    return render.made(a.model, a.method, a.options)


CELLS = Environment(autoescape=True, trim_blocks=True).from_string(
    """<div style="line-height:2;max-width:60rem">
{% for s in samples %}
<div><strong>{{ method }}</strong> {{ s.about }}<br>
{% for t in s.tokens %}
<span title="{{ t.value }}" style="padding:.15em .25em;border-radius:.2em;white-space:pre;\
background:rgba({{ t.colour }}){{ t.line }}">{{ t.token }}</span>
{% endfor %}
</div>
{% endfor %}
<small style="opacity:.8">{{ legend }}{{ more }}</small></div>"""
)
"""A cell of a notebook: styles are inline, and its colours show on light and dark alike."""


def heat_maps(a: Attribution, most: int) -> str:
    """Draws the ``most`` first examples for a notebook; a token without a name is its position."""
    numbers = zip(a.target.tolist(), a.logit.tolist(), a.residual.tolist(), strict=True)
    samples = [
        {
            "about": f"target {target}: logit {logit:+z.4f}, residual {residual:+z.4f}",
            "tokens": _shade_tokens(a.lines(n)),
        }
        for n, (target, logit, residual) in enumerate(islice(numbers, most))
    ]
    left = max(0, len(a.relevance) - most)
    more = f" {left} more samples are not shown." if left else ""
    facts = {
        "method": a.method,
        "samples": samples,
        "legend": render.legend("target"),
        "more": more,
    }
    return printable(CELLS.render(facts))


def _shade_tokens(lines: Sequence[tuple[int, str | None, float]]) -> Iterator[dict[str, object]]:
    """Yields transparent colours, so that letters keep the colour of their page."""
    top = max((abs(value) for *_, value in lines), default=0.0) or 1.0
    for position, token, value in lines:
        hue, line = ("31,119,255", ";text-decoration:underline") if value < 0 else ("235,40,40", "")
        yield {
            "token": position if token is None else token,
            "value": f"{value:+z.4f}",
            "colour": f"{hue},{0.55 * abs(value) / top:.2f}",
            "line": line,
        }
