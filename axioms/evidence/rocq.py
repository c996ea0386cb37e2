"""Finds statements that theorems of axioms/rocq quote and prove for every number of inputs."""

import re
from functools import cache

from lrp_axioms.axioms.evidence.statements import ROOT

FOLDER = ROOT / "axioms" / "rocq"
COMMENT = re.compile(r"^\(\* Theorem .*?\*\)$", re.DOTALL | re.MULTILINE)


@cache
def proofs() -> dict[str, str]:
    """The theorems of Rocq and their file, by the statement that the comment before them quotes."""
    found = {}
    for path in sorted(FOLDER.glob("*.v")):
        text = path.read_text("utf-8")
        for comment, proved in zip(COMMENT.findall(text), COMMENT.split(text)[1:], strict=True):
            names = re.findall(r"^Theorem (\w+)", proved, re.MULTILINE)
            for statement in re.findall(r'"([^"]+)"', comment):
                place = f"axioms/rocq/{path.name}"
                found[" ".join(statement.split())] = f"{' and '.join(names)} in {place}"
    return found


def kernel(statement: str) -> str:
    """The sentence that names the theorems of Rocq for a statement; empty if there are none."""
    if statement not in proofs():
        return ""
    said = "The kernel of Rocq checked this for every number of inputs"
    return f"{said}, as stated by {proofs()[statement]}."
