"""The smallest graphs in which each rewrite has something to rewrite, with shapes for leaves."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from axioms import kinds
from axioms.decide.identity import generic
from axioms.graph import TRANSPOSE, Node, leaf, parameter
from axioms.rewrites.channels import batch_norm
from axioms.rewrites.points import LeafMatrices, Shapes


@dataclass(frozen=True, kw_only=True)
class Template:
    """A graph and the shapes of its leaves: generic ones for proofs, least ones for witnesses.

    In the generic shapes no sum has a single term beside a bias, and layers and scores have one
    output, which rules linear in relevance extend to any number; the least ones keep a witness
    readable.
    """

    root: Node
    generic: Shapes
    least: Shapes = field(default_factory=dict)  # overrides generic shapes

    def symbols(self) -> LeafMatrices:
        """A point of different real symbols in the generic shapes."""
        return {name: generic(name, *shape) for name, shape in self.generic.items()}

    def wider_shapes(self) -> Shapes:
        """One channel more, or two entries each way where all are alone."""
        alone = {1: 2} if set(self.generic.values()) == {(1, 1)} else {1: 1}
        return {
            name: (alone.get(rows, rows + 1), alone.get(columns, columns + 1))
            for name, (rows, columns) in self.generic.items()
        }

    def least_shapes(self) -> Shapes:
        """Shapes in which witnesses are searched."""
        return {**self.generic, **self.least}


def _linear(x: Node, w: Node, *b: Node) -> Node:
    return Node(kinds.LINEAR, (x, w, *b))


def _activation(function: str, x: Node) -> Node:
    return Node(kinds.ACTIVATION, (x,), attributes={"function": function})


a, b, c, x, y = map(leaf, "abcxy")
q, k, v = map(leaf, "qkv")
w, w1, w2, d, e = map(parameter, ("w", "w1", "w2", "d", "e"))
wq, wk, s, t, g = map(parameter, ("wq", "wk", "s", "t", "g"))

SCALARS = dict.fromkeys("abc", (1, 1))
LAYER = {"x": (1, 2), "w": (2, 1), "d": (1, 1)}
TWO = {"x": (1, 2), "w1": (2, 2), "d": (1, 2), "w2": (2, 1), "e": (1, 1)}
THIN = {"x": (1, 1), "w1": (1, 1), "d": (1, 1), "w2": (1, 1), "e": (1, 1)}
CHAIN = {"q": (2, 2), "k": (2, 2), "v": (2, 1)}
POINTWISE = {"q": (1, 1), "k": (1, 1), "v": (1, 1)}
QK = {"x": (1, 2), "y": (1, 2), "wq": (2, 2), "wk": (2, 2), "d": (1, 2), "e": (1, 2)}
KT = Node(TRANSPOSE, (k,))
SCORES = Node(kinds.SCORES, (_linear(x, wq), _linear(y, wk)))
SOFTMAX = Node(kinds.SOFTMAX, (x,))
NORM = Node(kinds.LAYER_NORM, (x, g, t), attributes={"norm_eps": 1})
# Centred, two channels are one number, but with three the algebra takes minutes: more channels are
# tried at random points.
NORM_SHAPES = {"x": (1, 2), "g": (1, 2), "t": (1, 2)}


def _head(z: str, value: str, weight: str) -> Node:
    return _linear(Node(kinds.READOUT, (leaf(z), leaf(value))), parameter(weight))


HEADS = _head("a1", "v1", "w1") + _head("a2", "v2", "w2")
HEAD_SHAPES = {"a1": (1, 2), "a2": (1, 2), "v1": (2, 2), "v2": (2, 2), "w1": (2, 1), "w2": (2, 1)}
ONE: Callable[[Iterable[str]], Shapes] = lambda names: dict.fromkeys(names, (1, 1))


def _cases(root: Node, shapes: Shapes, least: Shapes | None = None) -> Template:
    return Template(root=root, generic=shapes, least=least or {})


def _fold(middle: Callable[[Node], Node] | None = None) -> Node:
    inner = _linear(x, w1, d)
    return _linear(inner if middle is None else middle(inner), w2, e)


TEMPLATES: dict[str, list[Template]] = {
    "commute products": [_cases(a * b, {"a": (1, 2), "b": (1, 2)}, SCALARS)],
    "commute sums": [_cases(a + b, {"a": (1, 2), "b": (1, 2)}, ONE("ab"))],
    "re-associate products": [_cases((a * b) * c, SCALARS)],
    "re-associate sums": [_cases((a + b) + c, SCALARS)],
    "distribute products": [_cases(a * (b + c), SCALARS)],
    "factor sums": [_cases(a * b + a * c, SCALARS)],
    "distribute linear": [
        _cases(_linear(x + y, w), {**LAYER, "y": (1, 2)}, ONE("xyw")),
        _cases(_linear(x + y, w, d), {**LAYER, "y": (1, 2)}, ONE("xywd")),
    ],
    "fold linear": [_cases(_linear(_linear(x, w1), w2), TWO, THIN), _cases(_fold(), TWO, THIN)],
    "split linear": [
        _cases(_linear(x, w1 @ w2), TWO, THIN),
        _cases(_linear(x, w1 @ w2, e), TWO, THIN),
    ],
    "fold batch norm": [
        _cases(
            batch_norm(_linear(x, w, d), s, t), {**LAYER, "s": (1, 1), "t": (1, 1)}, ONE("xwdst")
        )
    ],
    "multiply by one": [_cases(a, {"a": (1, 2)}, ONE("a"))],
    "add zero": [_cases(a, {"a": (1, 2)}, ONE("a"))],
    "insert identity layer": [_cases(a, {"a": (1, 2)}, ONE("a"))],
    "duplicate neuron": [
        _cases(_fold(), TWO, THIN),
        _cases(_fold(lambda h: _activation("relu", h)), TWO, THIN),
    ],
    "permute neurons": [
        _cases(_fold(), TWO),
        _cases(_fold(lambda h: _activation("relu", h)), TWO),
    ],
    "rescale Q and K": [
        _cases(SCORES, QK, ONE(("x", "y", "wq", "wk"))),
        _cases(Node(kinds.SCORES, (_linear(x, wq, d), _linear(y, wk, e))), QK, ONE(QK)),
    ],
    "permute channels of Q and K": [_cases(SCORES, QK)],
    "permute heads": [_cases(HEADS, HEAD_SHAPES, ONE(HEAD_SHAPES))],
    "factorize attention": [_cases((q @ KT) @ v, CHAIN, POINTWISE)],
    "centre before LayerNorm": [_cases(NORM, NORM_SHAPES)],
    "decompose LayerNorm": [_cases(NORM, NORM_SHAPES)],
    "decompose GELU": [_cases(_activation("gelu", a), {"a": (1, 1)})],
    "decompose softmax": [_cases(SOFTMAX, {"x": (1, 2)})],
}
"""Where each rewrite of ``rewrites.REWRITES`` applies, with the scope of its lemma."""
