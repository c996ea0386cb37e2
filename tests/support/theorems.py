"""The theorems of the package, as their files state them."""

import ast

from axioms.proofs.prove import ROOT, THEOREMS, Verdict, numbered

FILES = sorted(THEOREMS.glob("test_*.py"))


def claims(path):
    """Number, statement and verdict of every theorem of a file, as they are written there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.theorem":
            yield tuple(map(ast.literal_eval, node.args))


def stated():
    """Every statement as its file states it, with its label; nothing is run."""
    return numbered(
        Verdict(
            number=number,
            statement=statement,
            verdict=verdict,
            witness="",
            method="",
            identities=0,
            points="",
            ran="",
            seconds=0,
            test=f"{path.relative_to(ROOT).as_posix()}::",
            error="",
        )
        for path in FILES
        for number, statement, verdict in claims(path)
    )
