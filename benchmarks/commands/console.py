"""Output of all commands, and one message for each error that a user can mend."""

import atexit
import codecs
import gc
import json
import logging
import os
import sys
import traceback
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from errno import ENOSPC
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lrp_axioms.axioms.composites import UnassignedOperation
from lrp_axioms.axioms.extras import MissingLibrary, need
from lrp_axioms.numeric.spelling import did_you_mean, printable

SPELLED = {"█": "#", "░": "-", "−": "-", "–": "-", "—": "-", "≥": ">=", "≤": "<=", "→": "->",
           "ε": "eps", "τ": "tau", "Δ": "Delta", "α": "alpha", "β": "beta", "✓": "yes", "✗": "no",
           "·": "*", "×": "x", "±": "+-"}  # fmt: skip
"""Replacements for our signs on a terminal whose encoding lacks them."""


class OutputError(OSError):
    """Standard output, or standard error, takes no more: its disk is full, for example."""

    def __str__(self):
        return f"standard output: {self.args[0].strerror}; send it elsewhere"


class Formatter(logging.Formatter):
    """Makes lines of a log and warnings printable."""

    def format(self, record):
        return printable(super().format(record))


class Terminal(Console):
    """A console that obeys no character of a text, and survives a closed pipe (``| head``)."""

    def render(self, renderable, options=None):
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=printable(part.text))

    def __exit__(self, *raised):
        try:
            super().__exit__(*raised)
        except OSError as error:
            self.on_broken_pipe()  # else Python tries once more at its end
            raise OutputError(error) from error

    def on_broken_pipe(self):
        """Drops output that nobody reads; the command goes on with its files."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


@dataclass
class Invocation:
    """The running command with its shared options (``benchmarks.commands.output``)."""

    command: str = ""
    json: bool = False
    quiet: bool = False
    full: bool = False
    notes: list[str] = field(default_factory=list)

    def begin(self, command: str, *, json: bool, quiet: bool, full: bool) -> None:
        self.command, self.json, self.quiet, self.full = command, json, quiet, full
        self.notes = []


invocation = Invocation()
console = Terminal(emoji=False)  # `:b:` in a path is no emoji
problems = Terminal(stderr=True, emoji=False)


def spell_what_cannot_be_encoded() -> None:
    """Makes stdout and stderr spell signs that their encoding lacks, instead of raising."""
    codecs.register_error("spelled", _spelled)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # else it is closed, or no file
            stream.reconfigure(errors="spelled")


def _spelled(error):
    letters = error.object[error.start : error.end]
    return "".join(SPELLED.get(letter) or _plain(letter) for letter in letters), error.end


def _plain(letter):
    """Returns the letter below an accent, the digit of a superscript, or else a question mark."""
    return unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode() or "?"


def check_files(*, read: Mapping[str, Path | None] | None = None, **files: Path | None) -> None:
    """Raises ValueError, with the option's name, for a path where no file can be written.

    No two ``files`` may be one path, and none may be a path in ``read``.  Raises MissingLibrary
    for a picture that cannot be drawn here.
    """
    option_of: dict[Path, str] = {}
    for option, path in ((read or {}) | files).items():
        place = path and Path(os.path.realpath(path))  # resolve() breaks down at a circle of links
        if place and (other := option_of.setdefault(place, option)) != option:
            raise ValueError(f"--{other} and --{option} are both {path}; pass another file for one")
    for option, path in files.items():
        if path and Path(os.path.realpath(path)).is_symlink():
            raise ValueError(f"--{option} {path} is a link that leads to itself; pass another file")
        if path and path.is_dir():
            raise ValueError(f"--{option} {path} is a folder; pass a file in it")
        if path and not path.parent.is_dir():
            raise ValueError(f"--{option} {path}: there is no folder {path.parent}; make it first")
        if path and option == "png" and path.suffix.lower() != ".png":
            raise ValueError(f"--png {path}: pictures are written as PNG alone; pass NAME.png")
    if files.get("png"):
        need("--png", "matplotlib")


def check_folder(output: Path) -> None:
    """Raises ValueError for a file in place of a folder of results."""
    if output.is_file():
        raise ValueError(f"--output {output} is a file; pass a folder")


def check_names(option: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises ValueError that lists all ``given`` names that are not ``known``."""
    if unknown := [name for name in given if name not in known]:
        raise ValueError(
            f"{option} {', '.join(unknown)}: pass {', '.join(known)}{did_you_mean(unknown, known)}"
        )


@contextmanager
def loading(what: str):
    """Shows a status line; pauses garbage collection, as imported libraries leave no garbage."""
    gc.disable()
    try:
        with problems.status(f"loading {what}"):
            yield
    finally:
        gc.enable()


@contextmanager
def mendable(place: str = "", *, catch=(ValueError, OSError, UnassignedOperation, MissingLibrary)):
    """Turns errors that a user can mend into one message and exit code 2; others are our own.

    ``place`` is the option that an error of the operating system is about.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # Compares names, because importing torch takes seconds.
        if isinstance(error, RuntimeError) and type(error).__name__ != "OutOfMemoryError":
            raise
        tell("the memory is full; close other programs and run again, or pass shorter texts")
        raise typer.Exit(code=2) from error
    except catch as error:
        system = place and isinstance(error, OSError) and error.strerror
        step = "make room there, or pass" if system and error.errno == ENOSPC else "pass"
        message = f"{place}: {error.strerror}; {step} another one" if system else str(error)
        from lrp_axioms.benchmarks.commands.advice import of_command

        tell(of_command(message))
        raise typer.Exit(code=2) from error


@contextmanager
def whole_program():
    """Turns a failed output into one message and exit code 2.

    Makes the traceback of a bug printable.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None:  # of an output
            tell(str(error if isinstance(error, OutputError) else OutputError(error)))
            sys.exit(2)
        sys.excepthook = _trace  # replaces Typer's hook
        raise


def _trace(*error):
    sys.stderr.write(printable("".join(traceback.format_exception(*error))))


@contextmanager
def answers_alone():
    """Sends prints of libraries to stderr: Ray prints a notice for a lost worker.

    Ray prints until this process ends, so stdout goes to stderr then, too.
    """
    console.file = sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        console.file = None
        atexit.register(lambda: redirect_stdout(sys.stderr).__enter__())  # before Ray's own end


def tell(message: str) -> None:
    """Prints an error to stderr, even with --quiet; with --json as an object."""
    problems.quiet = False
    if invocation.json:
        error = {"message": message, "exit_code": 2}
        found = {"command": invocation.command, "error": error, "notes": invocation.notes}
        problems.out(json.dumps(found), highlight=False)
        return
    problems.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True, highlight=False)


def complain(fault: str) -> None:
    """Prints a fault to stderr, even with --quiet; with --json the answer holds it."""
    problems.quiet = invocation.json
    problems.print(fault, markup=False, highlight=False, soft_wrap=True)


def bars() -> Progress:
    """Makes progress bars on stderr, gone when done; silent when stderr is no terminal."""
    said = TextColumn("{task.description}")
    columns = said, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    return Progress(*columns, console=problems, transient=True, disable=not problems.is_terminal)


def track(items: Iterable, description: str, *, within: Progress | None = None) -> Iterator:
    """Shows a bar over ``items``, by itself or ``within`` other bars."""
    with nullcontext(within) if within else bars() as shown:
        task = shown.add_task(description, total=None)
        yield from shown.track(items, task_id=task)
        shown.remove_task(task)


def each_with_bars(results: Iterable, shown: Progress, *, total: int, description: str) -> Iterator:
    """Yields ``results``, with bars while one is made, and without while it is printed."""
    task = shown.add_task(description, total=total)
    results, end = iter(results), object()
    while True:
        with shown:
            result = next(results, end)
        if result is end:
            return
        shown.advance(task)
        yield result
