"""Graphs as nested tuples, and the uses of an equation between such trees."""

import ast
import re
from dataclasses import replace
from functools import cache

from axioms import kinds
from axioms.graph import CONSTANT, INPUT, LEAVES
from axioms.rules.propagate import FILLS

INFIX = {"Mult": kinds.PRODUCT, "Add": kinds.ADD, "MatMult": kinds.BILINEAR, "Div": "over"}


@cache
def parsed(text):
    """A side of a law as nested tuples."""

    def tree(part):
        if isinstance(part, ast.BinOp):
            return INFIX[type(part.op).__name__], tree(part.left), tree(part.right)
        if isinstance(part, ast.Call):
            return part.func.id, *map(tree, part.args)
        return part.id if isinstance(part, ast.Name) else str(part.value)

    return tree(ast.parse(text, mode="eval").body)


def tree(node):
    """A graph as nested tuples; a constant goes by its fill, and a function by its name."""
    if node.op in LEAVES:
        return f"{node.op} {node.name}"
    if node.op == CONSTANT:
        fill, factor = node.attributes["fill"].replace(" ", "_"), node.attributes["factor"]
        return fill if factor == 1 else parsed(f"({factor}) * {fill}")
    name = node.attributes["function"] if node.op == kinds.ACTIVATION else node.op
    padding = [str(node.attributes["norm_eps"])] if "norm_eps" in node.attributes else []
    return name.replace(" ", "_"), *map(tree, node.args), *padding


def matched(pattern, found, bound):
    """Binds the letters of a pattern to parts of a tree; None if it does not match."""
    if re.fullmatch("[a-z]", pattern if isinstance(pattern, str) else ""):
        if pattern in bound and (bound[pattern] != found or isinstance(found, tuple)):
            return None
        return {**bound, pattern: found}
    if isinstance(pattern, str) or isinstance(found, str) or len(pattern) != len(found):
        return bound if pattern == found else None
    for part, other in zip(pattern, found, strict=True):
        bound = matched(part, other, bound) if bound is not None else None
    return bound


def filled(pattern, bound):
    if isinstance(pattern, str):
        return bound.get(pattern, pattern)
    found = tuple(filled(part, bound) for part in pattern)
    return found[2] if found[:2] == (kinds.PRODUCT, "1") else found


def steps(laws, found):
    """Every tree that one use of one law makes of a tree, at its root or below."""
    for left, right in laws:
        inserts = isinstance(left, str)
        if inserts and isinstance(found, str) and not found.startswith(INPUT):
            continue  # weights and constants are not computed
        if (bound := matched(left, found, {})) is not None:
            yield filled(right, bound)
    for k, part in enumerate(found if isinstance(found, tuple) else ()):
        if k == 0 or part in FILLS or (isinstance(part, tuple) and part[0] == "times"):
            continue
        for other in steps(laws, part):
            yield (*found[:k], other, *found[k + 1 :])


def unshared(node):
    """The graph as a tree: an operand per use, and none of a constant, which only has its shape."""
    args = () if node.op == CONSTANT else map(unshared, node.args)
    return replace(node, args=tuple(args))
