"""One text that ``lrp-axioms explain`` has explained, as data and as lines of a terminal."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lrp_axioms.axioms.composites import UnassignedOperation
from lrp_axioms.benchmarks.commands.cutting import read
from lrp_axioms.benchmarks.commands.output import LINES, first_lines, note
from lrp_axioms.benchmarks.commands.targets import rather, said_of
from lrp_axioms.benchmarks.errors import UnavailableError
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.results import pictures, render
from lrp_axioms.numeric.results.layer_maps import layer_maps, terminal
from lrp_axioms.numeric.results.result import Attribution
from lrp_axioms.numeric.results.result import made as made_of
from lrp_axioms.numeric.results.result import section as section_of
from lrp_axioms.numeric.spelling import some

TOP = 8  # tokens of a summary
WORDS = 7  # lines of a long text in it
READ_AT = {"tag": "of", "next token": "after"}
"""Preposition between an explained tag or next token and the token at its column."""


@dataclass(frozen=True, eq=False)
class Explained:
    """A text with the relevance of its tokens.

    said: the class, tag or token that is explained, in words
    section: its title, tokens and relevance, ready to print
    cut: which tokens a cut has left, in words
    """

    text: str | tuple[str, str]
    attribution: Attribution
    said: str
    section: render.Section
    cut: str = ""

    def facts(self) -> dict:
        a = self.attribution
        return {
            "text": self.text,
            "method": self.attribution.method,
            "target": a.target[0].tolist(),
            "said": self.said,
            "logit": a.logit[0].item(),
            "residual": a.residual[0].item(),
            "tokens": [str(n) if x is None else x for n, x, _ in a.lines(0)],
            "relevance": self.section.relevance,
            "layers": [
                {key: getattr(m, key) for key in ("where", "columns", "tokens")}
                | {"values": m.values.tolist()}
                for m in self.section.maps
            ],
        }

    def parts(self, width: int) -> Iterator[RenderableType]:
        """Yields everything, for a terminal."""
        yield from self.section.terminal()
        yield from terminal(self.section.maps, width)

    def short(self) -> Iterator[RenderableType]:
        """Yields a screen: the beginning of a long text, and the tokens with most relevance."""
        title, words, legend, _, caption = self.section.terminal()
        yield first_lines(title, 2)
        yield first_lines(words, WORDS)
        yield legend
        yield self._largest()
        yield caption

    def _largest(self) -> Table:
        """Lists the tokens with most relevance by size, in their order, with columns."""
        tokens, relevance = self.section.tokens, self.section.relevance
        found = render.table("column", "token", "largest relevance")
        for n in sorted(render.by_size(relevance)[:TOP]):
            found.add_row(str(n), Text(tokens[n]), f"{relevance[n]:+z.4f}")
        return found

    def png(self) -> bytes:
        """Draws the layers, if there are any, or else the tokens, as PNG."""
        shown, made = self.section, made_of(self.attribution)
        if shown.maps:
            legend = shown.legend.replace("underlined", "with a dot").replace("Underlines", "Dots")
            legend = f"{legend} {render.LAYERS}"
            return pictures.maps(shown.maps, title=shown.title, legend=legend, made=made)
        return pictures.texts([shown], made=made)

    def line(self) -> Iterator[RenderableType]:
        """Yields two lines, for one of several texts."""
        a = self.attribution
        title = f"{a.method}: {self.said!r}: logit {a.logit[0]:+z.4f}"
        yield first_lines(Text(title, style="bold"), 1)
        yield first_lines(self.section.terminal()[1], 1)


def explain_text(
    loaded,
    text,
    method: str,
    target,
    options: dict,
    columns: Callable[..., range] | None = None,
    *,
    truncate: bool,
) -> Explained:
    """Explains one text, or a question with its context, by ``lrp_axioms.explain``.

    The target is ``target(tokens)``, or the span ``columns(number of tokens)``.  With ``truncate``,
    a text that is longer than the model's positions is cut.
    """
    from lrp_axioms import attribute, explain
    from lrp_axioms.numeric.targets import span, terms

    inputs, tokens, cut = read(loaded, text, truncate=truncate)
    ids = inputs["input_ids"][0].tolist()
    spanned = columns and columns(len(tokens))
    target = span(spanned.start, spanned.stop) if spanned else target(tokens)
    how = {"method": method, "target": target, **options}
    if cut:
        a = attribute(loaded.model, inputs, tokenizer=loaded.tokenizer, **how)
    else:
        a = explain(loaded.model, loaded.tokenizer, [text], **how)
    shifted = facts_of(loaded.model).two
    words = lambda first, end: loaded.tokenizer.decode(ids[first:end]).strip()
    if spanned:
        said = words(spanned.start, spanned.stop)
        why = f"the token{'s' * (len(spanned) > 1)} {said!r}"
    else:
        said = said_of(loaded, a.target[0].tolist(), tokens)
        why = why_of(loaded, a.target[0].tolist(), said)
        places = {x.at for x in terms(target)} if loaded.explains in READ_AT else set()
        for at in places - {None}:
            why += f" {READ_AT[loaded.explains]} {words(at, at + 1)!r}"
    maps = layer_maps(a, tokens, shifted=shifted)
    explains = "target" if spanned else loaded.explains
    section = section_of(a, 0, why=why, explains=explains, maps=maps)
    if cut:
        section = replace(section, caption=f"{section.caption} {cut.capitalize()}.")
    return Explained(text, replace(a, model=loaded.name), said, section, cut)


def explained_shares(loaded, inputs, target, maps: Mapping[str, Any]) -> dict[str, float]:
    """Returns "explained" of ``evaluate`` for maps of one text by name, where it has a value.

    Constant maps have no value, nor have inputs that ``evaluate`` refuses: images, two texts of an
    encoder and a decoder, a model that drops the mask, and a row that is left without a token.
    """
    from lrp_axioms.numeric.evaluation.faithfulness import evaluate

    rows = {name: np.asarray(x)[None] for name, x in maps.items() if np.isfinite(x).all()}
    if hasattr(loaded, "processor") or not rows:
        return {}
    inputs = inputs.to(loaded.model.device)
    try:
        found = evaluate(loaded.model, inputs, rows, target=target, measures=["explained"])
    except ValueError:  # the maps themselves stand without it
        return {}
    values = {name: float(x["explained"][0]) for name, x in found.items()}
    return {name: x for name, x in values.items() if not math.isnan(x)}


def why_of(loaded, label: int | list[int], said: str) -> str:
    """Names an explained label, or two that are compared, for a title."""
    if loaded.explains == "answer":
        return f"the answer {said!r}"
    if loaded.explains == "class":
        name, noun = (lambda n: named(n, loaded.label(n))), ""
    else:
        name, noun = (lambda n: repr(loaded.label(n))), f"the {loaded.explains} "
    return noun + rather(name, label)


def named(number: int, label: str) -> str:
    """Returns "class N, LABEL", without a label that Transformers only made from the number."""
    known = label not in (str(number), f"LABEL_{number}")
    return f"class {number}" + f", {label!r}" * known


def summary(found: Sequence[Explained]) -> Iterator[RenderableType]:
    """Yields a screen of one text, or of the first of several."""
    if len(found) == 1:
        yield from found[0].short()
        return
    most = (LINES - 3) // 2
    for each in found[:most]:
        yield from each.line()
    yield Text(found[0].section.legend, style="dim")
    if len(found) > most:
        yield Text(f"{len(found) - most} more texts", style="dim")


def each(texts: Sequence[str], of_one: Callable[[str], object], called: str = "text") -> list:
    """Returns ``of_one`` of every text; one ValueError lists all the texts that it refuses.

    ``called``: the user's word for a text, such as "line" on standard input.
    """
    found, faults = [], {}
    for n, text in enumerate(texts, start=1):
        try:
            found.append(of_one(text))
        except (ValueError, UnassignedOperation) as error:
            faults.setdefault(str(error), []).append(n)
    for message, numbers in faults.items():
        if len(numbers) == len(texts):
            raise ValueError(message)
    if faults:
        said = (f"{called} {some(numbers)}: {message}" for message, numbers in faults.items())
        raise ValueError("\n".join(said))
    return found


def load(words: list[str], name: str, **options):
    """Loads a model; the error of a missing one says that ``words`` may be one unquoted text."""
    from lrp_axioms.benchmarks.sources import models

    try:
        return models.load(name, **options)
    except UnavailableError as error:
        if any(re.search(r"[\s/.~]", word) for word in words) or not all(words):
            raise
        quoted = " ".join(words)
        raise UnavailableError(f'{error}\nIf this is one text, quote it: "{quoted}"') from error


def note_unknown(loaded, texts: Sequence[str]) -> None:
    """Says which words the tokenizer does not know."""
    words = list(dict.fromkeys(word for text in texts for word in unknown(loaded.tokenizer, text)))
    if words:
        note(
            f"unknown to the tokenizer, and read as {loaded.tokenizer.unk_token}: "
            f"{some([repr(word) for word in words])}; `lrp-axioms vocabulary {loaded.name}` prints "
            "what it knows"
        )


def unknown(tokenizer, text: str) -> list[str]:
    """Returns the words of a text that the tokenizer reads as its unknown token."""
    unk, id_of = tokenizer.unk_token_id, tokenizer.convert_tokens_to_ids
    if unk is None:
        return []
    if not tokenizer.is_fast:
        return [x for x in tokenizer.tokenize(text) if id_of(x) == unk]
    from lrp_axioms.numeric.models.texts import tokenized

    read = tokenized(tokenizer, text, return_offsets_mapping=True)
    places = zip(read["input_ids"], read["offset_mapping"], strict=True)
    words = [text[a:b] for number, (a, b) in places if number == unk]
    return [word for word in words if word not in ("", tokenizer.unk_token)]
