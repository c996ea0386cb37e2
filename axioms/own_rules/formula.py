"""A user's rule is one formula: what it returns for symbols holds for numbers.

A proof reads the formula that a rule returns for symbols.  A rule that looks at its operands, as
`if z == 0` does, hides another formula from the proof, because no symbol equals a number.  So
comparing symbols is refused, and the formula is tried at numbers.
"""

import contextlib
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from operator import add, mul
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias
from unittest import mock

import sympy as sp
from sympy.assumptions.assume import Predicate

from axioms import kinds
from axioms.own_rules.rules import (
    ARGUMENTS,
    LISTS,
    Nested,
    Rule,
    RuleError,
    flat,
    for_symbols,
    replaced,
    symbols,
)
from axioms.own_rules.signs import UNDEFINED

COUNTS = (1, 2, 3)  # of inputs, where a rule takes lists
TRIED = 10  # points of each sort
AXIOMS = Path(__file__).parents[1]
OURS = tuple(f"{place}{os.sep}" for place in (Path(sp.__file__).parent, AXIOMS))
"""Where the code lies that may compare symbols: a name is given to any file."""
ASKED = {  # of a symbol, by a comparison
    "__eq__": "{} == {}",
    "__ne__": "{} != {}",
    "__lt__": "{} < {}",
    "__le__": "{} <= {}",
    "__gt__": "{} > {}",
    "__ge__": "{} >= {}",
    "__hash__": "{} as a key",
    "__str__": "{} as text",
    "__repr__": "{} as text",
    "__format__": "{} as text",
}
PREDICATE = Predicate.__call__
NEXT = "a rule must be one formula: branch by sign(x), abs or sympy.Max, and keep nothing in mind"


Values: TypeAlias = dict[sp.Symbol, sp.Expr]


def check_one_formula(rule: Rule) -> None:
    """Raises RuleError for a rule that compares symbols, is another formula at numbers, or 0/0."""
    defined = False
    for count in COUNTS if rule.kind in LISTS else COUNTS[:1]:
        given, _ = for_symbols(rule, count)
        rule(*given)
        with _comparisons_refused():
            rule.formula(*given)
        tried = zip(_tried(rule.kind, count), _expected(rule, count), strict=True)
        for (generic, at, arguments), expected in tried:
            found = flat(rule.formula(*arguments))
            pairs = zip(found, expected, strict=True)
            if not all(_agree(*pair, generic=generic) for pair in pairs):
                raise RuleError(
                    f"{rule.place}: {rule.name} returns {found} at {_said(at)}, but what "
                    f"it returns for symbols is {expected} there; {NEXT}"
                )
            defined = defined or (generic and not any(v.has(*UNDEFINED) for v in found))
    if not defined:
        raise RuleError(
            f"{rule.place}: {rule.name} returns {found} at {_said(at)}, which is undefined, as at "
            "every point tried; look for a divisor that is always 0"
        )


def _said(at: Values) -> str:
    return ", ".join(f"{x} = {value}" for x, value in at.items())


@cache
def _tried(kind: str, count: int) -> list[tuple[bool, Values, list[Nested]]]:
    """Whether a point is generic, its values, and the arguments of a rule there."""
    given = symbols(kind, count)
    tried = []
    for generic, values in _points(len(flat(given))):
        at = _with_output(kind, given, dict(zip(flat(given), values, strict=True)))
        tried.append((generic, at, replaced(given, at)))
    return tried


@cache
def _expected(rule: Rule, count: int) -> list[list[sp.Expr]]:
    """What a rule returns for symbols, at the points that are tried."""
    _, messages = for_symbols(rule, count)
    return [replaced(flat(messages), at) for _, at, _ in _tried(rule.kind, count)]


def _with_output(kind: str, given: Sequence[Nested], at: Values) -> Values:
    """The point where the output of the operation is what it computes of the operands."""
    if kind not in OUTPUT:
        return at
    name, operands, computed = OUTPUT[kind]
    arguments = dict(zip(ARGUMENTS[kind].split(", "), given, strict=True))
    values = computed(*(replaced(arguments[x], at) for x in operands))
    return {**at, **dict(zip(flat(arguments[name]), flat(values), strict=True))}


def _dot(one: Sequence[sp.Expr], other: Sequence[sp.Expr]) -> sp.Expr:
    return sum(map(mul, one, other))


def _shares(values: Sequence[sp.Expr]) -> list[sp.Expr]:
    sizes = [1 + abs(value) for value in values]
    return [size / sum(sizes) for size in sizes]


# kind -> its output, what that is computed of, and how; an activation may be any
OUTPUT: dict[str, tuple[str, str, Callable[..., Nested]]] = {
    kinds.PRODUCT: ("z", "xy", mul),
    kinds.ADD: ("z", "xy", add),
    kinds.LINEAR: ("z", "xwb", lambda x, w, b: _dot(x, w) + b),
    kinds.BILINEAR: ("o", "av", _dot),
    kinds.SCORES: ("z", "qk", _dot),
    kinds.READOUT: ("o", "av", _dot),
    kinds.SOFTMAX: ("a", "a", _shares),  # any that add up to 1: logits have no part in it
}


def _points(count: int) -> Iterator[tuple[bool, list[sp.Rational]]]:
    """Whether a point is generic, and its values: small and equal ones, then any fractions."""
    chance = random.Random(0)
    small = [[sp.Integer(v)] * (count - 1) for v in (-1, 0, 1, 2)]
    small += [[sp.Integer(chance.randint(-2, 3)) for _ in range(count - 1)] for _ in range(TRIED)]
    for values in small:
        yield False, [*values, sp.Rational(1, 4)]
    for _ in range(TRIED):
        scale, eps = chance.choice(((10, sp.Rational(1, 10**6)), (10**9, sp.Integer(10**6))))
        sizes = (scale * sp.Rational(chance.randint(1, 1008), 1009) for _ in values)
        yield True, [*(chance.choice((1, -1)) * s for s in sizes), eps]


def _agree(found: sp.Expr, expected: sp.Expr, *, generic: bool) -> bool:
    undefined = [value.has(*UNDEFINED) for value in (found, expected)]
    if any(undefined):  # at single points x / x is no number, and 1 for symbols
        return all(undefined) or not generic
    return bool(found == expected)


@contextlib.contextmanager
def _comparisons_refused() -> Iterator[None]:
    """In here, whatever tells symbols from numbers raises, unless SymPy or we ask."""

    def check(asking: FrameType, one: object, text: str, *other: object) -> None:
        if not asking.f_code.co_filename.startswith(OURS) and getattr(one, "free_symbols", None):
            asked_for = text.format(one, *other)
            raise TypeError(f"cannot determine truth value of {asked_for}")  # as SymPy of x < y

    def refused(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def asked(one: sp.Expr, *other: object) -> Any:
            check(sys._getframe(1), one, ASKED.get(name, "{}"), *other)
            return method(one, *other)

        return asked

    def claimed(predicate: Predicate, *given: object) -> Any:  # sympy.Q.zero(x), for sympy.ask
        check(sys._getframe(1), given[0], f"{predicate} of {{}}")
        return PREDICATE(predicate, *given)

    def looked_up(one: sp.Expr, name: str) -> Any:
        if not name.startswith("__"):  # x.is_zero is None for a symbol, and x.name another
            check(sys._getframe(1), one, f"({{}}).{name}")
        return object.__getattribute__(one, name)

    with contextlib.ExitStack() as stack:
        for name in ASKED:
            method = getattr(sp.Expr, name)
            stack.enter_context(mock.patch.object(sp.Expr, name, refused(name, method)))
        truth = refused("__bool__", lambda one: True)
        stack.enter_context(mock.patch.object(sp.Expr, "__bool__", truth, create=True))
        stack.enter_context(mock.patch.object(sp.Expr, "__getattribute__", looked_up))
        stack.enter_context(mock.patch.object(Predicate, "__call__", claimed))
        yield
