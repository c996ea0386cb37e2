"""What all commands share: where they print, and one message for what a user can mend."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from axioms.composites import UnassignedOperation

console = Console(emoji=False)  # `:b:` in a path is a path
problems = Console(stderr=True, emoji=False)


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
