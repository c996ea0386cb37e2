"""The theorems of the package, as their files state them."""

import ast

from axioms.evidence.evidence import Claim
from axioms.evidence.prove import ROOT, THEOREMS, Verdict, numbered

FILES = sorted(THEOREMS.glob("test_*.py"))


def claims(path):
    """The claim of every theorem of a file, as it is written there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.theorem":
            named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords}
            yield Claim(*map(ast.literal_eval, node.args), **named)


def stated():
    """Every statement as its file states it, with its label; nothing is run."""
    return numbered(
        Verdict(
            number=claim.number,
            statement=claim.statement,
            verdict=claim.verdict,
            given="; ".join(claim.given),
            scope=claim.scope,
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
        for claim in claims(path)
    )
