"""Runs the rules inside other tools: one module per library (docs/TOOLS.md).

Importing this package loads none of these libraries.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from lrp_axioms.axioms.extras import MissingLibrary


@contextmanager
def require(extra: str) -> Iterator[None]:
    """Opens a block of imports; a missing library raises MissingLibrary with the next step."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = str(error.name).partition(".")[0]
        raise MissingLibrary(f"lrp_axioms.numeric.tools.{extra}", [library], extra) from error
