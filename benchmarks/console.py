"""What all commands share: where they print, and one message for what a user can mend."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from axioms.composites import UnassignedOperation

# What moves a cursor, colours a terminal, or turns the direction of writing around.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class _Shown(Console):
    """Shows what is in a text, a label or a path as characters, and obeys none of them."""

    def render(self, renderable, options=None):
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=CONTROLS.sub("�", part.text))


console = _Shown(emoji=False)  # `:b:` in a path is a path
problems = _Shown(stderr=True, emoji=False)


@contextmanager
def mendable(place: str = "", *, catch=(ValueError, OSError, UnassignedOperation)):
    """What a user can mend becomes one message and exit code 2; errors elsewhere are our own.

    ``place`` is the option that an error of the operating system is about.
    """
    try:
        yield
    except catch as error:
        system = place and isinstance(error, OSError)
        message = f"{place}: {error.strerror}; pass another one" if system else str(error)
        problems.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True, highlight=False)
        raise typer.Exit(code=2) from error


def track(items: Iterable, description: str) -> Iterator:
    """One bar per experiment, on stderr, gone when done; silent when stderr is no terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    silent = not problems.is_terminal
    with Progress(*columns, console=problems, transient=True, disable=silent) as bar:
        yield from bar.track(list(items), description=description)
