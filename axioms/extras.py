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
    missing = [x for x in libraries if sys.modules.get(x) is None and find_spec(x) is None]
    if missing:
        raise MissingLibrary(what, missing, extra)
