"""The operations whose rules are derived, at the smallest shapes that are readable.

Tests pass larger shapes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.decide.identity import generic
from lrp_axioms.axioms.derivations.derive import OUTPUT, SUM, Derivation, Operation, derive
from lrp_axioms.axioms.derivations.roots import ROOTS


def linear(inputs: int = 2, outputs: int = 1, *, rule: str = kinds.EPSILON) -> Operation:
    """Eq. 1: a linear layer is its own expansion, and its bias is the residual."""
    x, w, b = generic("x", 1, inputs), generic("w", inputs, outputs), generic("b", 1, outputs)
    return Operation(
        rule=rule,
        operands={"x": x},
        outputs=x * w + b,
        denominator=OUTPUT if rule == kinds.EPSILON else SUM,  # without the bias
        assumes="weights w and bias b are constants",
        drops="the bias",
    )


def add(operands: int = 2) -> Operation:
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


def batch_norm(inputs: int = 2, outputs: int = 1) -> Operation:
    """Eq. 1 of a linear layer with the BatchNorm after it: one linear layer again."""
    shape = (1, outputs)
    folded, scale, shift = linear(inputs, outputs), generic("g", *shape), generic("t", *shape)
    return replace(
        folded,
        outputs=folded.outputs.multiply_elementwise(scale) + shift,
        assumes="weights w, bias b, and BatchNorm's scale g and shift t are constants",
        drops="the bias of the folded layer",
    )


def readout(rows: int = 1, keys: int = 2, channels: int = 1) -> Operation:
    """Eq. 3: each factor's contributions to O = A V are all of O, so half of them goes to each."""
    a, v = generic("a", rows, keys), generic("v", keys, channels)
    return _bilinear("O", {"a": a, "v": v}, a * v, "A and V are both variables")


def scores(rows: int = 1, keys: int = 1, channels: int = 2) -> Operation:
    """Eq. 4: as Eq. 3, for Z = Q K' scaled by a constant, so the stabiliser follows the scaling."""
    q, k = generic("q", rows, channels), generic("k", keys, channels)
    scaled = sp.Symbol("scale", positive=True) * q * k.T
    assumes = "Q and K are both variables, the scale is a constant"
    return _bilinear("Z", {"q": q, "k": k}, scaled, assumes)


def _bilinear(
    output: str, operands: Mapping[str, Matrix], outputs: Matrix, assumes: str
) -> Operation:
    return Operation(
        rule=kinds.BILINEAR_EPSILON,
        operands=operands,
        outputs=outputs,
        denominator=SUM,
        assumes=assumes,
        drops=f"-{output}, the term of second order, as large as the output itself",
    )


def value_only(rows: int = 1, keys: int = 2, channels: int = 1) -> Operation:
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


def merged_attention(rows: int = 1, keys: int = 1, channels: int = 2) -> Operation:
    """Eq. 3 of three factors: each one's contributions to O = Q K' V are all of O."""
    q, k = generic("q", rows, channels), generic("k", keys, channels)
    v = generic("v", keys, 1)
    assumes = "Q, K and V are all variables of one operation"
    merged = _bilinear("O", {"q": q, "k": k, "v": v}, q * k.T * v, assumes)
    return replace(merged, drops="-2 O, the terms of second and third order")


def softmax(keys: int = 2) -> Operation:
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


def product(factors: int = 2) -> Operation:
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


def held_deviation(channels: int = 2) -> Operation:
    """LayerNorm at its observed standard deviation, where it is a linear layer."""
    x, w, b = (generic(name, 1, channels) for name in "xwb")
    mean, deviation = sum(x) / sp.Integer(channels), sp.Symbol("std", positive=True)
    normal = (x - mean * sp.ones(1, channels)) / deviation
    return Operation(
        rule=kinds.HELD_DEVIATION,
        operands={"x": x},
        outputs=normal.multiply_elementwise(w) + b,
        denominator=OUTPUT,
        assumes="weights w, bias b and deviation std are constants although std depends on x",
        drops="the bias, and unseen the slope of std",
    )


def held_root_mean_square(channels: int = 2) -> Operation:
    """RMSNorm at its observed root mean square, where it scales every channel."""
    x, w = generic("x", 1, channels), generic("w", 1, channels)
    return Operation(
        rule=kinds.HELD_DEVIATION,
        operands={"x": x},
        outputs=x.multiply_elementwise(w) / sp.Symbol("rms", positive=True),
        denominator=OUTPUT,
        assumes="weights w and root mean square rms are constants although rms depends on x",
        drops="nothing that is seen, and unseen the slope of rms",
    )


def state_space(states: int = 2) -> Operation:
    """A step of MambaLRP's recurrence, A h + B x: linear where the selection is held."""
    h, x = generic("h", states, 1), generic("x", 1, 1)
    a, b = generic("a", states, states), generic("b", states, 1)
    return Operation(
        rule=kinds.VALUE_ONLY,
        operands={"h": h, "x": x},
        outputs=a * h + b * x,
        denominator=OUTPUT,
        assumes="what is selected, a and b, is held constant although it depends on x",
        drops="nothing, the step is linear in h and x",
    )


OPERATIONS: dict[str, Callable[[], Operation]] = {
    "product": product,
    "linear": linear,
    "linear without bias": partial(linear, rule=kinds.EPSILON_WITHOUT_BIAS),
    "linear, then BatchNorm": batch_norm,
    "add": add,
    "readout": readout,
    "scores": scores,
    "value only": value_only,
    "merged attention": merged_attention,
    "softmax": softmax,
    "LayerNorm, deviation held": held_deviation,
    "RMSNorm, root mean square held": held_root_mean_square,
    "state space step": state_space,
    "activation": activation,
}
"""By name: the operations whose rules are derived step by step."""


def derivations(names: Iterable[str]) -> dict[str, Derivation]:
    """The derivations of rules by name: keys of OPERATIONS, or of ROOTS."""
    return {x: derive(OPERATIONS[x]()) if x in OPERATIONS else ROOTS[x]() for x in names}
