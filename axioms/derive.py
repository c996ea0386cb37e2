"""Deriving rules: from the forward operation, by one first-order expansion, to the messages.

Up to one choice all rules are the same calculation (Deep Taylor Decomposition, Sec. 2.3):

  1  expand every output f_j at the observed operands and read the expansion with reference 0, so
     that operand i contributes c_ij = x_i df_j/dx_i
  2  what the contributions leave over, f_j - sum_i c_ij, is given to no operand
  3  pass on R_j c_ij / d_j, where d_j is either the output f_j or the sum of the contributions

The choice of d_j in step 3 is not derived but made, rule by rule: AttnLRP divides by the output
at the softmax (Eq. 5) and by the sum at products (Eqs. 3 and 4).  With the other choice each
would be a different rule, so no single choice gives both.

Nothing here is taken from ``axioms.rules``: the forward operations are written out again, and
tests prove that the last formula of every derivation is the message there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import sympy as sp
from sympy import Eq, Matrix

from axioms import kinds
from axioms.decide import generic, lowest_terms

OUTPUT, SUM = "the output", "the sum of the contributions"
EPS = sp.Symbol("epsilon", positive=True)


@dataclass(frozen=True)
class Step:
    """One line of a derivation: what is done, and the formulas it arrives at."""

    text: str
    formulas: tuple[sp.Basic, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A forward operation over generic symbols, and the choices that its rule rests on."""

    rule: str  # of axioms.kinds
    operands: Mapping[str, Matrix]  # expanded in these; all other symbols are held constant
    outputs: Matrix
    denominator: str  # OUTPUT or SUM
    assumes: str  # what is held constant or taken for granted
    drops: str  # what the expansion leaves to no operand, in words
    stabilised: bool = True
    names: Mapping[sp.Basic, sp.Symbol] = field(default_factory=dict)  # of transcendental parts


@dataclass(frozen=True, kw_only=True)
class Derivation:
    """A rule with the steps that lead to it; ``messages`` is the last formula, per operand."""

    operation: Operation
    relevance: Matrix  # of the outputs: generic symbols
    signs: Matrix  # of the denominators: generic symbols, so that all cases hold at once
    residual: Matrix  # what the expansion leaves over, per output
    messages: tuple[Matrix, ...]
    steps: tuple[Step, ...]


def contributions(operation: Operation, j: int, *, at=1) -> tuple[Matrix, ...]:
    """c_ij = x_i df_j/dx_i of output j, one matrix per operand; slopes are taken at ``at * x``.

    ``at=1`` is the observed point, on which every rule of this project rests.
    """
    symbols = [x for operand in operation.operands.values() for x in operand]
    moved = {x: at * x for x in symbols}
    f = operation.outputs[j]

    def contribution(x):
        slope = sp.diff(f, x).subs(moved, simultaneous=True)
        return lowest_terms(x * slope.subs(operation.names))

    return tuple(operand.applyfunc(contribution) for operand in operation.operands.values())


def derive(operation: Operation, *, denominator: str = "", at=1) -> Derivation:
    """The rule of ``operation``; ``denominator`` and ``at`` replace its own choices.

    Raises ValueError where every contribution is 0, so that there is nothing to divide by.
    """
    denominator = denominator or operation.denominator
    shape = operation.outputs.shape
    outputs = operation.outputs.subs(operation.names)
    parts = [contributions(operation, j, at=at) for j in range(len(outputs))]
    sums = Matrix(*shape, [lowest_terms(sum(sum(c) for c in part)) for part in parts])
    relevance, signs = generic("R", *shape), generic("s", *shape)
    divisors = sums if denominator == SUM else outputs
    if any(divisor == 0 for divisor in divisors):
        raise ValueError(f"{denominator} is 0: the expansion at {at} x says nothing; pass at=1")
    if operation.stabilised:
        divisors = divisors + EPS * signs
    messages = tuple(
        sum((parts[j][n] * relevance[j] / divisors[j] for j in range(len(outputs))), 0 * operand)
        for n, operand in enumerate(operation.operands.values())
    )
    residual = (outputs - sums).applyfunc(lowest_terms)
    steps = _steps(operation, denominator, outputs, parts[0], sums, residual, divisors, messages)
    return Derivation(
        operation=operation,
        relevance=relevance,
        signs=signs,
        residual=residual,
        messages=messages,
        steps=steps,
    )


def _steps(operation, denominator, outputs, first, sums, residual, divisors, messages):
    """The derivation in words, with the formulas of the first output and all messages."""
    named = [Eq(symbol, part, evaluate=False) for part, symbol in operation.names.items()]
    entries = [x for operand in operation.operands.values() for x in operand]
    received = [r for message in messages for r in message]
    each = [c for part in first for c in part]
    stabiliser = ", stabilised by epsilon s, s its sign" if operation.stabilised else ""
    labels = [sp.Symbol(f"c_{x}") for x in entries]
    pairs = zip(labels, each, strict=True)
    return (
        Step(
            f"Forward operation; {operation.assumes}.",
            (*named, Eq(sp.Symbol("f"), outputs[0], evaluate=False)),
        ),
        Step(
            "First-order expansion at the observed operands, read with reference 0: an operand x "
            "contributes c = x df/dx.",
            tuple(Eq(label, c, evaluate=False) for label, c in pairs),
        ),
        Step(
            f"The contributions sum to this, and the rest is dropped: {operation.drops}.",
            (
                Eq(sp.Symbol("sum"), sums[0], evaluate=False),
                Eq(sp.Symbol("rest"), residual[0], evaluate=False),
            ),
        ),
        Step(
            f"Divide by {denominator}{stabiliser} (a choice, not a consequence).",
            (Eq(sp.Symbol("d"), divisors[0], evaluate=False),),
        ),
        Step(
            "Every operand receives the sum of R c / d over the outputs.",
            tuple(
                Eq(sp.Symbol(f"R_{x}"), min(r, lowest_terms(r), key=sp.count_ops), evaluate=False)
                for x, r in zip(entries, received, strict=True)
            ),
        ),
    )


# The operations, at the smallest shapes that are readable; tests pass larger ones.


def linear(inputs=2, outputs=1, *, rule=kinds.EPSILON) -> Operation:
    """Eq. 1: a linear layer is its own expansion, and its bias is what is left over."""
    x, w, b = generic("x", 1, inputs), generic("w", inputs, outputs), generic("b", 1, outputs)
    return Operation(
        rule=rule,
        operands={"x": x},
        outputs=x * w + b,
        denominator=OUTPUT if rule == kinds.EPSILON else SUM,
        assumes="weights w and bias b are constants",
        drops="the bias",
    )


def linear_without_bias(inputs=2, outputs=1) -> Operation:
    """Eq. 1 with the bias left out of the denominator."""
    return linear(inputs, outputs, rule=kinds.EPSILON_WITHOUT_BIAS)


def add(operands=2) -> Operation:
    """Eq. 1 of a sum: linear without weights."""
    terms = {name: generic(name, 1, 1) for name in "xyuvw"[:operands]}
    return Operation(
        rule=kinds.EPSILON,
        operands=terms,
        outputs=sum(terms.values(), sp.zeros(1, 1)),
        denominator=OUTPUT,
        assumes="nothing is held constant",
        drops="nothing, a sum is linear",
    )


def readout(rows=1, keys=2, channels=1) -> Operation:
    """Eq. 3: each factor's contributions to O = A V are all of O, so half of them goes to each."""
    a, v = generic("a", rows, keys), generic("v", keys, channels)
    return Operation(
        rule=kinds.BILINEAR_EPSILON,
        operands={"a": a, "v": v},
        outputs=a * v,
        denominator=SUM,
        assumes="A and V are both variables",
        drops="-O, the term of second order, as large as the output itself",
    )


def scores(rows=1, keys=1, channels=2) -> Operation:
    """Eq. 4: as Eq. 3, for Z = Q K' scaled by a constant, so the stabiliser follows the scaling."""
    q, k = generic("q", rows, channels), generic("k", keys, channels)
    return Operation(
        rule=kinds.BILINEAR_EPSILON,
        operands={"q": q, "k": k},
        outputs=sp.Symbol("scale", positive=True) * q * k.T,
        denominator=SUM,
        assumes="Q and K are both variables, the scale is a constant",
        drops="-Z, the term of second order, as large as the output itself",
    )


def value_only(rows=1, keys=2, channels=1) -> Operation:
    """CP-LRP's readout: expanded in V alone, O = A V is linear."""
    a, v = generic("a", rows, keys), generic("v", keys, channels)
    return Operation(
        rule=kinds.VALUE_ONLY,
        operands={"v": v},
        outputs=a * v,
        denominator=OUTPUT,
        assumes="A is held constant, which is an assumption and no consequence",
        drops="nothing, O is linear in V",
    )


def softmax(keys=2) -> Operation:
    """Eq. 5: the expansion of each attention weight around the observed logits."""
    z, e = generic("z", 1, keys), generic("e", 1, keys, positive=True)
    return Operation(
        rule=kinds.TAYLOR,
        operands={"z": z},
        outputs=z.applyfunc(sp.exp) / sum(z.applyfunc(sp.exp)),
        denominator=OUTPUT,
        assumes="e names the exponentials of the logits",
        drops=(
            "A (1 - z + zbar), where zbar is the mean of the logits under A; it is not small, "
            "and at equal logits it is all there is"
        ),
        stabilised=False,
        names={sp.exp(x): name for x, name in zip(z, e, strict=True)},
    )


def product(factors=2) -> Operation:
    """R/n to each factor: each contributes the whole product, n times in all."""
    terms = {name: generic(name, 1, 1) for name in "xyuvw"[:factors]}
    return Operation(
        rule=kinds.EQUAL_SPLIT,
        operands=terms,
        outputs=Matrix([[sp.prod(x[0] for x in terms.values())]]),
        denominator=SUM,
        assumes="all factors are variables",
        drops=f"{1 - factors} times the product, the terms of order 2 to {factors}",
        stabilised=False,
    )


def activation() -> Operation:
    """The identity rule of any elementwise function: one input, which receives everything."""
    x, y, slope = generic("x", 1, 1), sp.Symbol("y"), sp.Symbol("slope")
    f = sp.Function("g")(x[0])
    return Operation(
        rule=kinds.IDENTITY,
        operands={"x": x},
        outputs=Matrix([[f]]),
        denominator=SUM,
        assumes="g is any function of one number, with x times its slope not 0",
        drops="y minus x times the slope, whatever its size: dividing by the sum hides it",
        stabilised=False,
        names={sp.diff(f, x[0]): slope, f: y},
    )


def held_deviation(channels=2) -> Operation:
    """LayerNorm at its observed standard deviation, where it is a linear layer."""
    x, w, b = (generic(name, 1, channels) for name in "xwb")
    mean, deviation = sum(x) / sp.Integer(channels), sp.Symbol("std", positive=True)
    normal = (x - mean * sp.ones(1, channels)) / deviation
    return Operation(
        rule=kinds.HELD_DEVIATION,
        operands={"x": x},
        outputs=normal.multiply_elementwise(w) + b,
        denominator=OUTPUT,
        assumes="the standard deviation std is held constant although it depends on x",
        drops="the bias, and unseen the slope of std",
    )


DERIVATIONS = {
    "product": (product, (1, 2, 3)),
    "linear": (linear, (6,)),
    "linear without bias": (linear_without_bias, (6,)),
    "add": (add, (6, 12)),
    "readout": (readout, (7,)),
    "scores": (scores, (7,)),
    "value only": (value_only, (7, 18)),
    "softmax": (softmax, (10, 19)),
    "LayerNorm, deviation held": (held_deviation, (13,)),
    "activation": (activation, (14,)),
}
"""By name: the operation, and the numbers of the theorems about its rule."""


def of_theorem(number: int) -> dict[str, Derivation]:
    """The derivations of the rules that theorem ``number`` is about, by name; often none."""
    return {
        name: derive(operation())
        for name, (operation, numbers) in DERIVATIONS.items()
        if number in numbers
    }
