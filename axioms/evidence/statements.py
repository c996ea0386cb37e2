"""Reads the files of theorems without running them: their statements and the tables about them.

Beside its statements a file has three tables, by the number of a theorem: ``MEANINGS``, a
paragraph for somebody who reads or makes an explanation; ``THEMES``, the section of
docs/THEOREMS.md that the theorem stands in, and then sections that refer to it; and, where its
page shows any, ``DERIVATIONS``, names of rules in ``axioms.derivations.operations``.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

THEOREMS = Path(__file__).resolve().parents[1] / "theorems"
ROOT = THEOREMS.parent.parent  # of the repository, or the folder the package is installed in


class Claim(NamedTuple):
    """Arguments of ``@pytest.mark.theorem``: a sentence, its verdict, its assumptions and scope."""

    number: int
    statement: str
    verdict: str
    given: Sequence[str] = ()  # assumptions on symbols, such as "c > 0: the cap"
    scope: str = ""  # the numbers of entries that are decided, and why it is so of others


def files() -> list[Path]:
    """All files of theorems, by name."""
    return sorted(THEOREMS.glob("test_*.py"))


def claims(path: Path) -> Iterator[Claim]:
    """The statements of a file in their order."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.theorem":
            named = {str(x.arg): ast.literal_eval(x.value) for x in node.keywords}
            yield Claim(*map(ast.literal_eval, node.args), **named)


def setting(path: Path) -> list[str]:
    """The paragraphs of a file's docstring below its first line."""
    below = (ast.get_docstring(_tree(path)) or "").partition("\n")[2]
    return [part for part in re.split(r"\n\s*\n", below.strip("\n")) if part.strip()]


def table(name: str) -> dict[int, Any]:
    """The entries of all tables called ``name``; ValueError if two files have one theorem's."""
    found: dict[int, Any] = {}
    for path in files():
        for node in _tree(path).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                own = ast.literal_eval(node.value)
                if twice := sorted(own.keys() & found.keys()):
                    raise ValueError(f"{path.name}: {name} of theorem {twice[0]} is in two files")
                found |= own
    return found


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))
