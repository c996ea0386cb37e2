"""Treats numbers that a rule holds constant, and all that depends on them alone, as fixed.

CP-LRP holds the softmax; a product by it, such as an expert's by its router, is then linear.
"""

from dataclasses import replace

import torch

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite
from lrp_axioms.axioms.graph import LEAVES, PARAMETER, Node, rebuild
from lrp_axioms.numeric.auditing.maps import Map


def hold(root: Node, composite: Composite) -> Node:
    """Returns the graph with products by numbers that ``composite`` holds as linear maps."""
    held: set[Node] = set()

    def rewrite(node: Node) -> Node:
        carrying = [x for x in node.args if x.op != PARAMETER]
        live = [x for x in carrying if x not in held]
        if node.op == kinds.PRODUCT and len(live) == 1 < len(carrying):
            fixed = [x for x in node.args if x is not live[0]]
            about = {**node.attributes, "entrywise": True}
            return replace(node, op=kinds.LINEAR, args=(*live, *fixed), attributes=about)
        if node.op == kinds.BILINEAR and len(live) == 1 < len(carrying):
            return _readout(node, live[0])
        if node.op not in LEAVES and (not live or _holds(node, composite)):
            held.add(node)
        return node

    return rebuild(root, rewrite)


def _readout(node: Node, values: Node) -> Node:
    """Returns a readout of ``values`` with the held operand as weights."""
    first, second = node.args
    product = node.attributes.get("map") or Map(torch.matmul)
    if values is second:
        return replace(node, op=kinds.READOUT, attributes={**node.attributes, "map": product})
    swapped = Map(lambda weights, x: product.function(x, weights))
    about = {**node.attributes, "map": swapped}
    return replace(node, op=kinds.READOUT, args=(second, first), attributes=about)


def _holds(node: Node, composite: Composite) -> bool:
    if node.op not in (kinds.SCORES, kinds.SOFTMAX):
        return False
    layer, module = node.attributes["layer"], node.origin.module if node.origin else ""
    return composite.rule(node.op, layer=layer, module=module) == kinds.CONSTANT
