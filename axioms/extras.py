"""Optional libraries, and the error that names the extra to install."""

import sys
from collections.abc import Iterable
from importlib.util import find_spec


class MissingLibrary(ImportError):
    """Raised for a missing library; the message says who needs it and how to install it."""

    def __init__(self, what: str, libraries: Iterable[str], extra: str):
        install = f'pip install "lrp-axioms[{extra}]"'
        super().__init__(f"{what} needs {', '.join(libraries)}, not installed here; run {install}")


def need(what: str, *libraries: str, extra: str = "paper") -> None:
    """Raises MissingLibrary if ``what`` needs libraries of an ``extra`` that are not installed."""
    if missing := [*filter(_is_missing, libraries)]:
        raise MissingLibrary(what, missing, extra)


def _is_missing(library: str) -> bool:
    if sys.modules.get(library) is not None:
        return False
    found = find_spec(library)
    return found is None or found.origin is None  # a folder without `__init__.py` has no origin
