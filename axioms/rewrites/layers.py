"""Rewrites of linear layers and their neurons, and insertions that change nothing."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.graph import (
    CONSTANT,
    PARAMETER,
    Node,
    activation,
    constant,
    leaf,
    linear,
    parameter,
)
from lrp_axioms.axioms.rewrites.channels import batch_norm, in_rows, repeated_row
from lrp_axioms.axioms.rewrites.places import is_kind, operands, over
from lrp_axioms.axioms.rewrites.rewrite import Alternatives, Canonized, Rewrite, Shapes, Template


def _parts(layer: Node) -> tuple[Node, Node, Node | None]:
    """Input, weight and bias of a linear layer."""
    x, weight, *bias = layer.args
    return x, weight, bias[0] if bias else None


def _distribute(node: Node) -> Iterator[Node]:
    if node.op == kinds.LINEAR and node.args[0].op == kinds.ADD:
        total, w, b = _parts(node)
        first, *rest = total.args
        yield replace(total, args=(linear(first, w, b), *(linear(x, w) for x in rest)))


def fold_linear_at(node: Node) -> Iterator[Node]:
    """(x W1 + b1) W2 + b2 as x (W1 W2) + (b1 W2 + b2)."""
    if node.op == kinds.LINEAR and node.args[0].op == kinds.LINEAR:
        (x, w1, b1), (_, w2, b2) = _parts(node.args[0]), _parts(node)
        yield replace(node, args=linear(x, w1 @ w2, b2 if b1 is None else linear(b1, w2, b2)).args)


def _split(node: Node) -> Iterator[Node]:
    if node.op == kinds.LINEAR and node.args[1].op == kinds.BILINEAR:
        x, w, b = _parts(node)
        if len(w.args) == 2:
            yield replace(node, args=linear(linear(x, w.args[0]), w.args[1], b).args)


def _fold_batch_norm(node: Node) -> Iterator[Node]:
    """(x W + b) s + t as x (W s) + (b s + t), the scale s acting on the columns of W."""
    if node.op != kinds.ADD or len(node.args) != 2 or node.args[0].op != kinds.PRODUCT:
        return
    product, shift = node.args[0], repeated_row(node.args[1])
    if len(product.args) != 2 or product.args[0].op != kinds.LINEAR or shift is None:
        return
    scale = repeated_row(product.args[1])
    if scale is not None:
        x, w, b = _parts(product.args[0])
        yield linear(x, w * in_rows(scale, w), shift if b is None else b * scale + shift)


def _insert(around: Callable[[Node], Node]) -> Alternatives:
    """Puts an operation that changes nothing behind every computed node."""

    def inserted(node: Node) -> Iterator[Node]:
        if node.op not in (PARAMETER, CONSTANT):
            yield around(node)

    return inserted


def _hidden(*pairs: tuple[str, str]) -> Alternatives:
    """W1 A and B W2 for W1 and W2, with A B = I and at most a function per neuron in between.

    pairs: fills of A and B
    """

    def widened(node: Node) -> Iterator[Node]:
        if node.op != kinds.LINEAR:
            return
        between, w2, b2 = _parts(node)
        inner = between.args[0] if between.op == kinds.ACTIVATION else between
        if inner.op != kinds.LINEAR:
            return
        x, w1, b1 = _parts(inner)
        for out, back in pairs:
            forth = constant(out, w1)
            wide = linear(x, w1 @ forth, None if b1 is None else b1 @ forth)
            if between is not inner:
                wide = replace(between, args=(wide,))
            yield replace(node, args=linear(wide, constant(back, w1) @ w2, b2).args)

    return widened


def _hidden_layer(node: Node) -> list[Node]:
    inner = [x for x in operands(node) if x.op == kinds.ACTIVATION]
    found = [(x, y) for x in inner for y in operands(x) if is_kind(y, kinds.LINEAR)]
    whole = found and is_kind(node, kinds.LINEAR)
    return [node, *(x for pair in found for x in pair)] if whole else []


a, x, y = map(leaf, "axy")
w, w1, w2, d, e, s, t = map(parameter, ("w", "w1", "w2", "d", "e", "s", "t"))
LAYER = {"x": (1, 2), "w": (2, 1), "d": (1, 1)}
SUM = {**LAYER, "y": (1, 2)}
NORMED = {**LAYER, "s": (1, 1), "t": (1, 1)}
TWO = {"x": (1, 2), "w1": (2, 2), "d": (1, 2), "w2": (2, 1), "e": (1, 1)}
STACKED = linear(linear(x, w1, d), w2, e)
ACTIVE = linear(activation("relu", linear(x, w1, d)), w2, e)
COPIES = ("repetition", "halving"), ("repetition of the first", "halving of the first")
ANYTHING = Template(a, {"a": (1, 2)}, {"a": (1, 1)})


def _ones(shapes: Shapes) -> Shapes:
    return dict.fromkeys(shapes, (1, 1))


REWRITES = (
    Rewrite("distribute linear", _distribute,
            [Template(linear(x + y, w, *b), SUM, _ones(SUM)) for b in ((), (d,))],
            canonized=Canonized.IN_THE_LIMIT, applies=over(kinds.LINEAR, kinds.ADD)),
    Rewrite("fold linear", fold_linear_at,
            [Template(g, TWO, _ones(TWO)) for g in (linear(linear(x, w1), w2), STACKED)],
            canonized=Canonized.ALIKE, applies=over(kinds.LINEAR, kinds.LINEAR)),
    Rewrite("split linear", _split,
            [Template(linear(x, w1 @ w2, *b), TWO, _ones(TWO)) for b in ((), (e,))],
            canonized=Canonized.ALIKE, applies=over(kinds.LINEAR)),
    Rewrite("fold batch norm", _fold_batch_norm,
            [Template(batch_norm(linear(x, w, d), s, t), NORMED, _ones(NORMED))],
            canonized=Canonized.ALIKE),
    Rewrite("multiply by one", _insert(lambda x: x * constant("ones", x, name="1")), [ANYTHING],
            canonized=Canonized.ALIKE, applies=over(kinds.LINEAR)),
    Rewrite("add zero", _insert(lambda x: x + constant("zeros", x, name="0")), [ANYTHING],
            canonized=Canonized.ALIKE),
    Rewrite("insert identity layer",
            _insert(lambda x: linear(x, constant("identity", x, name="I"))), [ANYTHING],
            canonized=Canonized.ALIKE, applies=over(kinds.LINEAR)),
    Rewrite("duplicate neuron", _hidden(*COPIES),
            [Template(g, TWO, _ones(TWO)) for g in (STACKED, ACTIVE)],
            canonized=Canonized.BESIDE, applies=_hidden_layer),
    Rewrite("permute neurons", _hidden(("reversal", "reversal")),
            [Template(g, TWO) for g in (STACKED, ACTIVE)],
            canonized=Canonized.BESIDE, applies=_hidden_layer),
)  # fmt: skip
