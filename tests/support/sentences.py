"""Finds docstrings and comments that point at a thing instead of naming it.

``python -m tests.support.sentences [FOLDER ...]`` prints every place, and ends with 1 if there is
any.  A sentence begins with a verb or a noun, and repeats the noun where others write "that of" or
"those".  Statements of theorems are data, and only the first line of their files is read.
"""

import ast
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

BEGINS = re.compile(r"(Of|What|That of|Those|The same|Which|Whose)\b")
POINTS = re.compile(
    r"\b(that of|those|what|the same of|(of|by|in|to|from|at|on|with|for|through|after) which)\b"
)
QUOTED = re.compile(r"``.*?``|\"[^\"]*\"", re.DOTALL)


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Every docstring and comment of a file with its line."""
    strings = (x for x in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(x, ast.Expr))
    for node in strings:
        if isinstance(node.value, ast.Constant) and isinstance(text := node.value.value, str):
            is_theorem = path.match("axioms/theorems/test_*.py") and node.lineno == 1
            yield node.lineno, text.partition("\n")[0] if is_theorem else text
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string.lstrip("# ")


def faults(text: str) -> bool:
    """Whether a docstring or comment begins with no noun or verb, or points at a thing."""
    return bool(BEGINS.match(text) or POINTS.search(QUOTED.sub("", text)))


def main(*folders: str) -> int:
    names = [f"{folder}/*.py" for folder in folders] or ["*.py"]
    command = ["git", "ls-files", *names]
    tracked = subprocess.run(command, capture_output=True, text=True, check=True)
    places = [
        f"{name}:{line}: {' '.join(text.split())[:80]}"
        for name in tracked.stdout.split()
        for line, text in sentences(Path(name))
        if faults(text)
    ]
    print(*places, sep="\n", end="\n" * bool(places))
    return int(bool(places))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
