"""Replaces a node of a syntax tree by mutants that are made of its parts."""

import ast
import copy
from collections.abc import Callable

OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
COMPARISONS = {
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
TWINS = {"rows": "cols", "cols": "rows"}


def changed(node, **parts):
    """A copy with other parts; the parts that stay are shared, for every tree is used once."""
    new = copy.copy(node)
    for name, value in parts.items():
        setattr(new, name, value)
    return new


def _binary(node):
    """Another operator, or one operand alone."""
    if type(node.op) in OPERATORS:
        yield changed(node, op=OPERATORS[type(node.op)]())
        yield node.left
        yield node.right


def _unary(node):
    if isinstance(node.op, (ast.USub, ast.Not)):
        yield node.operand


def _compare(node):
    for other in COMPARISONS.get(type(node.ops[0]), ()):
        yield changed(node, ops=[other()])


def _constant(node):
    if isinstance(node.value, str):
        yield from _einsum(node)
    elif type(node.value) in (int, float):
        yield changed(node, value=node.value + 1)
        if node.value > 0:
            yield changed(node, value=node.value - 1)


def _einsum(node):
    """Letters exchanged in one operand, or in the result, of an einsum."""
    operands, arrow, result = node.value.partition("->")
    terms = [*operands.split(","), result]
    for n, term in enumerate(terms if arrow else ()):
        if len(letters := term.replace("...", "")) == 2:
            turned = [*terms[:n], term.replace(letters, letters[::-1]), *terms[n + 1 :]]
            yield changed(node, value=f"{','.join(turned[:-1])}->{turned[-1]}")


def _call(node):
    """The first two arguments exchanged, an option left out, or epsilon doubled."""
    if len(node.args) > 1 and not isinstance(node.args[0], ast.Starred):
        first, second, *rest = node.args
        if ast.unparse(first) != ast.unparse(second):
            yield changed(node, args=[second, first, *rest])
    for n, option in enumerate(node.keywords):
        if option.arg == "strict":  # checks and computes nothing
            continue
        others = node.keywords[:n], node.keywords[n + 1 :]
        yield changed(node, keywords=[*others[0], *others[1]])
        if option.arg == "eps" and not isinstance(option.value, ast.Constant):  # 2 * 0 is 0
            doubled = ast.BinOp(ast.Constant(2), ast.Mult(), option.value)
            option = changed(option, value=doubled)
            yield changed(node, keywords=[*others[0], option, *others[1]])


def _tuple(node):
    if len(node.elts) > 1 and isinstance(node.ctx, ast.Load):
        yield changed(node, elts=node.elts[::-1])


def _choice(node):
    yield changed(node, body=node.orelse, orelse=node.body)


def _attribute(node):
    if node.attr in TWINS:
        yield changed(node, attr=TWINS[node.attr])


def _table(node):
    """Neighbouring values exchanged."""
    for n in range(len(node.values) - 1):
        first, second = node.values[n : n + 2]
        if ast.unparse(first) == ast.unparse(second):
            continue
        yield changed(node, values=[*node.values[:n], second, first, *node.values[n + 2 :]])


ALTERNATIVES: dict[type, Callable] = {
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.Constant: _constant,
    ast.Call: _call,
    ast.Tuple: _tuple,
    ast.IfExp: _choice,
    ast.Attribute: _attribute,
    ast.Dict: _table,
}


# A file that decides also gets weaker questions: any for all, one case, or no condition.


def _quantifier(node):
    """``all`` instead of ``any``, and the other way round."""
    other = {"all": "any", "any": "all"}.get(getattr(node.func, "id", ""))
    if other:
        yield changed(node, func=ast.Name(other, ast.Load()))


def _joined(node):
    """``or`` instead of ``and``, and each operand left out."""
    yield changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    for k in range(len(node.values)):
        values = [*node.values[:k], *node.values[k + 1 :]]
        yield values[0] if len(values) == 1 else changed(node, values=values)


def _truth(node):
    if isinstance(node.value, bool):
        yield changed(node, value=not node.value)


def _iterated(node):
    """The first alone of all that a loop runs over, and without its condition."""
    first = ast.parse("list(x)[:1]", mode="eval").body
    first.value.args = [node.iter]
    yield changed(node, iter=first)
    if getattr(node, "ifs", None):
        yield changed(node, ifs=[])


DECIDING: dict[type, Callable] = {
    ast.Call: _quantifier,
    ast.BoolOp: _joined,
    ast.Constant: _truth,
    ast.comprehension: _iterated,
    ast.For: _iterated,
}


def alternatives(node, *, decides: bool = False) -> list[ast.AST]:
    """All that may stand in place of a node; more where a file decides."""
    tables = (ALTERNATIVES, DECIDING) if decides else (ALTERNATIVES,)
    return [other for table in tables for other in table.get(type(node), lambda node: ())(node)]
