"""Rewrites of softmax attention; all but the last keep the attention weights of every head."""

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import sympy as sp

from axioms import kinds
from axioms.decide.identity import generic
from axioms.graph import TRANSPOSE, Node, constant, leaf, parameter
from axioms.rewrites.channels import copied_rows, in_rows
from axioms.rewrites.rewrites import REWRITES, Alternatives, Rewrite, everywhere
from axioms.rewrites.templates import TEMPLATES, Template
from axioms.rewrites.units import OF_UNITS, UNITS

Fill: TypeAlias = Callable[[Node], Node]  # a square matrix, for the channels of a node
Change: TypeAlias = tuple[Fill, Fill]  # an invertible change of channels, and its inverse


def _linear(*operands: Node) -> Node:
    return Node(kinds.LINEAR, operands)


def _attend(scores: Node, values: Node) -> Node:
    return Node(kinds.READOUT, (Node(kinds.SOFTMAX, (scores,)), values))


def _is_head(node: Node) -> bool:
    return node.op == kinds.READOUT and node.args[0].op == kinds.SOFTMAX


def _changed(projection: Node, matrix: Fill) -> Node:
    """A linear layer with its outputs, weights and bias, times a matrix."""
    x, *parameters = projection.args
    return replace(projection, args=(x, *(w @ matrix(w) for w in parameters)))


def _change_queries_and_keys(change: Change) -> Alternatives:
    """The scores of Q M and K M^-T."""
    forth, back = change

    def changed(node: Node) -> Iterator[Node]:
        if node.op == kinds.SCORES and all(x.op == kinds.LINEAR for x in node.args):
            query, key = node.args
            turned = _changed(key, lambda w: Node(TRANSPOSE, (back(w),)))
            yield replace(node, args=(_changed(query, forth), turned))

    return changed


def _change_values_and_output(change: Change) -> Alternatives:
    """(A (V M)) (M^-1 W_O)."""
    forth, back = change

    def changed(node: Node) -> Iterator[Node]:
        if node.op == kinds.LINEAR and _is_head(node.args[0]):
            head, w, *bias = node.args
            weights, values = head.args
            if values.op == kinds.LINEAR:
                head = replace(head, args=(weights, _changed(values, forth)))
                yield replace(node, args=(head, back(values.args[1]) @ w, *bias))

    return changed


def _drop_bias_of_keys(node: Node) -> Iterator[Node]:
    """It adds one number to all scores of a row."""
    if node.op == kinds.SOFTMAX and node.args[0].op == kinds.SCORES:
        query, key = node.args[0].args
        if key.op == kinds.LINEAR and len(key.args) == 3:
            scores = replace(node.args[0], args=(query, replace(key, args=key.args[:2])))
            yield replace(node, args=(scores,))


def _move_bias_of_values(node: Node) -> Iterator[Node]:
    """A (V + 1 b) as A V + 1 b."""
    if _is_head(node) and node.args[1].op == kinds.LINEAR and len(node.args[1].args) == 3:
        weights, values = node.args
        x, w, bias = values.args
        head = replace(node, args=(weights, replace(values, args=(x, w))))
        yield head + in_rows(bias, head)


def _split_head(node: Node) -> Iterator[Node]:
    """A (V + V') as two heads with the same scores."""
    if _is_head(node) and node.args[1].op == kinds.ADD:
        weights, values = node.args
        heads = (replace(node, args=(replace(weights), term)) for term in values.args)
        yield replace(values, args=tuple(heads))


def _duplicate_keys(node: Node) -> Iterator[Node]:
    """Every key twice, each time with half of its weight."""
    if _is_head(node) and node.args[0].args[0].op == kinds.SCORES:
        (scores,) = node.args[0].args
        query, key = scores.args
        yield _attend(replace(scores, args=(query, copied_rows(key))), copied_rows(node.args[1]))


SUMS: Change = (lambda x: constant("running sums", x), lambda x: constant("differences", x))
CHANGES: dict[str, Callable[[Change], Alternatives]] = {
    "change channels of Q and K": _change_queries_and_keys,
    "change channels of V and O": _change_values_and_output,
}
OF_ATTENTION: dict[str, Rewrite] = {
    name: partial(everywhere, alternatives)
    for name, alternatives in {
        **{name: change(SUMS) for name, change in CHANGES.items()},
        "drop bias of K": _drop_bias_of_keys,
        "move bias of V": _move_bias_of_values,
        "split head": _split_head,
        "duplicate keys": _duplicate_keys,
    }.items()
}
OF_ATTENTION |= {
    "permute attention heads": REWRITES["permute heads"],
    "decompose softmax of attention": REWRITES["decompose softmax"],
}
"""Rewrites by name, as ``REWRITES``; the last two are two of those, applied to whole heads."""
EVERY_REWRITE = REWRITES | OF_ATTENTION | OF_UNITS


def of_any_change(rewrite: str, root: Node) -> list[Node]:
    """One of ``CHANGES`` by a generic matrix of 2 channels, standing for every invertible one."""
    m = generic("change", 2, 2)

    def fill(matrix: sp.Matrix) -> Fill:
        return lambda x: constant("identity", x, factor=matrix)

    return everywhere(CHANGES[rewrite]((fill(m), fill(m.inv()))), root)


x, y, z, v, u = map(leaf, "xyzvu")
wq, wk, wv, wo, d = map(parameter, ("wq", "wk", "wv", "wo", "d"))
HEAD = {"z": (1, 2), "v": (2, 1), "w": (1, 1)}
ROW, KEYS = {"z": (1, 2)}, {"x": (1, 1), "y": (2, 1), "v": (2, 1)}


def _scores(query: Node, key: Node) -> Node:
    return Node(kinds.SCORES, (query, key))


def _head(number: str) -> Node:
    names = (name + number for name in "zvw")
    scores, values, w = next(names), next(names), next(names)
    return _linear(_attend(leaf(scores), leaf(values)), parameter(w))


ATTENTION: dict[str, list[Template]] = {
    "change channels of Q and K": [
        Template(
            root=_attend(_scores(_linear(x, wq), _linear(y, wk)), v),
            generic=KEYS | {"wq": (1, 2), "wk": (1, 2)},
        )
    ],
    "change channels of V and O": [
        Template(
            root=_linear(_attend(z, _linear(y, wv)), wo),
            generic=ROW | {"y": (2, 1), "wv": (1, 2), "wo": (2, 1)},
        )
    ],
    "drop bias of K": [
        Template(
            root=_attend(_scores(x, _linear(y, wk, d)), v),
            generic=KEYS | {"y": (2, 2), "wk": (2, 1), "d": (1, 1)},
        )
    ],
    "move bias of V": [
        Template(
            root=_attend(z, _linear(y, wv, d)),
            generic=ROW | {"y": (2, 2), "wv": (2, 1), "d": (1, 1)},
        )
    ],
    "split head": [Template(root=_attend(z, v + u), generic=ROW | {"v": (2, 1), "u": (2, 1)})],
    "permute attention heads": [
        Template(
            root=_head("1") + _head("2"),
            generic={f"{name}{n}": shape for n in (1, 2) for name, shape in HEAD.items()},
        )
    ],
    "decompose softmax of attention": [Template(root=_attend(z, v), generic=ROW | {"v": (2, 1)})],
    "duplicate keys": [Template(root=_attend(_scores(x, y), v), generic=KEYS)],
}
"""Where each applies, in shapes with two keys: leaving one out of one leaves nothing."""
EVERY_TEMPLATE: Mapping[str, list[Template]] = ChainMap(TEMPLATES, ATTENTION, UNITS)
