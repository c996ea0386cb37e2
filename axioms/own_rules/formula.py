"""Checks that a user's rule is one formula, for symbols and for numbers.

A proof reads the formula that a rule returns for symbols.  A rule with `if z == 0` hides another
formula from the proof, because no symbol equals a number.  So comparisons of symbols are refused,
and the formula is tried at numbers.
"""

import random
from collections.abc import Iterator, Sequence
from functools import cache

import sympy as sp

from lrp_axioms.axioms.decide.equality import Undecided, Values
from lrp_axioms.axioms.decide.signs import UNDEFINED
from lrp_axioms.axioms.own_rules.comparisons import NEXT
from lrp_axioms.axioms.own_rules.operations import OPERATIONS
from lrp_axioms.axioms.own_rules.rules import (
    Nested,
    Rule,
    RuleError,
    flat,
    for_symbols,
    replaced,
    symbols,
)

TRIED = 10  # points of each kind


def check_one_formula(rule: Rule) -> tuple[str, bool]:
    """A point of an open set where the rule is 0/0 and its formula not, by x / x; and if any is so.

    Raises RuleError for a rule that compares symbols, differs at numbers, or is always 0/0.
    """
    defined, has_gap, is_open = False, False, False
    seen: list[Values] = []  # gaps, not at operands that are 0 by accident
    for count in rule.operation.counts:
        tried = zip(_trials(rule.kind, count), _expected_messages(rule, count), strict=True)
        for (generic, at, arguments), expected in tried:
            found = _at_numbers(rule, arguments, len(expected))
            if not all(map(_agree, found, expected)):
                raise RuleError(
                    f"{rule.place}: {rule.name} returns {found} at {_said(at)}, but its formula "
                    f"for symbols is {expected} there; {NEXT}"
                )
            if any(map(_is_gap, found, expected)):
                has_gap = True
                is_open = is_open or generic
                seen += [at] if generic or all(at.values()) else []
            defined = defined or (generic and not any(v.has(*UNDEFINED) for v in found))
    if not defined:
        raise RuleError(
            f"{rule.place}: {rule.name} returned {found} and is undefined at every point tried; "
            "look for a divisor that is always 0"
        )
    return _said(seen[0]) if is_open else "", has_gap


def _said(at: Values) -> str:
    return ", ".join(f"{x} = {value}" for x, value in at.items())


@cache
def _trials(kind: str, count: int) -> list[tuple[bool, Values, list[Nested]]]:
    """Points: if it is generic, its values, and the arguments of a rule there."""
    given = symbols(kind, count)
    tried = []
    for generic, values in _points(len(flat(given))):
        at = _add_output(kind, given, dict(zip(flat(given), values, strict=True)))
        tried.append((generic, at, replaced(given, at)))
    return tried


@cache
def _expected_messages(rule: Rule, count: int) -> list[list[sp.Expr]]:
    """The messages of a rule for symbols, evaluated at the trial points."""
    _, messages = for_symbols(rule, count)
    points = [at for _, at, _ in _trials(rule.kind, count)]
    return [[_value(message, at) for message in flat(messages)] for at in points]


def _value(message: sp.Expr, at: Values) -> sp.Expr:
    """A message at numbers; nan where it compares 0/0."""
    try:
        return message.xreplace(at)
    except (TypeError, ValueError):
        return sp.nan


def _at_numbers(rule: Rule, arguments: Sequence[Nested], count: int) -> list[sp.Expr]:
    """The messages of the function at numbers; nan where it compares 0/0."""
    try:
        return flat(rule.formula(*arguments))
    except Undecided:
        return [sp.nan] * count


def _add_output(kind: str, given: Sequence[Nested], at: Values) -> Values:
    """The point with the output that its operation computes, and attention weights of sum 1."""
    operation, arguments = OPERATIONS[kind], dict(zip(OPERATIONS[kind].names, given, strict=True))
    if operation.attends:
        sizes = [1 + abs(at[x]) for x in arguments["a"]]
        at = {**at, **{x: v / sum(sizes) for x, v in zip(arguments["a"], sizes, strict=True)}}
    if operation.computed is None:
        return at
    name, operands = operation.output
    value = operation.computed(*(replaced(arguments[x], at) for x in operands))
    return {**at, arguments[name]: value}


def _points(count: int) -> Iterator[tuple[bool, list[sp.Rational]]]:
    """Points: if it is generic, and its values. Small and equal values first, then fractions."""
    chance = random.Random(0)
    small = [[sp.Integer(v)] * (count - 1) for v in (-1, 0, 1, 2)]
    small += [[sp.Integer(chance.randint(-2, 3)) for _ in range(count - 1)] for _ in range(TRIED)]
    for values in small:
        yield False, [*values, sp.Rational(1, 4)]
    parts = [sp.Integer(sp.prime(170 + k)) for k in range(count)]  # no two are alike
    for _ in range(TRIED):
        scale, eps = chance.choice(((10, sp.Rational(1, 10**6)), (10**9, sp.Integer(10**6))))
        sizes = [scale * chance.randint(1, 1008) / p for p in parts[1:]]
        yield True, [*(chance.choice((1, -1)) * s for s in sizes), eps]


def _agree(found: sp.Expr, expected: sp.Expr) -> bool:
    """Whether two numbers are equal, or one is 0/0: x / x is 0/0 at 0, and 1 for symbols."""
    if found == expected or any(value.has(*UNDEFINED) for value in (found, expected)):
        return True
    # Irrational numbers have several forms.
    return not (found.is_Rational and expected.is_Rational) and (found - expected).equals(0) is True


def _is_gap(found: sp.Expr, expected: sp.Expr) -> bool:
    return found.has(*UNDEFINED) and not expected.has(*UNDEFINED)
