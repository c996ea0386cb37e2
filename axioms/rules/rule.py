"""A propagation rule as one record, and the stabiliser that rules have in common.

Rules are in message form: R[i <- j] is the relevance input i gets from output j.  Values are SymPy
matrices of exact rationals or symbols, one token per row.  Every formula returns one matrix of
relevance per operand that receives some.  Axis letters are the paper's: j query row, i key row, p
value channel, r query or key channel; n is a token of a linear layer.

``eps`` is the stabiliser, 0 for the limit.  ``sign`` is a matrix of +1 and -1 in the shape of
the output, for callers who split cases; without it the sign must be decidable.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NotRequired, ParamSpec, TypeAlias, TypedDict, TypeVar

import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms.decide.identity import Number, lowest_terms
from lrp_axioms.axioms.decide.records import noted
from lrp_axioms.axioms.graph import Node

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")
Messages: TypeAlias = tuple[Matrix, ...]  # the relevance of every operand that receives some
Row: TypeAlias = Matrix | None  # a bias, where there is one
Signs: TypeAlias = Matrix | None  # of every output, where its value does not tell it


class Options(TypedDict):
    """The stabiliser, and the sign of every output where the value does not tell it."""

    eps: Number
    sign: NotRequired[Signs]


MessageFunction: TypeAlias = Callable[[Node, Sequence[Matrix], Matrix, Options], Sequence[Matrix]]
"""Relevance of the operands, from a node, their values, its relevance, and the options.

Rules without a stabiliser ignore the options."""


class Visit(NamedTuple):
    """An operation in a sweep: values of its operands and its own, its relevance, the options."""

    node: Node
    xs: Sequence[Matrix]
    z: Matrix
    r: Matrix
    options: Options


Amount: TypeAlias = Callable[[Visit], Matrix]  # absorbed relevance per output entry


@dataclass(frozen=True)
class Rule:
    """One rule of ``axioms.kinds`` at one kind of operation.

    ``absorbs``: by cause of ``axioms.composites``, how much of the relevance of every output entry
    is not handed on (theorems 25 and 73); a bias absorbs only where there is one.  ``passes_by``:
    the operands, by place, that never receive anything.
    """

    kind: str
    name: str
    messages: MessageFunction
    absorbs: Mapping[str, Amount]
    passes_by: tuple[int, ...] = ()


EQUATIONS: dict[str, str] = {}
"""Names on a page of the functions that are a ``formula``."""


def formula(words: str) -> Callable[[Callable[Arguments, Found]], Callable[Arguments, Found]]:
    """A decorator of a rule's formula, which is noted where it runs, and called so on pages."""

    def named(function: Callable[Arguments, Found]) -> Callable[Arguments, Found]:
        EQUATIONS[function.__name__] = words
        return noted(function)

    return named


def sign_of(z: Number) -> int:
    """+1 where z >= 0 and -1 where z < 0, so sign(0) = +1.  Raises ValueError if undecided."""
    z = sp.sympify(z)
    if z.is_extended_nonnegative:
        return 1
    if z.is_extended_negative:
        return -1
    raise ValueError(f"the sign of {z} is undecided; pass sign=, one case at a time")


def stabilize(z: Number, *, eps: Number, sign: Number | None = None) -> sp.Expr:
    """``z + eps * sign(z)``, the denominator of Eqs. 1, 3 and 4.

    Raises ValueError for a negative ``eps`` and ZeroDivisionError where the result is 0.
    """
    eps = sp.sympify(eps)
    if eps.is_extended_negative:
        raise ValueError(f"eps={eps}: the stabiliser must be >= 0; pass eps=0 for the limit")
    pushed = 0 if eps == 0 else eps * (sign_of(z) if sign is None else sign)
    denominator = sp.sympify(z) + pushed
    if denominator == 0:
        raise ZeroDivisionError("z = 0 at eps = 0, where the rule is undefined; pass eps > 0")
    return denominator


def shares(relevance: Matrix, z: Matrix, *, eps: Number, sign: Signs = None) -> Matrix:
    """R_j / (z_j + eps * sign(z_j)) for every output j: relevance per unit of contribution.

    In lowest terms, since one division here is far cheaper than a sum of fractions later.
    """

    def share(j: int, p: int) -> sp.Expr:
        s = None if sign is None else sign[j, p]
        return lowest_terms(relevance[j, p] / stabilize(z[j, p], eps=eps, sign=s))

    return Matrix(*z.shape, share)


def pushed(visit: Visit) -> Matrix:
    """epsilon sign(z), entry by entry."""
    z, eps, sign = visit.z, visit.options["eps"], visit.options.get("sign")

    def push(j: int, p: int) -> sp.Expr:
        s = None if sign is None else sign[j, p]
        return stabilize(z[j, p], eps=eps, sign=s) - z[j, p]

    return Matrix(*z.shape, push)


def part_of(r: Matrix, part: Matrix, whole: Matrix) -> Matrix:
    """R part / whole, entry by entry."""
    return Matrix(*r.shape, lambda j, p: r[j, p] * part[j, p] / whole[j, p])
