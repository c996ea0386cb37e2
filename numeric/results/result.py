"""What a method found: relevance of every token, and its forms."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from torch import Tensor

from axioms.extras import need
from numeric.results import stored
from numeric.spelling import printable

if TYPE_CHECKING:
    from pandas import DataFrame

TENSORS = ("relevance", "target", "logit", "residual")
GROUPS = ("details", "inside")
SHOWN = 20  # samples of a notebook's cell
SMALL = 3  # samples of a line


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
    logit: (batch,) its logit, or whatever else the target is
    residual: (batch,) logit minus the sum of relevance: what was absorbed or lost
    details: further tensors of the method, such as the completeness gap of Integrated Gradients
    inside: relevance at what modules return that were asked for (``at``), by path, in the order in
        which they return: (batch, token), or (batch, token, channel)
    tokens: where a tokenizer was given, the token in every column of each example, None at padding
    model: the name of its class, or whatever it is to be called on pages and pictures
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
        from numeric.results.render import heat_maps

        return heat_maps(self, SHOWN)

    def lines(self, sample: int) -> list[tuple[int, str | None, float]]:
        """Position, token and relevance of one example; without padding, where tokens are known."""
        values = self.relevance[sample].tolist()
        if self.tokens is None:
            return [(n, None, value) for n, value in enumerate(values)]
        pairs = zip(self.tokens[sample], values, strict=True)
        return [(n, token, value) for n, (token, value) in enumerate(pairs) if token is not None]

    def to_pandas(self) -> "DataFrame":
        """One line per token: sample, position, token, relevance; see ``lines``."""
        need("Attribution.to_pandas", "pandas")
        import pandas as pd

        found = [(n, *line) for n in range(len(self.relevance)) for line in self.lines(n)]
        return pd.DataFrame(found, columns=["sample", "position", "token", "relevance"])

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
        """What ``save`` wrote.  Raises ValueError for any other file."""
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

    def terminal(self, width: int = 80) -> Iterable[RenderableType]:
        """Every text for rich: its tokens coloured, and their numbers."""
        from numeric.results import views

        return views.terminal(self, width)

    def html(self) -> str:
        """A self-contained page of all texts, with colours and numbers."""
        from numeric.results import views

        return views.page(views.sections(self), self)

    def png(self) -> bytes:
        """All texts as a picture, every token on its colour and above its number."""
        from numeric.results import pictures, views

        return pictures.texts(views.sections(self), made=views.made(self))
