"""Lists the operations that have rules: arguments, messages and output of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add, mul

import sympy as sp

from lrp_axioms.axioms import kinds

COUNTS = (1, 2, 3)  # numbers of inputs in decisions of claims about lists


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One kind of operation; its arguments are letters, and ``slope`` and ``eps``.

    to: the arguments that receive messages
    lists: the arguments with one entry per input
    computed: the function of operands that gives the output, the last argument before R; None if
        the output may be any number
    attends: whether ``a`` is attention: positive numbers of sum 1
    """

    arguments: str
    to: str
    lists: str = ""
    computed: Callable[..., sp.Expr] | None = None
    attends: bool = False

    @property
    def names(self) -> list[str]:
        """The arguments of a rule."""
        return self.arguments.split(", ")

    @property
    def counts(self) -> tuple[int | None, ...]:
        """The numbers of inputs that claims are decided at; (None,) for a kind without lists."""
        return COUNTS if self.lists else (None,)

    @property
    def output(self) -> tuple[str, list[str]]:
        """The names of the output and its operands; empty if the output is not computed."""
        *operands, output, _, _ = self.names
        return (output, operands) if self.computed else ("", [])


ZERO = sp.Integer(0)


def _dot(one: Sequence[sp.Expr], other: Sequence[sp.Expr], bias: sp.Expr = ZERO) -> sp.Expr:
    return sum(map(mul, one, other), bias)


OPERATIONS = {
    kinds.PRODUCT: Operation(arguments="x, y, z, R, eps", to="xy", computed=mul),
    kinds.ADD: Operation(arguments="x, y, z, R, eps", to="xy", computed=add),
    kinds.LINEAR: Operation(arguments="x, w, b, z, R, eps", to="x", lists="xw", computed=_dot),
    kinds.BILINEAR: Operation(arguments="a, v, o, R, eps", to="av", lists="av", computed=_dot),
    kinds.SCORES: Operation(arguments="q, k, z, R, eps", to="qk", lists="qk", computed=_dot),
    kinds.READOUT: Operation(
        arguments="a, v, o, R, eps", to="av", lists="av", computed=_dot, attends=True
    ),
    kinds.SOFTMAX: Operation(arguments="z, a, R, eps", to="z", lists="zaR", attends=True),
    kinds.ACTIVATION: Operation(arguments="x, y, slope, R, eps", to="x"),
}
"""Operations by kind; "bilinear" is every matrix product, "scores" is Q K' and "readout" A V."""
MATRIX_PRODUCTS = (kinds.BILINEAR, kinds.SCORES, kinds.READOUT)
