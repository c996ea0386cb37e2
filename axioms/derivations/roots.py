"""Rules of linear maps from a root on a line, and one rule that is a definition.

Eq. 1 reads the expansion of f = x W with reference 0.  Deep Taylor Decomposition also expands
around a root of f (Montavon et al., 2017 and 2019): the one on the line x - t v.  As f is linear,

  1  the root is at t = f / sum_i v_i w_i
  2  operand i contributes c_i = (x_i - root_i) w_i = t v_i w_i, and nothing is left over
  3  R c_i / f = R v_i w_i / sum_k v_k w_k, where t has cancelled

The direction v is chosen, rule by rule, and need not keep the root among the possible inputs; any
rule that conserves relevance is one for some v if no weight is 0.  A bias is an input of 1 whose
weight it is.
"""

from collections.abc import Callable

import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms.decide.identity import Number, generic, lowest_terms
from lrp_axioms.axioms.derivations.derive import (
    EPS,
    OUTPUT,
    Derivation,
    Operation,
    Step,
    equation,
    equations,
)

GAMMA, ALPHA, BETA = sp.symbols("gamma alpha beta", positive=True)
POSITIVE = (
    "weights w are constants, and the inputs x are positive here, so that a contribution x w has "
    "the sign of w: w10 is negative, the others are positive"
)


def _operation(rule: str, x: Matrix, outputs: Matrix) -> Operation:
    return Operation(
        rule=rule,
        operands={"x": x},
        outputs=outputs,
        denominator=OUTPUT,
        assumes="weights w are constants",
        drops="nothing, f is linear",
    )


def _mixed_signs(inputs: int, outputs: int, *, bias: bool = False) -> tuple[Matrix, Matrix]:
    """Positive inputs and weights of both signs: of every output all weights but one are > 0.

    The last of ``inputs`` is 1 if it stands for a ``bias``.
    """
    x = generic("x", 1, inputs, positive=True)
    if bias:
        x[inputs - 1] = 1

    def weight(i: int, j: int) -> sp.Symbol:
        sign = "negative" if i == (1 + j) % inputs else "positive"
        return sp.Symbol(f"w{i}{j}", **{sign: True})

    return x, Matrix(inputs, outputs, weight)


def on_a_line(
    rule: str,
    x: Matrix,
    w: Matrix,
    factor: Callable[[sp.Expr], Number],
    *,
    direction: str,
    signs: Matrix,
    assumes: str = POSITIVE,
) -> Derivation:
    """The rule that expands x W around its root in direction v = x factor(x w), entry by entry.

    ``direction`` says so in words; the sum of v w is stabilised by epsilon times ``signs``.
    """
    outputs = x * w
    moved = Matrix(*w.shape, lambda i, j: x[i] * factor(x[i] * w[i, j]))
    weighted = moved.multiply_elementwise(w)  # v w
    sums = sp.ones(1, w.rows) * weighted
    relevance = generic("R", *outputs.shape)
    roots = [lowest_terms(f / total) for f, total in zip(outputs, sums, strict=True)]
    parts = weighted * sp.diag(*roots)  # t v w
    below = sums + EPS * signs
    share = Matrix(1, w.cols, lambda _, j: relevance[j] / below[j])
    message = (weighted * share.T).T
    total = lowest_terms(sum(parts[:, 0]))
    steps = (
        Step(f"Forward operation; {assumes}.", (equation("f", outputs[0]),)),
        Step(
            f"Reference: the root of f on the line x - t v, {direction} (a choice, not a "
            "consequence).",
            (*equations("v", x, moved[:, 0]), equation("t", roots[0])),
        ),
        Step(
            "First-order expansion there: an operand contributes c = t v w.",
            equations("c", x, parts[:, 0]),
        ),
        Step(
            "The contributions sum to f, as it is linear: nothing is dropped.",
            (equation("sum", total), equation("rest", lowest_terms(outputs[0] - total))),
        ),
        Step(
            "Every operand receives the sum of R c / f over the outputs, where t cancels; the "
            "stabiliser is added to the sum of v w, which no expansion says.",
            equations("R", x, message),
        ),
    )
    return Derivation(
        operation=_operation(rule, x, outputs),
        relevance=relevance,
        signs=signs,
        residual=0 * outputs,
        messages=(message,),
        steps=steps,
    )


def z_plus(inputs: int = 3, outputs: int = 1, *, bias: bool = False) -> Derivation:
    """The z+ rule: only inputs with a positive contribution move."""
    x, w = _mixed_signs(inputs, outputs, bias=bias)
    return on_a_line(
        "z-plus",
        x,
        w,
        lambda c: int(c.is_positive),
        direction="where v = x for positive contributions and 0 for others",
        signs=sp.ones(1, outputs),
    )


def gamma(inputs: int = 3, outputs: int = 1, *, bias: bool = False) -> Derivation:
    """The gamma rule: inputs with a positive contribution move faster."""
    x, w = _mixed_signs(inputs, outputs, bias=bias)
    return on_a_line(
        "gamma",
        x,
        w,
        lambda c: 1 + GAMMA * int(c.is_positive),
        direction="where v = x (1 + gamma) for positive contributions and x for others",
        signs=generic("s", 1, outputs),
    )


def split_by_size(operands: int = 3) -> Derivation:
    """The split of a sum by absolute value: operands of either sign approach 0."""
    signs = ["positive", "negative", *["positive"] * operands][:operands]
    x = Matrix(1, operands, [sp.Symbol(f"x{i}", **{sign: True}) for i, sign in enumerate(signs)])
    return on_a_line(
        "split by size",
        x,
        sp.ones(operands, 1),
        sp.sign,
        direction="where v = |x|",
        signs=sp.ones(1, 1),
        assumes="x1 is negative here, the others are positive",
    )


def alpha_beta(inputs: int = 3, outputs: int = 1, *, bias: bool = False) -> Derivation:
    """The alpha-beta rule, which is a definition: z+ on either sign, mixed."""
    x, w = _mixed_signs(inputs, outputs, bias=bias)
    outputs_of, relevance = x * w, generic("R", 1, outputs)
    parts = Matrix(*w.shape, lambda i, j: x[i] * w[i, j])
    above = parts.applyfunc(lambda c: c if c.is_positive else 0)
    below = above - parts  # sizes of the negative contributions
    p, n = (sp.ones(1, inputs) * sizes for sizes in (above, below))

    def received(_: int, i: int) -> sp.Expr:
        return sum(
            relevance[j] * ALPHA * above[i, j] / (p[j] + EPS)
            - relevance[j] * BETA * below[i, j] / (n[j] + EPS)
            for j in range(outputs)
        )

    message = Matrix(1, inputs, received)
    steps = (
        Step(f"Forward operation; {POSITIVE}.", (equation("f", outputs_of[0]),)),
        Step(
            "Decomposition: every operand contributes c = x w, exactly.",
            equations("c", x, parts[:, 0]),
        ),
        Step(
            "P sums the positive contributions and N the sizes of the negative ones, so f = P - N.",
            (equation("P", p[0]), equation("N", n[0])),
        ),
        Step(
            "alpha R is shared among the positive contributions and -beta R among the negative "
            "ones.  This is a definition, not an expansion: no root is sought, and a direction "
            "that leads to it has to know P and N.  At (1, 0) it is z+, which has one.",
            (equation("d_P", p[0] + EPS), equation("d_N", n[0] + EPS)),
        ),
        Step(
            "Every operand receives alpha R c / d_P or beta R c / d_N, summed over the outputs.",
            equations("R", x, message),
        ),
    )
    return Derivation(
        operation=_operation("alpha-beta", x, outputs_of),
        relevance=relevance,
        signs=sp.ones(1, outputs),
        residual=0 * outputs_of,
        messages=(message,),
        steps=steps,
    )


ROOTS: dict[str, Callable[[], Derivation]] = {
    "z+ of a linear layer": z_plus,
    "gamma rule of a linear layer": gamma,
    "alpha-beta rule of a linear layer": alpha_beta,
    "sum split by absolute value": split_by_size,
}
"""Derivations by name that divide the arriving relevance by sizes."""
