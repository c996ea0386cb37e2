"""Explains texts that a language model continues: ``lrp-axioms explain --generate``."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lrp_axioms.benchmarks.commands.console import check_names, console, loading, mendable, problems
from lrp_axioms.benchmarks.commands.output import (
    LINES,
    answer,
    first_lines,
    noting,
    present,
    write_each,
)

UNITS = ("token", "word", "sentence", "segment")
CUT = "Only a part of the text was read: the whole text is too long for the model."
CAUSES = 4  # of a written token, in a summary


def writes(count: int | None, reply: str | None, *, chat: bool) -> bool:
    """Decides whether a written text is explained; ValueError for options that do not fit."""
    if count is not None and reply is not None:
        raise ValueError("--answer is explained as it stands; leave --generate out")
    if reply is not None and not reply.strip():
        raise ValueError(f"--answer {reply!r}: pass a text")
    if chat and count is reply is None:
        raise ValueError("--chat: a message is answered; add --generate N or --answer TEXT")
    return count is not None or reply is not None


def check(by: str, apart: dict[str, object]) -> None:
    """Raises ValueError for an unknown unit, and for options in ``apart`` that the user set."""
    check_names("--by", [by], UNITS)
    given = [name for name, value in apart.items() if value not in (None, False)]
    if given:
        raise ValueError(
            f"{', '.join(given)}: not with --generate and --answer, which explain every token that "
            "is written"
        )


def parse_segments(
    parts: list[str], by: str, *, written: bool, chat: bool
) -> dict[str, str] | None:
    """Returns the parts NAME=PART by name; ValueError for others, and where nothing is written.

    The messages of a chat are segments without a name.
    """
    if not written and parts:
        raise ValueError("--segment is of texts that are written: add --generate N")
    found = {name: place for name, _, place in (part.partition("=") for part in parts)}
    if len(found) < len(parts) or not all({*found, *found.values()}):
        raise ValueError(f"--segment {', '.join(parts)}: pass NAME=PART, each with its own name")
    if by == "segment" and not found and not chat:
        raise ValueError("--by segment: name parts of the text with --segment NAME=PART")
    return found or None


def check_keep(keep: Path | None, contrast: str | None, *, written: bool) -> None:
    """Raises ValueError for --keep where nothing is written, with --contrast, and for a file."""
    if keep is None:
        return
    if not written or contrast is not None:
        raise ValueError(f"--keep {keep}: rows are kept with --generate N and without --contrast")
    if keep.exists() and not keep.is_dir():
        raise ValueError(f"--keep {keep} is a file; pass a folder")


def explain(
    name,
    texts,
    count,
    *,
    reply,
    chat,
    by,
    methods,
    budgets,
    html,
    png,
    device,
    dtype,
    truncate,
    called,
    keep,
    **options,
) -> None:
    """Explains a ``reply``, or up to ``count`` tokens that a model writes, behind each text."""
    with mendable():
        with loading("the model"):
            from lrp_axioms import explain_generation
            from lrp_axioms.benchmarks.commands.cutting import cut_prompt
            from lrp_axioms.benchmarks.commands.explained import each, load, note_unknown

            loaded = load([name, *texts], name, device=device, writes=True, dtype=dtype)
        note_unknown(loaded, [*texts, options["contrast"] or "", reply or ""])
        asked = prompts(loaded, chat=chat)
        how = {"count": count, "answers": [reply, options["contrast"]], "truncate": truncate}
        kept = each(texts, partial(cut_prompt, loaded, asked=asked, **how), called)
        options |= {"answer": reply} if count is None else {"max_new_tokens": count}
        found = []
        with noting(), problems.status("explaining what is written") as status:
            for method in methods:
                folders = iter(_folders(keep, len(texts), method if methods[1:] else ""))

                def of_one(text, method=method, folders=folders):
                    tell = lambda n, _row: status.update(f"explained {n + 1} written tokens")
                    own = {"keep": next(folders), "each": tell} if keep else {}
                    how = options | own | {"method": method} | budgets.get(method, {})
                    one = explain_generation(loaded.model, loaded.tokenizer, asked(text), **how)
                    return one, one if by == "token" else one.by(by)

                found += each(kept, of_one, called)
    title = Path(name).resolve().name if Path(name).is_dir() else name
    found, summed = ([replace(x, model=title) for x in row] for row in zip(*found, strict=True))
    notes = [[CUT] if text != part else [] for text, part in zip(texts, kept, strict=True)]
    pages = [*zip(found, notes * len(methods), strict=True)]
    wrote = write_each("--html", html, pages, lambda x: x[0].html(by, x[1]).encode())
    wrote += write_each("--png", png, summed, lambda x: x.png())
    facts = [{"text": x} | _facts(y) for x, y in zip(texts * len(methods), summed, strict=True)]
    answer(model=name, method=",".join(methods), by=by, texts=facts, wrote=wrote)
    parts = [part for one in summed for part in _parts(one)]
    present(parts, _short(summed), wrote=wrote)


def prompts(loaded, *, chat: bool) -> Callable[[str], Any]:
    """Returns a function that makes a prompt of a text; ValueError for chats without a template."""
    if chat and not loaded.tokenizer.chat_template:
        raise ValueError(
            f"--chat: the tokenizer of {loaded.name} has no chat template; leave it out"
        )
    return lambda text: [{"role": "user", "content": text}] if chat else text


def _folders(keep: Path | None, count: int, method: str) -> list[Path]:
    """Returns a folder for the rows of each text by one of several methods, or by "" alone."""
    if keep is None:
        return []
    keep /= method
    return [keep / f"text-{n + 1}" for n in range(count)] if count > 1 else [keep]


def _facts(found) -> dict:
    numbers = {key: getattr(found, key).tolist() for key in ("relevance", "logit", "residual")}
    places = {key: getattr(found, key) for key in ("first", "source", "scale", "contrast")}
    places |= {"segments": found.segments, "method": found.method}
    return {"tokens": found.tokens, "written": "".join(found.written)} | places | numbers


def _parts(found) -> Iterator[RenderableType]:
    """Yields the heat map, and a table of every token's logit and residual."""
    yield from found.terminal(console.width)
    residual = [] if found.shares else ["residual"]
    table = Table("written", found.scale, *residual, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for token, *numbers in _written(found):
        table.add_row(Text(token), *(f"{x:+z.4f}" for x in numbers[: 1 + len(residual)]))
    yield table


def _written(found):
    """Yields each written token, its logit, and the residual that no token's relevance holds."""
    from lrp_axioms.numeric.generation.result import shown

    numbers = (found.logit.tolist(), found.residual.tolist())
    return zip(map(shown, found.written), *numbers, strict=True)


def _short(found: Sequence) -> Iterator[Text]:
    """Yields a line for each of the first written tokens, with its most relevant tokens."""
    lines = [line for each in found for line in _lines(each)]
    yield from lines[: LINES - 2]
    if len(lines) > LINES - 2:
        yield Text(f"{len(lines) - LINES + 2} more lines", style="dim")


def _lines(found):
    from lrp_axioms.numeric.generation.result import shown, title

    yield first_lines(Text(title(found), style="bold"), 1)
    for (token, logit, residual), row in zip(_written(found), found.relevance, strict=True):
        order = row.abs().argsort(descending=True).tolist()[:CAUSES]
        causes = ", ".join(f"{shown(found.tokens[n])} {row[n]:+z.2f}" for n in order if row[n])
        largest = f", residual {residual:+z.2f}; largest"
        largest = "; largest shares of attention" if found.shares else largest
        numbers = f" {logit:+z.2f}{largest}: {causes}"
        said = Text.assemble((token, "bold"), numbers)
        yield first_lines(said, 1)
