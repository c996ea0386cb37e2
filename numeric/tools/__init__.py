"""The rules inside the tools that people use: one module per library (docs/TOOLS.md).

Importing this package loads none of these libraries.
"""

from contextlib import contextmanager


@contextmanager
def needed(extra: str):
    """A block of imports; ImportError that says which extra to install if one is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"numeric.tools.{extra} needs {error.name.partition('.')[0]}, which is not installed; "
            f"run pip install 'lrp-axioms[{extra}]'"
        ) from error
