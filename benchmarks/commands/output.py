"""Options of every command, and its answer in one of three forms.

The default is a summary that fits a screen; --full prints everything, --json one object.
"""

import inspect
import json
import logging
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text
from typer.core import TyperCommand

from lrp_axioms.axioms.writing import write_named
from lrp_axioms.benchmarks.commands.console import (
    answers_alone,
    console,
    invocation,
    mendable,
    problems,
)
from lrp_axioms.numeric.spelling import some

LINES = 24  # of a screen
AROUND = 2  # lines below a table: how to see more, and the file that was written
FILES = 3  # more files share one line
NOTE = 3  # lines of a table's first finding, where there are several tables
EXIT_CODES = (
    "Exit codes: 0 done; 1 a proof is not established, a certificate is wrong, or a bug in this "
    "program; 2 something that you can fix, said in one message; 130 interrupted. See "
    "docs/COMMANDS.md."
)
SHARED = {
    "json": "Print one JSON object, and errors as JSON on standard error.",
    "quiet": "Print nothing but errors; files are written.",
    "full": "Print everything, not only what fits a screen.",
}


class Once(TyperCommand):
    """A command that refuses a repeated option, unless the option takes several values."""

    def parse_args(self, ctx, args):
        if not ctx.resilient_parsing:  # shell completion parses partial lines
            *_, order = self.make_parser(ctx).parse_args([*args])
            given = Counter(x for x in order if x.param_type_name == "option" and not x.multiple)
            if twice := [x.opts[0] for x, count in given.items() if count > 1]:
                said = f"{', '.join(twice)}: given twice; pass it once"
                raise typer.BadParameter(said, ctx=ctx)
        return super().parse_args(ctx, args)


def with_shared_options(command: Callable) -> Callable:
    """Adds the options in ``SHARED`` to a command for Typer."""
    options = {
        name: Annotated[bool, typer.Option(f"--{name}", help=SHARED[name])] for name in SHARED
    }

    @wraps(command)
    def run(**given):
        invocation.begin(command.__name__, **{name: given.pop(name) for name in SHARED})
        console.quiet = problems.quiet = invocation.json or invocation.quiet
        level = logging.WARNING if console.quiet else logging.INFO
        logging.getLogger("lrp_axioms").setLevel(level)
        with answers_alone():
            return command(**given)

    signature = inspect.signature(command)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=option)
        for name, option in options.items()
    ]
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])
    run.__annotations__ = command.__annotations__ | options
    return run


def note(text: str) -> None:
    """Says a surprise once: a line on standard error, a note of the object, or to a listener."""
    from lrp_axioms.numeric.warning import LISTENER  # a help text needs none

    if (tell := LISTENER.get()) is not None:
        return tell(text)
    if text in invocation.notes:
        return
    invocation.notes.append(text)
    problems.print(f"note: {text}", markup=False, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """Prints lines that a terminal wraps, for an answer without tables."""
    console.print(text, markup=False, soft_wrap=True)


@contextmanager
def noting() -> Iterator[None]:
    """Turns warnings of the block into notes."""
    from lrp_axioms.benchmarks.commands.advice import of_command

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        yield
    for said in dict.fromkeys(str(each.message) for each in found):
        note(of_command(said))


def answer(**facts) -> None:
    """Prints the one object of a command, with --json alone; NaN is written as null."""
    if invocation.json:
        about = {"command": invocation.command, "version": version("lrp-axioms")}
        if "wrote" in facts:
            facts["wrote"] = [path for path in facts["wrote"] if path]
        notes = {"notes": [*dict.fromkeys([*facts.pop("notes", ()), *invocation.notes])]}
        text = json.dumps(about | _plain(facts) | notes, allow_nan=False)
        console.quiet = False
        console.out(text, highlight=False)
        console.quiet = True


def present(
    parts: Iterable[RenderableType],
    short: Iterable[RenderableType] = (),
    *,
    wrote: Sequence[Path | None] = (),
) -> None:
    """Prints all ``parts`` if they fit a screen or with --full, else ``short`` and a hint."""
    paths = [path for path in wrote if path]
    if not console.quiet:
        parts = list(parts)
        if not invocation.full and height(parts) > LINES - min(len(paths), FILES):
            parts = [*short, Text("--full prints everything, --json as data.", style="dim")]
        for part in parts:
            # The console joins texts, and then their own way of wrapping is lost.
            own = {key: getattr(part, key, None) for key in ("no_wrap", "overflow")}
            console.print(part, highlight=False, crop=False, **own)
    for path in paths if len(paths) <= FILES else [some(paths)]:
        console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


def write_each(
    option: str, path: Path | None, items: Sequence, content: Callable[[object], bytes]
) -> list[Path]:
    """Writes the ``content`` of one item to ``path``; of several, each beside it with its number.

    Returns the files; without a path there are none.
    """
    if path is None:
        return []
    paths = [path]
    if len(items) > 1:
        digits = len(str(len(items)))
        paths = [path.with_stem(f"{path.stem}-{n:0{digits}}") for n in range(1, len(items) + 1)]
    for file, item in zip(paths, items, strict=True):
        with mendable(f"{option} {file}"):
            write_named(file, content(item))
    return paths


def of_result(result, *, whole: bool = False) -> tuple[list, list]:
    """Returns an experiment's table with all notes, and with the notes that fit a screen.

    ``whole``: the first table has every row.
    """
    from lrp_axioms.benchmarks.experiments import tables

    notes = [Padding(Text(note), (0, 0, 0, 1)) for note in result.notes]
    shortest = tables.terminal(result)
    if whole:
        return [tables.terminal(result, whole=True), *notes], [shortest, *notes]
    fits = height([shortest]) <= LINES - AROUND or not notes
    head = shortest if fits else Text(result.title, style="bold")
    return [shortest, *notes, Text("")], _that_fit(head, notes)


def headline(result) -> list[RenderableType]:
    """Returns an experiment's title and first note, in few lines; without a note, its table."""
    from lrp_axioms.benchmarks.experiments import tables

    title = first_lines(Text(result.title, style="bold"), 1)
    first = [first_lines(Text(note), NOTE) for note in result.notes[:1]]
    return [title, *first] if first else [tables.terminal(result)]


def _that_fit(head, notes):
    """Returns ``head`` and as many whole ``notes`` as fit a screen with it."""
    shown = [head]
    for note in notes:
        if height([*shown, note]) > LINES - AROUND:
            break
        shown.append(note)
    return shown


def height(parts: Iterable[RenderableType]) -> int:
    """Counts lines on a terminal of this width."""
    return len(console.render_lines(Group(*parts), pad=False))


def first_lines(text: Text, most: int) -> Text:
    """Wraps a text and returns its first lines; "..." after a word if there are more."""
    lines = text.wrap(console, console.width)
    if len(lines) <= most:
        return text
    *kept, last = lines[:most]
    last.rstrip()
    if last.cell_len > console.width - 4:
        last.right_crop(4)
        words = last.plain.rpartition(" ")[0].rstrip()
        last.right_crop(len(last) - len(words) if words else 0)
    return Text("\n").join([*kept, last.append(" ...")])


def _plain(value):
    if isinstance(value, dict):
        return {str(key): _plain(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(x) for x in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
