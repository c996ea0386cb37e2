"""One text that ``lrp-axioms explain`` has explained, as data and as lines of a terminal."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version

from rich.console import RenderableType
from rich.text import Text

from axioms.composites import UnassignedOperation
from benchmarks.commands.output import LINES, first_lines, note
from benchmarks.errors import UnavailableError
from benchmarks.sources.files import some
from numeric import render
from numeric.layer_maps import LayerMap, layer_maps, terminal
from numeric.methods.catalogue import METHODS
from numeric.result import Attribution

TOP = 8  # tokens of a summary
WORDS = 8  # lines of a long text in it
SPEED = ("batch_size", "memory")  # options that change nothing else
ROLLOUT = "attention-rollout"
READ_AT = {"tag": "of", "next token": "after"}
"""How what is explained stands to the token at whose column it is read."""


@dataclass(frozen=True, eq=False)
class Explained:
    """A text with the relevance of its tokens.

    said: the class, tag or token that is explained, in words
    legend: what the colours say
    """

    text: str | tuple[str, str]
    tokens: list[str]
    attribution: Attribution
    said: str
    title: str
    legend: str
    maps: list[LayerMap]

    @property
    def relevance(self) -> list[float]:
        return self.attribution.relevance[0].tolist()

    @property
    def caption(self) -> str:
        a = self.attribution
        if a.method == ROLLOUT:
            return (
                "Shares of attention, which are not logits: they sum to 1 whatever the model says."
            )
        conserves = METHODS[a.method].conserves
        return (
            f"Logit {a.logit[0]:+z.4f} = relevance of the tokens {sum(self.relevance):+z.4f} + "
            f"residual {a.residual[0]:+z.4f}. Does {a.method} conserve relevance? "
            f"{conserves[0].upper()}{conserves[1:]}."
        )

    def section(self) -> dict:
        """Its part of a page."""
        facts = {"title": self.title, "caption": self.caption, "legend": self.legend}
        return render.section(self.tokens, self.relevance, maps=self.maps, **facts)

    def facts(self) -> dict:
        a = self.attribution
        return {
            "text": self.text,
            "target": a.target[0].tolist(),
            "said": self.said,
            "logit": a.logit[0].item(),
            "residual": a.residual[0].item(),
            "tokens": self.tokens,
            "relevance": self.relevance,
            "layers": [
                {
                    "where": m.where,
                    "columns": m.columns,
                    "tokens": m.tokens,
                    "values": m.values.tolist(),
                }
                for m in self.maps
            ],
        }

    def parts(self, width: int) -> Iterator[RenderableType]:
        """Everything, for a terminal."""
        yield Text(self.title, style="bold")
        yield from render.terminal(self.tokens, self.relevance, self.legend)
        yield Text(self.caption)
        yield from terminal(self.maps, width)

    def short(self) -> Iterator[RenderableType]:
        """What fits a screen: the beginning of a long text, and the tokens with most relevance."""
        words, legend, _ = render.terminal(self.tokens, self.relevance, self.legend)
        yield first_lines(Text(self.title, style="bold"), 2)
        yield first_lines(words, WORDS)
        yield legend
        yield render.largest(self.tokens, self.relevance, TOP)
        yield Text(self.caption)

    def line(self) -> Iterator[RenderableType]:
        """One of several texts, in two lines."""
        a = self.attribution
        yield first_lines(Text(f"{self.said!r}: logit {a.logit[0]:+z.4f}", style="bold"), 1)
        yield first_lines(render.terminal(self.tokens, self.relevance)[0], 1)


def explained(
    loaded, text, method: str, target, options: dict, columns: Callable[..., range] | None
) -> Explained:
    """One text, or a question with its context, by ``numeric.explain``.

    Its target is ``target`` of its tokens, or the span of its ``columns``.
    """
    from numeric import explain
    from numeric.targets import span, terms

    (ids,) = loaded.tokenizer([text])["input_ids"]
    tokens = loaded.tokenizer.convert_ids_to_tokens(ids)
    spanned = columns and columns(len(tokens))
    target = span(spanned.start, spanned.stop) if spanned else target(tokens)
    a = explain(loaded.model, loaded.tokenizer, [text], method=method, target=target, **options)
    shifted = getattr(loaded.model.config, "is_encoder_decoder", False)
    words = lambda first, end: loaded.tokenizer.decode(ids[first:end]).strip()
    if spanned:
        said = words(spanned.start, spanned.stop)
        why = f"the token{'s' * (len(spanned) > 1)} {said!r}"
    else:
        said = loaded.said(a.target[0].tolist(), tokens)
        why = f"the {loaded.explains} {said!r}"
        if loaded.explains == "class":
            why = named(a.target[0].item(), said)
        for term in terms(target) if loaded.explains in READ_AT else ():
            if term.at is not None:
                why += f" {READ_AT[loaded.explains]} {words(term.at, term.at + 1)!r}"
    maps = layer_maps(a, tokens, shifted=shifted)
    title = f"{a.method}: why {why}?"
    legend = render.legend("target" if spanned else loaded.explains)
    if method == ROLLOUT:
        title, legend = f"{ROLLOUT}: where the model attends", "Red: the larger share of attention."
    return Explained(text, tokens, a, said, title, legend, maps)


def made(model: str, a: Attribution) -> str:
    """The last line of a page: the model, the method, the version and the date."""
    told = {name: x for name, x in a.options.items() if name not in SPEED and x is not False}
    plain = {name: x for name, x in told.items() if isinstance(x, str | int | float)}
    options = ", ".join(f"{name} {x}" for name, x in plain.items())
    return (
        f"Model {model}; method {a.method}{f' ({options})' * bool(options)}; made by lrp-axioms "
        f"{version('lrp-axioms')} on {date.today().isoformat()}."
    )


def named(number: int, label: str) -> str:
    """A class by its number, and by its label unless Transformers made that of the number."""
    known = label not in (str(number), f"LABEL_{number}")
    return f"class {number}" + f", {label!r}" * known


def summary(found: Sequence[Explained]) -> Iterator[RenderableType]:
    """What fits a screen of one text, or of the first of several."""
    if len(found) == 1:
        yield from found[0].short()
        return
    most = (LINES - 3) // 2
    for each in found[:most]:
        yield from each.line()
    yield Text(found[0].legend, style="dim")
    if len(found) > most:
        yield Text(f"{len(found) - most} more texts", style="dim")


def each(texts: Sequence[str], of_one: Callable[[str], object], called: str = "text") -> list:
    """``of_one`` of every text; ValueError says which texts it refuses, all at once.

    ``called``: what a text is to the user, such as a line of standard input.
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


@contextmanager
def hint_to_quote(words: list[str]):
    """A model that is not there may be the first word of a text without quotation marks."""
    try:
        yield
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
    """The words of a text for which the tokenizer has one token alone, that of all such words."""
    if tokenizer.unk_token_id is None:
        return []
    if not tokenizer.is_fast:
        return [x for x in tokenizer.tokenize(text) if _id(tokenizer, x) == tokenizer.unk_token_id]
    read = tokenizer(text, return_offsets_mapping=True)
    places = zip(read["input_ids"], read["offset_mapping"], strict=True)
    words = [text[a:b] for number, (a, b) in places if number == tokenizer.unk_token_id]
    return [word for word in words if word not in ("", tokenizer.unk_token)]


def _id(tokenizer, token):
    return tokenizer.convert_tokens_to_ids(token)
