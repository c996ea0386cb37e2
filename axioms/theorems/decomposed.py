"""DePass: every value as a sum of components, carried forwards through one pass.

A component is the part that one leaf, or all biases together, adds to a value.  Attention weights,
deviations of norms and activations are held at the values of the whole pass (Hong et al., 2025,
arXiv 2510.18462).  How a neuron is shared among components is a choice, ``share``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.decide.identity import lowest_terms
from lrp_axioms.axioms.decide.records import noted
from lrp_axioms.axioms.graph import INPUT, PARAMETER, Node, topological
from lrp_axioms.axioms.rules.norms import centring, deviations, root_mean_squares
from lrp_axioms.axioms.rules.propagate import LeafValues, evaluate

BIASES = "biases"  # the component of all that no leaf adds
Components: TypeAlias = Mapping[str, Matrix]
Share: TypeAlias = Callable[[Sequence[sp.Expr]], Sequence[sp.Expr]]
"""Shares of the components in a neuron's value, of 1, from their contributions to its input."""


def by_contribution(added: Sequence[sp.Expr]) -> Sequence[sp.Expr]:
    """Shares in proportion to the contributions."""
    return [part / sum(added) for part in added]


def by_softmax(added: Sequence[sp.Expr]) -> Sequence[sp.Expr]:
    """Shares in proportion to the exponentials of the contributions."""
    weights = [sp.exp(part) for part in added]
    return [weight / sum(weights) for weight in weights]


class Step(NamedTuple):
    """One operation: the components of its operands, their values, its own, and how to share."""

    node: Node
    inner: Sequence[Components]
    xs: Sequence[Matrix]
    y: Matrix
    share: Share


@noted
def decomposed(
    root: Node,
    point: LeafValues,
    *,
    share: Share = by_contribution,
    spread_biases: bool = False,
) -> Components:
    """The part of the value of ``root`` that every leaf adds, and under BIASES the biases.

    ``spread_biases`` shares the bias of a linear layer among the components in proportion to their
    contributions.  Raises LookupError for an operation that is not decomposed.
    """
    values = evaluate(root, point)
    parts: dict[Node, dict[str, Matrix]] = {}
    for node in topological(root):
        if node.op == PARAMETER:
            continue
        if node.op == INPUT:
            parts[node] = {node.name: values[node]}
            continue
        if node.op not in FORWARD:
            raise LookupError(
                f"{node}: no components of {node.op}; the operations are {', '.join(FORWARD)}"
            )
        inner = [parts.get(arg, {}) for arg in node.args]
        operands = [values[arg] for arg in node.args]
        found = FORWARD[node.op](Step(node, inner, operands, values[node], share))
        if spread_biases and node.op == kinds.LINEAR and BIASES in found:
            found = _spread(found)
        parts[node] = {name: part.applyfunc(lowest_terms) for name, part in found.items()}
    return parts[root]


def _mapped(of: Components, linear: Callable[[Matrix], Matrix]) -> dict[str, Matrix]:
    return {name: linear(part) for name, part in of.items()}


def _with_bias(of: dict[str, Matrix], bias: Sequence[Matrix], rows: int) -> dict[str, Matrix]:
    for b in bias:
        shift = Matrix.vstack(*[b] * rows)
        of[BIASES] = of[BIASES] + shift if BIASES in of else shift
    return of


def _spread(of: dict[str, Matrix]) -> dict[str, Matrix]:
    bias = of.pop(BIASES)
    z = sum(of.values(), 0 * bias)
    grown = Matrix(*z.shape, lambda n, i: 1 + bias[n, i] / z[n, i])
    return {name: part.multiply_elementwise(grown) for name, part in of.items()}


def _linear(step: Step) -> dict[str, Matrix]:
    return _with_bias(
        _mapped(step.inner[0], lambda part: part * step.xs[1]), step.xs[2:], step.y.rows
    )


def _add(step: Step) -> dict[str, Matrix]:
    found: dict[str, Matrix] = {}
    for components, x in zip(step.inner, step.xs, strict=True):
        for name, part in (components or {BIASES: x}).items():
            found[name] = found[name] + part if name in found else part
    return found


def _readout(step: Step) -> dict[str, Matrix]:
    return _mapped(step.inner[1], lambda part: step.xs[0] * part)


def _rows(sizes: Sequence[sp.Expr], weight: Matrix, part: Matrix, *, centred: bool) -> Matrix:
    scale = sp.diag(*weight)
    maps = [centring(weight, s) if centred else scale / s for s in sizes]
    return Matrix.vstack(*(part[n, :] * m for n, m in enumerate(maps)))


def _layer_norm(step: Step) -> dict[str, Matrix]:
    sizes = deviations(step.xs[0], norm_eps=step.node.attributes.get("norm_eps", 0))
    found = _mapped(step.inner[0], lambda part: _rows(sizes, step.xs[1], part, centred=True))
    return _with_bias(found, step.xs[2:], step.y.rows)


def _rms_norm(step: Step) -> dict[str, Matrix]:
    sizes = root_mean_squares(step.xs[0], norm_eps=step.node.attributes.get("norm_eps", 0))
    return _mapped(step.inner[0], lambda part: _rows(sizes, step.xs[1], part, centred=False))


def _activation(step: Step) -> dict[str, Matrix]:
    names = list(step.inner[0])

    def shared(k: int) -> Matrix:
        return Matrix(
            *step.y.shape,
            lambda n, i: (
                step.share([step.inner[0][name][n, i] for name in names])[k] * step.y[n, i]
            ),
        )

    return {name: shared(k) for k, name in enumerate(names)}


def _held(step: Step) -> dict[str, Matrix]:
    """Scores and weights of attention carry no components: they are held."""
    return {}


FORWARD: dict[str, Callable[[Step], dict[str, Matrix]]] = {
    kinds.LINEAR: _linear,
    kinds.ADD: _add,
    kinds.SCORES: _held,
    kinds.SOFTMAX: _held,
    kinds.READOUT: _readout,
    kinds.LAYER_NORM: _layer_norm,
    kinds.RMS_NORM: _rms_norm,
    kinds.ACTIVATION: _activation,
}
