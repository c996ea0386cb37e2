"""Six axioms that are no rewrites, decided for every attribution method.

An axiom is pairs of values that must be equal, on products of two and three positive factors,
sums, linear layers, and one row of softmax attention whose output is its relevance.  Generic
symbols prove it; one point refutes it.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import GRADIENT_X_INPUT, UnassignedOperation
from lrp_axioms.axioms.decide.denotation import same_value
from lrp_axioms.axioms.decide.identity import apart, generic
from lrp_axioms.axioms.graph import Node, leaf, parameter, topological
from lrp_axioms.axioms.rewrites.products import bracketings
from lrp_axioms.axioms.rules.effects import (
    Effects,
    integrated_gradients,
    leave_key_out,
    leave_one_out,
    mask_relevance,
)
from lrp_axioms.axioms.rules.propagate import evaluate
from lrp_axioms.axioms.scoreboard.rule_sets import RuleSet
from lrp_axioms.axioms.scoreboard.scoreboard import NOT_APPLICABLE, OPEN, PROVED, REFUTED
from lrp_axioms.axioms.scoreboard.witness import written

CONSERVATION, LOCALITY, SYMMETRY, UNITS = (
    "conservation",
    "locality",
    "symmetry",
    "freedom of units",
)
LOO_OF_PRODUCTS, LOO_OF_ATTENTION = "leave-one-out of products", "leave-one-out of attention"

Values: TypeAlias = Mapping[str, sp.Expr]  # of the inputs of a graph of numbers
Relevances: TypeAlias = dict[str, sp.Expr]  # by input; the root's relevance is its value
Claim: TypeAlias = tuple[str, sp.Expr, sp.Expr]  # its subject, the value, the required value
Row: TypeAlias = tuple[sp.Matrix, sp.Matrix]  # logits and values

NAMES = ("x0", "x1", "x2")
GENERIC: Values = {name: sp.Symbol(name, positive=True) for name in NAMES}
AT: Values = dict(zip(NAMES, map(sp.Integer, (2, 3, 4)), strict=True))
Z, V = generic("z", 1, 2), generic("v", 2, 1)
Z_AT, V_AT = sp.Matrix([[0, 0]]), sp.Matrix([1, 3])  # where Integrated Gradients are rational
ROW = Node(kinds.READOUT, (Node(kinds.SOFTMAX, (leaf("z"),)), leaf("v")))


@dataclass(frozen=True, kw_only=True)
class Method:
    """An attribution to the inputs of a graph of numbers, and to the keys of a row."""

    name: str
    of_graph: Callable[[Node, Values], Relevances]
    of_keys: Callable[[sp.Matrix, sp.Matrix], sp.Matrix]  # from logits and values


@dataclass(frozen=True, kw_only=True)
class Decided:
    """The verdict on one axiom for one method."""

    verdict: str  # of the scoreboard
    witness: str = ""  # of a refutation


def by_rules(rule_set: RuleSet) -> Method:
    """A method of the scoreboard that has a rule for every operation, as epsilon -> 0."""

    def of_graph(root: Node, at: Values) -> Relevances:
        return dict(rule_set.explain(root, at, eps=0))

    def of_keys(z: sp.Matrix, v: sp.Matrix) -> sp.Matrix:
        found = rule_set.explain(ROW, {"z": z, "v": v}, eps=0)
        return found["z"].T + found["v"]

    return Method(name=rule_set.name, of_graph=of_graph, of_keys=of_keys)


def _functional(method: Callable[[sp.Expr, Effects], Effects]) -> Callable[..., Relevances]:
    """A functional of the function that a graph of numbers computes."""

    def of_graph(root: Node, at: Values) -> Relevances:
        symbols = {name: sp.Symbol(f"input {name}", positive=True) for name in at}
        point = {symbols[name]: value for name, value in at.items()}
        found = method(evaluate(root, symbols)[root][0], point)
        return {name: found[symbol] for name, symbol in symbols.items()}

    return of_graph


def _integrated_over_keys(z: sp.Matrix, v: sp.Matrix) -> sp.Matrix:
    """Integrated Gradients at equal logits: at others the integral is no elementary function."""
    symbols = [*Z, *V]
    value = evaluate(ROW, {"z": Z, "v": V})[ROW][0]
    found = integrated_gradients(value, dict(zip(symbols, [*z, *v], strict=True)))
    return sp.Matrix([found[Z[i]] + found[V[i]] for i in range(Z.cols)])


def _effects_of_keys(z: sp.Matrix, v: sp.Matrix) -> sp.Matrix:
    return leave_key_out(z.applyfunc(sp.exp), v)


def _masks(z: sp.Matrix, v: sp.Matrix) -> sp.Matrix:
    return mask_relevance(z.applyfunc(sp.exp), v, sp.ones(1, 1))


BY_GRADIENT = by_rules(RuleSet(name="gradient x input", composite=GRADIENT_X_INPUT))
FUNCTIONALS: dict[str, Method] = {
    method.name: method
    for method in (
        BY_GRADIENT,
        Method(
            name="Integrated Gradients",
            of_graph=_functional(integrated_gradients),
            of_keys=_integrated_over_keys,
        ),
        Method(name="leave-one-out", of_graph=_functional(leave_one_out), of_keys=_effects_of_keys),
        replace(BY_GRADIENT, name="mask relevance", of_keys=_masks),
    )
}
"""Methods that are no rules; mask relevance is defined for keys, gradient x input elsewhere."""


def products(method: Method, sizes: tuple[int, ...] = (2, 3)) -> list[Node]:
    """Every order and every way to multiply the factors, or one where only the function counts."""
    graphs = []
    for size in sizes:
        orders = list(itertools.permutations(NAMES[:size]))
        every = [graph for x in orders for graph in bracketings([leaf(name) for name in x])]
        graphs += every[:1] if method.name in OF_INPUTS else every
    return graphs


def parts(method: Method, root: Node, at: Values) -> Relevances:
    """The share of every input in a relevance of 1."""
    used = {node.name: at[node.name] for node in topological(root) if not node.args}
    value = evaluate(root, used)[root][0]
    return {name: r / value for name, r in method.of_graph(root, used).items()}


X0, X1, X2 = map(leaf, NAMES)


def conserves(method: Method, at: Values, row: Row) -> Iterator[Claim]:
    for root in (*products(method), X0 + X1):
        yield f"all inputs of `{root}`", sp.Add(*parts(method, root, at).values()), sp.S.One
    signs = {**at, "x1": -at["x1"]}
    yield f"all inputs of `{X0 + X1}`", sp.Add(*parts(method, X0 + X1, signs).values()), sp.S.One
    if method.name == "Integrated Gradients" and row[0].free_symbols:
        yield from _complete_over_keys(*row)
    else:
        yield KEYS, sp.Add(*method.of_keys(*row)), _output(*row)


KEYS = "the keys of a row of equal logits and values 1 and 3"


def _output(z: sp.Matrix, v: sp.Matrix) -> sp.Expr:
    return evaluate(ROW, {"z": z, "v": v})[ROW][0]


def _complete_over_keys(z: sp.Matrix, v: sp.Matrix) -> Iterator[Claim]:
    """The integrand of Integrated Gradients is the derivative of the output along the path."""
    t = sp.Symbol("t", positive=True)
    path = {x: t * x for x in (*z, *v)}
    along = _output(z, v).subs(path, simultaneous=True)
    slopes = (x * sp.diff(_output(z, v), x).subs(path, simultaneous=True) for x in path)
    yield KEYS, sp.Add(*slopes), sp.diff(along, t)
    yield KEYS, along.subs(t, 0), sp.S.Zero


def is_local(method: Method, at: Values, row: Row) -> Iterator[Claim]:
    """A part of a part; a sum over uses; sums and linear layers by Eq. 1."""
    x0, x1, x2 = (at[name] for name in NAMES)
    pair = X0 * X1
    for side, nested in (("x0", pair * X2), ("x1", X2 * pair)):
        arriving = parts(method, pair, {"x0": x2, "x1": x2, side: x0 * x1})[side]
        for name, part in parts(method, pair, at).items():
            yield f"{name} of `{nested}`", parts(method, nested, at)[name], part * arriving
    uses = parts(method, pair, {"x0": x0, "x1": x0})
    yield f"x0 of `{X0 * X0}`", parts(method, X0 * X0, at)["x0"], sp.Add(*uses.values())
    signs = {"x0": x0, "x1": -x1}
    for name, part in parts(method, X0 + X1, signs).items():
        yield f"{name} of `{X0 + X1}` with x1 = -3", part, signs[name] / (x0 - x1)
    layer = Node(kinds.LINEAR, (X0, parameter("x1"), parameter("x2")))
    if method.name not in OF_INPUTS:  # these take a weight as an input like any other
        yield f"x0 of `{layer}`", method.of_graph(layer, at)["x0"], x0 * x1


OF_INPUTS = ("Integrated Gradients", "leave-one-out")
"""These depend on the function of all leaves alone."""


def is_symmetric(method: Method, at: Values, row: Row) -> Iterator[Claim]:
    """Equal factors of a product get the same."""
    equal = dict.fromkeys(NAMES, at["x0"])
    for root in products(method):
        first, *others = parts(method, root, equal).values()
        yield from ((f"equal factors of `{root}`", other, first) for other in others)


def knows_no_units(method: Method, at: Values, row: Row) -> Iterator[Claim]:
    for root, name in itertools.product(products(method), NAMES):
        unit = sp.Integer(2) if at[name].is_number else sp.Symbol("u", positive=True)
        other = {**at, name: unit * at[name]}
        before, after = (parts(method, root, values) for values in (at, other))
        of = f"`{root}` with {name} in another unit"
        yield from ((f"{x} of {of}", after[x], before[x]) for x in before)


def sees_products(method: Method, at: Values, row: Row) -> Iterator[Claim]:
    """Leave-one-out: a product is 0 without any one of its factors."""
    for root in products(method):
        for name, part in parts(method, root, at).items():
            yield f"{name} of `{root}`", part, sp.S.One


def sees_keys(method: Method, at: Values, row: Row) -> Iterator[Claim]:
    effects = leave_key_out(row[0].applyfunc(sp.exp), row[1])
    for found, effect in zip(method.of_keys(*row), effects, strict=True):
        yield KEYS.replace("the keys", "a key"), found, effect


AXIOMS: dict[str, Callable[..., Iterator[Claim]]] = {
    CONSERVATION: conserves,
    LOCALITY: is_local,
    SYMMETRY: is_symmetric,
    UNITS: knows_no_units,
    LOO_OF_PRODUCTS: sees_products,
    LOO_OF_ATTENTION: sees_keys,
}


def decide_axiom(axiom: str, method: Method) -> Decided:
    """Proved over generic symbols, or refuted at one point; not applicable without a rule."""
    claims = AXIOMS[axiom]
    try:
        for of, found, asked in claims(method, AT, (Z_AT, V_AT)):
            is_number = not (found - asked).free_symbols
            if is_number and apart(found, asked):
                was, wanted = (written(sp.Matrix([x])) for x in (found, asked))
                words = f"{of}: {was} where {wanted} is asked for"
                return Decided(verdict=REFUTED, witness=words)
        claimed = list(claims(method, GENERIC, (Z, V)))
        proved = claimed and all(same_value(found, asked) for _, found, asked in claimed)
    except UnassignedOperation:
        return Decided(verdict=NOT_APPLICABLE)
    return Decided(verdict=PROVED if proved else OPEN)
