"""Warns the code that called this project, through whichever of its functions."""

import os
import sys
import warnings
from pathlib import Path

PROJECT = tuple(
    f"{Path(__file__).resolve().parents[1] / name}{os.sep}"
    for name in ("axioms", "numeric", "benchmarks")
)


def warn_caller(said: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the innermost line of code outside this project."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PROJECT):
        frame, level = frame.f_back, level + 1
    warnings.warn(said, category, stacklevel=level)
