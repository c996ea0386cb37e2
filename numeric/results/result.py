"""The result of a method: relevance of every token, and its forms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from rich.console import RenderableType
from rich.constrain import Constrain
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lrp_axioms.axioms.extras import need
from lrp_axioms.numeric.results import cells, overlays, pictures, render, stored
from lrp_axioms.numeric.results.render import LayerMap
from lrp_axioms.numeric.results.spelled import readable
from lrp_axioms.numeric.results.words import named_units
from lrp_axioms.numeric.spelling import printable

if TYPE_CHECKING:
    from pandas import DataFrame

TENSORS = ("relevance", "target", "logit", "residual")
GROUPS = ("details", "inside")
SHOWN = 20  # samples of a notebook's cell
SMALL = 3  # samples of a line
ROLLOUT = "attention-rollout"
GRID = "grid"  # rows and columns of patches, where these stand row by row in one image


@dataclass(frozen=True)
class Facts:
    """Fields of an Attribution in its file, except tensors; each is a field of Attribution."""

    method: str
    tokens: tuple[tuple[str | None, ...], ...] | None
    options: dict[str, Any]
    details: list[str]
    inside: list[str]
    model: str = ""
    number: str = "logit"


@dataclass(frozen=True, eq=False, repr=False)  # tensors have no one truth value
class Attribution:
    """Relevance of every token for one logit per example; all in logits unless noted.

    relevance: (batch, token), 0 at padding
    target: (batch,) explained class, tag, token, or position; (batch, term) of a sum
    logit: (batch,) the explained number
    residual: (batch,) logit minus the sum of relevance: absorbed or lost relevance
    details: further tensors of the method, such as the completeness gap of Integrated Gradients
    inside: by path, in order of return, relevance at outputs of ``at``: (batch, token[, channel])
    tokens: where a tokenizer was given, the token in every column of each example, None at padding
    model: the name of its class, or another name for pages and pictures
    patches: (batch, position) of the images that came with a text, None for a text or image alone
    number: its kind, such as "logit difference" or "log-probability"
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
    patches: Tensor | None = None
    number: str = "logit"

    def __repr__(self) -> str:
        count, length = self.relevance.shape
        first = ", ".join(f"{x:+z.4f}" for x in self.logit[:SMALL].tolist())
        more = ", ..." if count > SMALL else ""
        of_image = "" if self.patches is None else f" + {self.patches.shape[1]} patches"
        size = f"{count} x {length} tokens{of_image}"
        return printable(f"Attribution({self.method}: {size}, {self.number} [{first}{more}])")

    def _repr_html_(self) -> str:
        samples = [(self.about(n), section(self, n)) for n in range(len(self.relevance))[:SHOWN]]
        return cells.heat_maps(self.method, samples, len(self.relevance) - SHOWN, legend_of(self))

    def about(self, sample: int) -> str:
        """Names the explained number of one example, and how much of it tokens miss."""
        if self.method == ROLLOUT:
            return "shares of attention"
        label, y, rest = (x[sample].tolist() for x in (self.target, self.logit, self.residual))
        seen = "" if self.patches is None else f", image {self.patches[sample].sum():+z.4f}"
        return f"target {label}: {self.number} {y:+z.4f}{seen}, residual {rest:+z.4f}"

    def lines(self, sample: int) -> list[tuple[int, str | None, float]]:
        """Lists position, token and relevance of one example; no padding if tokens are known."""
        values = self.relevance[sample].tolist()
        if self.tokens is None:
            return [(n, None, value) for n, value in enumerate(values)]
        pairs = zip(self.tokens[sample], values, strict=True)
        return [(n, token, value) for n, (token, value) in enumerate(pairs) if token is not None]

    def to_pandas(self) -> "DataFrame":
        """Returns one line per token, then per patch: sample, position, token, relevance.

        A patch whose place is known is called "patch ROW, COLUMN", from 1, and others "patch".
        """
        need("Attribution.to_pandas", "pandas")
        import pandas as pd

        samples = range(len(self.relevance))
        found = [(n, *x) for n in samples for x in [*self.lines(n), *self._patch_lines(n)]]
        return pd.DataFrame(found, columns=["sample", "position", "token", "relevance"])

    def _patch_lines(self, sample: int) -> list[tuple[int, str, float]]:
        values = [] if self.patches is None else self.patches[sample].tolist()
        rows, columns = self.details[GRID].tolist() if GRID in self.details else (0, 0)
        places = [f"patch {y + 1}, {x + 1}" for y in range(rows) for x in range(columns)]
        names = ["patch"] * (len(values) - len(places)) + places
        return [(n, *line) for n, line in enumerate(zip(names, values, strict=True))]

    def by(self, unit: str, tokenizer: PreTrainedTokenizerBase) -> Self:
        """Sums relevance of tokens to words or sentences (``unit`` "word" or "sentence").

        Details and ``inside`` are by token, and left out.  Raises ValueError for another unit, and
        for a result that does not know its tokens.
        """
        numbers, names = self._units(unit, tokenizer)
        width = max(map(len, names))
        sums = self.relevance.new_zeros(len(names), width + 1)  # the last is padding's
        return replace(
            self,
            relevance=sums.scatter_add(1, numbers, self.relevance)[:, :width],
            tokens=tuple((*x, *[None] * (width - len(x))) for x in names),
            details={key: x for key, x in self.details.items() if key == GRID},
            inside={},
        )

    def _units(self, unit: str, tokenizer: Any) -> tuple[Tensor, list[list[str]]]:
        """Returns each token's number of its word or sentence, (batch, token), and their texts."""
        if self.tokens is None:
            raise ValueError("tokens are not known: pass tokenizer=tokenizer to attribute()")
        rows, names = [], []
        for row in self.tokens:
            known = [x for x in row if x is not None]
            ids: Any = tokenizer.convert_tokens_to_ids(known)  # an entry is None without [UNK]
            if None in ids or tokenizer.convert_ids_to_tokens(ids) != known:
                raise ValueError(
                    "some tokens are not the tokenizer's: pass the tokenizer of the model, and add "
                    "up a result of tokens, not of words"
                )
            found, words = named_units(tokenizer, ids, unit)
            left = iter(found)
            rows.append([len(words) if x is None else next(left) for x in row])
            names.append(words)
        return torch.tensor(rows, device=self.relevance.device), names

    def save(self, path: str | Path) -> None:
        """Writes one file of safetensors, whose header holds the rest as JSON; no pickle.

        Tensors come back on the CPU.  Raises TypeError for an option that is no data and no tensor.
        """
        tensors: dict[str, Tensor] = {name: getattr(self, name) for name in TENSORS}
        tensors |= {} if self.patches is None else {"patches": self.patches}
        options, plain = stored.split_options(self.options)
        named = {group: getattr(self, group) for group in GROUPS} | {"options": options}
        for group, found in named.items():
            tensors |= {f"{group}/{key}": x for key, x in found.items() if isinstance(x, Tensor)}
        more = [*self.details], [*self.inside], self.model, self.number
        facts = Facts(self.method, self.tokens, plain, *more)
        stored.write(path, "attribution", tensors, vars(facts))

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
        floats |= {"patches": (count, shapes["patches"][-1])} if "patches" in shapes else {}
        stored.check(tensors, floats, {"target", *others})
        if shapes["target"][:1] != (count,) or len(shapes["target"]) > 2:
            raise ValueError(f"target has the shape {shapes['target']} for {count} examples")
        if facts.tokens is not None and [*map(len, facts.tokens)] != [length] * count:
            raise ValueError(f"tokens must be {count} rows of {length}, as relevance is")
        given: dict[str, Any] = vars(facts) | {name: tensors[name] for name in TENSORS}
        given |= {group: {key: tensors[f"{group}/{key}"] for key in keys[group]} for group in keys}
        given["options"] = facts.options | stored.join_options(given["options"])
        given["patches"] = tensors.get("patches")
        return cls(**given)

    def terminal(self, width: int = 80) -> Iterator[RenderableType]:
        """Yields every text for rich: its tokens coloured, and their numbers."""
        for each in self.sections():
            yield from (Constrain(part, width) for part in each.terminal())

    def html(self, images: Sequence[object] = (), grid: tuple[int, int] | None = None) -> str:
        """Returns a self-contained page of all texts, with colours and numbers.

        ``images``, one of each example, stand under the relevance of their patches (``overlay``).
        """
        return page(self._illustrated(images, grid), self)

    def png(self, images: Sequence[object] = (), grid: tuple[int, int] | None = None) -> bytes:
        """Draws all texts as a picture, with ``images`` as in ``html``."""
        return pictures.texts(self._illustrated(images, grid), made=made(self))

    def sections(self) -> list[render.Section]:
        return [section(self, n) for n in range(len(self.relevance))]

    def _illustrated(
        self, images: Sequence[object], grid: tuple[int, int] | None
    ) -> list[render.Section]:
        found, kind = self.sections(), type(images).__name__
        if not hasattr(images, "__len__"):
            raise ValueError(f"images is a {kind}: pass a list, one of each example")
        if not len(images):
            return found
        values = self.relevance if self.patches is None else self.patches
        known = self.details[GRID].tolist() if GRID in self.details else None
        places = overlays.sides(known, grid, values.shape[1])
        drawn = overlays.of_each(images, values.tolist(), places)
        legend = f"{found[0].legend} Patches against it are hatched."
        return [replace(x, picture=y, legend=legend) for x, y in zip(found, drawn, strict=True)]


def section(
    a: Attribution,
    sample: int,
    *,
    why: str = "",
    explains: str = "target",
    maps: Sequence[LayerMap] = (),
) -> render.Section:
    """Makes a section of one example; ``why`` and ``explains`` are its words."""
    lines = a.lines(sample)
    tokens = readable([str(n) if token is None else token for n, token, _ in lines])
    why = f"why {why or f'target {a.target[sample].tolist()}'}?"
    if a.method == ROLLOUT:
        why = "where the model attends"
    caption, legend = _caption(a, sample), legend_of(a, explains)
    values = [value for *_, value in lines]
    return render.Section(tokens, values, f"{a.method}: {why}", caption, legend, maps)


def legend_of(a: Attribution, explains: str = "target") -> str:
    """Explains the colours of a result."""
    if a.method == ROLLOUT:
        return "Red: the larger share of attention."
    return render.legend("similarity" if "measure" in a.options else explains)


def _caption(a: Attribution, sample: int) -> str:
    """Writes the sum of one example's relevance, in words."""
    if a.method == ROLLOUT:
        return "Shares of attention, which are not logits: they sum to 1 whatever the model says."
    image = "" if a.patches is None else f" + the image {a.patches[sample].sum():+z.4f}"
    number = a.options.get("measure", a.number)
    said = (
        f"{number.capitalize()} {a.logit[sample]:+z.4f} = relevance of the tokens "
        f"{a.relevance[sample].sum():+z.4f}{image} + residual {a.residual[sample]:+z.4f}."
    )
    from lrp_axioms.numeric.methods.catalogue import METHODS, WITH_LEMMAS

    if a.method not in METHODS:
        return said
    if METHODS[a.method].composite and number == a.number and "log-" not in number:
        amounts = a.residual[sample].item(), a.logit[sample].item()
        said += _in_percent(number, *amounts, audited=a.method in WITH_LEMMAS)
    return f"{said} {a.method} {METHODS[a.method].conservation}."


def _in_percent(number: str, residual: float, logit: float, *, audited: bool) -> str:
    """Compares the residual with the explained number; nothing if it is below half a percent."""
    if abs(residual) < 0.005 * abs(logit) or not logit:
        return ""
    share = residual / logit
    said, where = f"{share:.0%} of the {number} did not reach the tokens", "where it went"
    if share < 0:
        said, where = f"The tokens received {-share:.0%} more than the {number}", "from where"
    return f" {said}; `audit` says {where}." if audited else f" {said}."


def page(found: Sequence[render.Section], a: Attribution, *others: Attribution) -> str:
    """Returns a page of texts that were explained like ``a``, or by the methods of others too."""
    methods = [*dict.fromkeys(x.method for x in (a, *others))]
    if len(methods) > 1:
        a = replace(a, method=", ".join(methods), options={})
    texts = len(found) // len(methods)
    title = found[0].title if len(found) == 1 else f"{a.method}: {texts} text{'s' * (texts > 1)}"
    return render.html(found, title=title, made=made(a))


def made(a: Attribution) -> str:
    return render.made(a.model, a.method, a.options)
