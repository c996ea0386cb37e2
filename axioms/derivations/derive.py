"""Derives rules: from the forward operation, by one first-order expansion, to the messages.

Up to one choice all rules are the same calculation (Deep Taylor Decomposition, Sec. 2.3):

  1  expand every output f_j at the observed operands and read the expansion with reference 0, so
     that operand i contributes c_ij = x_i df_j/dx_i
  2  give the residual f_j - sum_i c_ij to no operand
  3  pass on R_j c_ij / d_j, where d_j is either the output f_j or the sum of the contributions

The choice of d_j in step 3 is not derived but made, rule by rule: AttnLRP divides by the output
at the softmax (Eq. 5) and by the sum at products (Eqs. 3 and 4).  With the other choice each
would be a different rule, so no single choice gives both.

``axioms.derivations.operations`` lists the operations, and ``axioms.derivations.roots`` derives
rules by expansion around another point.  Nothing is taken from ``axioms.rules``: the forward
operations are written out again, and tests prove that the last formula of every derivation is the
message there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import sympy as sp
from sympy import Eq, Matrix

from lrp_axioms.axioms.decide.identity import generic, lowest_terms

OUTPUT, SUM = "the output", "the sum of the contributions"
EPS = sp.Symbol("epsilon", positive=True)


@dataclass(frozen=True)
class Step:
    """One line of a derivation: its text, and the formulas it arrives at."""

    text: str
    formulas: tuple[sp.Basic, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A forward operation over generic symbols, and the choices that its rule rests on."""

    rule: str  # as axioms.kinds or a formula of axioms.rules call it
    operands: Mapping[str, Matrix]  # expanded in these; all other symbols are held constant
    outputs: Matrix
    denominator: str  # OUTPUT or SUM
    assumes: str  # the quantities held constant, or other assumptions
    drops: str  # the residual that no operand receives, in words
    stabilised: bool = True
    names: Mapping[sp.Basic, sp.Symbol] = field(default_factory=dict)  # of transcendental parts


@dataclass(frozen=True, kw_only=True)
class Derivation:
    """A rule with the steps that lead to it; ``messages`` is the last formula, per operand."""

    operation: Operation
    relevance: Matrix  # of the outputs: generic symbols
    signs: Matrix  # of the denominators: generic symbols, so that all cases hold at once
    residual: Matrix  # of the expansion, per output
    messages: tuple[Matrix, ...]
    steps: tuple[Step, ...]


def equation(name: str, value: sp.Expr) -> Eq:
    """A formula of a step, which may be true or false as it stands."""
    return Eq(sp.Symbol(name), value, evaluate=False)


def equations(name: str, symbols: Iterable[sp.Symbol], values: Iterable[sp.Expr]) -> tuple[Eq, ...]:
    """The formulas of ``name`` of every symbol."""
    return tuple(equation(f"{name}_{x}", v) for x, v in zip(symbols, values, strict=True))


def contributions(operation: Operation, j: int) -> tuple[Matrix, ...]:
    """c_ij = x_i df_j/dx_i of output j, one matrix per operand, at the observed point."""
    f = operation.outputs[j]

    def contribution(x: sp.Symbol) -> sp.Expr:
        return lowest_terms(x * sp.diff(f, x).subs(operation.names))

    return tuple(operand.applyfunc(contribution) for operand in operation.operands.values())


def derive(operation: Operation) -> Derivation:
    """The rule of ``operation``.

    Raises ValueError where every contribution is 0, so that there is nothing to divide by.
    """
    shape = operation.outputs.shape
    outputs = operation.outputs.subs(operation.names)
    parts = [contributions(operation, j) for j in range(len(outputs))]
    sums = Matrix(*shape, [lowest_terms(sum(sum(c) for c in part)) for part in parts])
    relevance, signs = generic("R", *shape), generic("s", *shape)
    divisors = sums if operation.denominator == SUM else outputs
    if any(divisor == 0 for divisor in divisors):
        raise ValueError(f"{operation.denominator} is 0: the expansion says nothing")
    if operation.stabilised:
        divisors = divisors + EPS * signs
    messages = tuple(
        sum((parts[j][n] * relevance[j] / divisors[j] for j in range(len(outputs))), 0 * operand)
        for n, operand in enumerate(operation.operands.values())
    )
    residual = (outputs - sums).applyfunc(lowest_terms)
    steps = _steps(operation, outputs, parts[0], sums, residual, divisors, messages)
    return Derivation(
        operation=operation,
        relevance=relevance,
        signs=signs,
        residual=residual,
        messages=messages,
        steps=steps,
    )


def _steps(
    operation: Operation,
    outputs: Matrix,
    first: Sequence[Matrix],
    sums: Matrix,
    residual: Matrix,
    divisors: Matrix,
    messages: Sequence[Matrix],
) -> tuple[Step, ...]:
    """The derivation in words, with the formulas of the first output and all messages."""
    named = [Eq(symbol, part, evaluate=False) for part, symbol in operation.names.items()]
    entries = [x for operand in operation.operands.values() for x in operand]
    received = (min(r, lowest_terms(r), key=sp.count_ops) for part in messages for r in part)
    stabiliser = ", stabilised by epsilon s, s its sign" if operation.stabilised else ""
    return (
        Step(f"Forward operation; {operation.assumes}.", (*named, equation("f", outputs[0]))),
        Step(
            "First-order expansion at the observed operands, read with reference 0: an operand x "
            "contributes c = x df/dx.",
            equations("c", entries, (c for part in first for c in part)),
        ),
        Step(
            f"The contributions sum to this, and the rest is dropped: {operation.drops}.",
            (equation("sum", sums[0]), equation("rest", residual[0])),
        ),
        Step(
            f"Divide by {operation.denominator}{stabiliser} (a choice, not a consequence).",
            (equation("d", divisors[0]),),
        ),
        Step(
            "Every operand receives the sum of R c / d over the outputs.",
            equations("R", entries, received),
        ),
    )
