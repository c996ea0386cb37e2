"""Canonizers: graph to graph, so that implementations of one function become one graph."""

from dataclasses import replace

from axioms import kinds
from axioms.graph import Node, rebuild


def merge_products(root: Node) -> Node:
    """Every chain of elementwise products as one product of n factors, in the same order."""

    def flatten(node):
        if node.op != kinds.PRODUCT:
            return node
        parts = ((arg.args if arg.op == kinds.PRODUCT else (arg,)) for arg in node.args)
        return replace(node, args=tuple(factor for part in parts for factor in part))

    return rebuild(root, flatten)
