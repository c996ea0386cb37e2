"""Warns the code that called this project, through whichever of its functions."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

PROJECT = tuple(
    f"{Path(__file__).resolve().parents[1] / name}{os.sep}"
    for name in ("axioms", "numeric", "benchmarks")
)

LISTENER: ContextVar[Callable[[str], object] | None] = ContextVar("listener", default=None)


@contextmanager
def telling(tell: Callable[[str], object]) -> Iterator[None]:
    """Tells warnings of this thread to a function, while other threads warn as before."""
    before = LISTENER.set(tell)
    try:
        yield
    finally:
        LISTENER.reset(before)


def warn_caller(said: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the innermost line of code outside this project, or tells the thread's listener."""
    if (tell := LISTENER.get()) is not None:
        tell(said)
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PROJECT):
        frame, level = frame.f_back, level + 1
    warnings.warn(said, category, stacklevel=level)
