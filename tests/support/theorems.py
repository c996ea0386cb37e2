"""The theorems of the package, as their files state them."""

import ast

from axioms.proofs.prove import THEOREMS

FILES = sorted(THEOREMS.glob("test_*.py"))


def claims(path):
    """Number, statement and verdict of every theorem of a file, as they are written there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.theorem":
            yield tuple(map(ast.literal_eval, node.args))
