"""A user's rule is one formula: what it returns for symbols holds for numbers.

A proof reads the formula that a rule returns for symbols.  A rule that looks at its operands, as
`if z == 0` does, hides another formula from the proof, because no symbol equals a number.  So
comparing symbols is refused, and the formula is tried at numbers.
"""

import contextlib
import random
import sys
from collections.abc import Iterator
from unittest import mock

import sympy as sp

from axioms.user_rules import ARGUMENTS, EPS, LISTS, UNDEFINED, Rule, RuleError, flat

COUNTS = (1, 2, 3)  # of inputs, where a rule takes lists
TRIED = 10  # points of each sort
OURS = ("sympy.", "axioms.")  # whose code may compare symbols
NEXT = "a rule must be one formula: branch by sign(x), abs or sympy.Max, and keep nothing in mind"


def check_one_formula(rule: Rule) -> None:
    """Raises RuleError if a rule compares symbols, or is not at numbers what it is for symbols."""
    for count in COUNTS if rule.kind in LISTS else COUNTS[:1]:
        names = _names(rule.kind, count)
        symbols = {name: sp.Symbol(name, real=True) for name in names[:-1]} | {"eps": EPS}
        rule(*_arguments(rule.kind, count, symbols))
        with _comparisons_refused():
            formula = flat(rule.formula(*_arguments(rule.kind, count, symbols)))
        if any(part.has(*UNDEFINED) for part in formula):
            raise RuleError(f"{rule.place}: {rule.name} returns {formula}, which is undefined")
        for generic, values in _points(len(names)):
            at = dict(zip(names, values, strict=True))
            expected = [part.xreplace({symbols[x]: at[x] for x in names}) for part in formula]
            found = flat(rule.formula(*_arguments(rule.kind, count, at)))
            if not all(map(_agree, found, expected, [generic] * len(found))):
                point = ", ".join(f"{x} = {value}" for x, value in at.items())
                raise RuleError(
                    f"{rule.place}: {rule.name} returns {found} at {point}, but what "
                    f"it returns for symbols is {expected} there; {NEXT}"
                )


def _names(kind, count):
    """One name per number that a rule gets, as x0 and x1 for the list x; eps is the last."""
    return [
        name + str(k) if name in LISTS.get(kind, "") else name
        for name in ARGUMENTS[kind].split(", ")
        for k in range(count if name in LISTS.get(kind, "") else 1)
    ]


def _arguments(kind, count, values):
    return [
        [values[f"{name}{k}"] for k in range(count)]
        if name in LISTS.get(kind, "")
        else values[name]
        for name in ARGUMENTS[kind].split(", ")
    ]


def _points(count) -> Iterator[tuple[bool, list]]:
    """Whether a point is generic, and its values: small and equal ones, then fractions."""
    chance = random.Random(0)
    small = [[sp.Integer(v)] * (count - 1) for v in (-1, 0, 1, 2)]
    small += [[sp.Integer(chance.randint(-2, 3)) for _ in range(count - 1)] for _ in range(TRIED)]
    for values in small:
        yield False, [*values, sp.Rational(1, 4)]
    for _ in range(TRIED):
        sizes = (sp.Rational(chance.randint(1, 99), chance.choice((7, 11, 13))) for _ in values)
        yield True, [*(chance.choice((1, -1)) * s for s in sizes), sp.Rational(1, 10**6)]


def _agree(found, expected, generic):
    undefined = [value.has(*UNDEFINED) for value in (found, expected)]
    if any(undefined):  # at single points x / x is no number, and 1 for symbols
        return all(undefined) or not generic
    return found == expected


@contextlib.contextmanager
def _comparisons_refused():
    """In here, ==, !=, `in`, truth and hash of symbols raise, unless SymPy or we ask for them."""

    def refused(name, method):
        def asked(one, *other):
            asking = sys._getframe(1).f_globals.get("__name__", "")
            if not asking.startswith(OURS) and getattr(one, "free_symbols", None):
                asks = {"__eq__": "{} == {}", "__ne__": "{} != {}", "__hash__": "{} as a key"}
                asked_for = asks.get(name, "{}").format(one, *other)
                raise TypeError(f"cannot determine truth value of {asked_for}")  # as SymPy of x < y
            return method(one, *other)

        return asked

    with contextlib.ExitStack() as stack:
        for name in ("__eq__", "__ne__", "__hash__"):
            method = getattr(sp.Expr, name)
            stack.enter_context(mock.patch.object(sp.Expr, name, refused(name, method)))
        truth = refused("__bool__", lambda one: True)
        stack.enter_context(mock.patch.object(sp.Expr, "__bool__", truth, create=True))
        yield
