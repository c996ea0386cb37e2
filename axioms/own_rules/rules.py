"""Marks a function of a few lines as a propagation rule of one's own.

    from lrp_axioms.axioms.own_rules import rule, sign

    @rule("product")
    def halves(x, y, z, R, eps):
        share = R / (2 * z + eps * sign(z))
        return x * y * share, x * y * share

A rule states the messages from one output of relevance R to its operands, in exact arithmetic.
The project adds up the messages from several outputs.
"""

import inspect
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import TypeAlias

import sympy as sp
from sympy.concrete.expr_with_limits import ExprWithLimits
from sympy.logic.boolalg import BooleanAtom, BooleanFunction

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.decide.equality import Undecided
from lrp_axioms.axioms.decide.reals import EPS
from lrp_axioms.axioms.decide.signs import CASES, Sign, resolved
from lrp_axioms.axioms.own_rules.comparisons import NEXT, comparisons_refused
from lrp_axioms.axioms.own_rules.operations import MATRIX_PRODUCTS, OPERATIONS, Operation
from lrp_axioms.axioms.scoreboard.witness import NEAR_0

Nested: TypeAlias = "sp.Expr | list[Nested]"  # a number, or a list with an entry per input
Shape: TypeAlias = int | tuple[int | None, ...] | None
"""The number of messages, the numbers in several groups, or None for one message, no list."""

NO_ORDER = "is not comparable.", "Invalid NaN comparison", "of non-real zoo"
"""SymPy's words on numbers that are too close to compare, on 0/0, and on a pole."""
ALLOWED = "+ - * / and powers, sign, abs and SymPy's Max, Min and Piecewise"


class RuleError(ValueError):
    """A rule that cannot be judged; the message names file, line and next step."""


@dataclass(frozen=True, eq=False)
class Rule:
    """One propagation rule, called with the operands and relevance of one output."""

    kind: str
    function: FunctionType
    place: str  # file:line of its definition

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.function.__name__

    @property
    def operation(self) -> Operation:
        """Its arguments and messages."""
        return OPERATIONS[self.kind]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of operations that the rule explains; "bilinear" is every matrix product."""
        return MATRIX_PRODUCTS if self.kind == kinds.BILINEAR else (self.kind,)

    def __call__(self, *arguments: Nested) -> Nested:
        """The messages: at numbers from the function, for symbols from its formula."""
        if set().union(*(a.free_symbols for a in flat(arguments))) <= {NEAR_0}:
            return changed(self.formula(*arguments), resolved)
        given, messages = for_symbols(self, count_of(arguments[0]))
        return replaced(messages, dict(zip(flat(given), flat(arguments), strict=True)))

    def divisors(self, *arguments: Nested) -> list[sp.Expr]:
        """The divisors of the formula at these operands; one of a case is 1 in other cases."""
        given, messages = for_symbols(self, count_of(arguments[0]))
        at = dict(zip(flat(given), flat(arguments), strict=True))
        found = (x for message in flat(messages) for x in _divisors(message, sp.true))
        return [x.xreplace(at) for x in dict.fromkeys(found)]

    def formula(self, *arguments: Nested) -> Nested:
        """The messages that the function returns; RuleError names a wrong message."""
        known = set().union(*(a.free_symbols for a in flat(arguments)))
        try:
            found = self.function(*(list(a) if isinstance(a, list) else a for a in arguments))
        except (KeyboardInterrupt, RuleError):
            raise
        except BaseException as error:  # any error in a user's code, and sys.exit, names its line
            if known <= {NEAR_0} and str(error).endswith(NO_ORDER):
                raise Undecided(str(error)) from error
            file = self.function.__code__.co_filename
            raise raised(error, file, by=f"{self.name} raised ") from error
        try:
            return _nest(found, _shape(self.operation, count_of(arguments[0])), known)
        except _Malformed as error:
            raise RuleError(f"{self.place}: {self.name} {error}") from None


def _divisors(value: sp.Basic, case: sp.Basic) -> Iterator[sp.Expr]:
    """The divisors in an expression that counts in a case."""
    if isinstance(value, sp.Piecewise):
        for part, condition in value.args:
            yield from _divisors(condition, case)
            yield from _divisors(part, sp.And(case, condition))
            case = sp.And(case, sp.Not(condition))
        return
    if isinstance(value, sp.Pow) and value.exp.is_negative:
        yield sp.Piecewise((value.base, case), (sp.Integer(1), True))
    for part in value.args:
        yield from _divisors(part, case)


def raised(
    error: BaseException, file: str, by: str = "", otherwise: str = "mend the line"
) -> RuleError:
    """An error in a user's code, at the last line of the user's file that ran."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    place = f"{file}:{lines[-1]}" if lines else file
    return RuleError(f"{place}: {by}{type(error).__name__}: {error}; {next_step(error, otherwise)}")


@cache
def for_symbols(rule: Rule, count: int | None) -> tuple[list[Nested], Nested]:
    """Symbols for the arguments of a rule, lists of ``count``, and its messages for them.

    A rule is called once: verdicts do not depend on names of symbols, or on earlier calls.
    """
    given = symbols(rule.kind, count)
    with comparisons_refused() as refused:
        found = rule.formula(*given)
    if refused:  # and the rule itself has caught the error
        raise RuleError(f"{rule.place}: {rule.name}: {refused[0]}; {NEXT}")
    return given, found


@cache
def symbols(kind: str, count: int | None) -> list[Nested]:
    """The arguments of every rule of a kind as different symbols, lists of ``count``."""
    listed, (*operands, _) = OPERATIONS[kind].lists, OPERATIONS[kind].names
    each = [
        list(sp.symbols(f"{x}:{count}", real=True)) if x in listed else sp.Symbol(x, real=True)
        for x in operands
    ]
    return [*each, EPS]


def next_step(error: BaseException, otherwise: str) -> str:
    """How to mend an error in a user's code."""
    if isinstance(error, NameError):
        homes = {"lrp_axioms": ("rule", "sign"), "sympy": sp.__all__}
        for home, names in homes.items():
            if error.name in names:
                return f"write `from {home} import {error.name}` at the top of the file"
        return "rule and sign are in lrp_axioms; Rational, Max and other names in sympy"
    if isinstance(error, TypeError) and str(error).endswith(" as text"):
        return "the operands are symbols, so do not print or format them"
    if isinstance(error, TypeError) and re.search("to float|ufunc| as a number$", str(error)):
        return f"the operands are symbols, and math and NumPy take floats; use {ALLOWED}"
    if isinstance(error, TypeError) and "cannot determine truth value" in str(error):
        return (
            "the operands are symbols, so branch by sign(x) instead of `if`, or by abs, "
            "sympy.Max or sympy.Piecewise"
        )
    return otherwise


def rule(kind: str) -> Callable[[FunctionType], Rule]:
    """Marks a function as the propagation rule of one ``kind`` of operation, a key of OPERATIONS.

    Raises RuleError for an unknown kind, and for a function with other arguments.
    """

    def mark(function: FunctionType) -> Rule:
        code = function.__code__
        place = f"{code.co_filename}:{code.co_firstlineno}"
        if kind not in OPERATIONS:
            known = "".join(f'\n  @rule("{k}")  ({x.arguments})' for k, x in OPERATIONS.items())
            raise RuleError(f"{place}: there is no kind {kind!r}; the kinds are{known}")
        if not _takes(function, OPERATIONS[kind].names):
            raise RuleError(
                f"{place}: {function.__name__}{inspect.signature(function)} is no rule for "
                f"{kind!r}; write def {function.__name__}({OPERATIONS[kind].arguments})"
            )
        return Rule(kind, function, place)

    return mark


def _takes(function: FunctionType, arguments: list[str]) -> bool:
    """Whether a function takes these arguments, under any names that do not exchange them."""
    try:
        bound = inspect.signature(function).bind(*arguments).arguments
    except TypeError:
        return False
    return all(name == given for name, given in bound.items() if name in arguments)


class _Malformed(Exception):
    """A fault of the value that a rule returned."""


def _shape(operation: Operation, count: int | None) -> Shape:
    """The shape of messages: a number of expressions, a tuple of such numbers, or None."""
    each = count if operation.to[0] in operation.lists else None
    groups = len(operation.to)
    if groups == 1:
        return each
    return groups if each is None else (each,) * groups


def flat(found: object) -> list[sp.Expr]:
    """The entries of nested lists and tuples."""
    if isinstance(found, sp.MatrixBase | list | tuple):
        return [entry for part in found for entry in flat(part)]
    return [found]


def count_of(operands: Nested) -> int | None:
    """How many operands a list holds; None for one that is no list."""
    return len(operands) if isinstance(operands, list) else None


def _nest(found: object, shape: Shape, known: set[sp.Symbol]) -> Nested:
    if shape is None:
        return _expression(found, known)
    if isinstance(found, sp.MatrixBase):
        found = list(found)
    elif hasattr(found, "tolist"):  # an array
        found = found.tolist()
    inner = shape if isinstance(shape, tuple) else (None,) * shape
    if not isinstance(found, (tuple, list)):
        raise _Malformed(f"returned {found!r}; return a list or tuple of {_shape_text(shape)}")
    if len(found) != len(inner):
        raise _Malformed(f"returned {_shape_text(len(found))}; return {_shape_text(shape)}")
    return [_nest(part, part_shape, known) for part, part_shape in zip(found, inner, strict=True)]


def _shape_text(shape: Shape) -> str:
    if isinstance(shape, tuple):
        return f"{len(shape)} groups of messages, one per factor"
    return f"{shape} message{'s' * (shape != 1)}"


def _expression(found: object, known: set[sp.Symbol]) -> sp.Expr:
    try:
        value = None if isinstance(found, (tuple, list, str)) else sp.sympify(found)
    except (sp.SympifyError, TypeError):
        value = None
    if not isinstance(value, sp.Expr) or isinstance(value, sp.MatrixBase | sp.MatrixExpr):
        raise _Malformed(f"returned {found!r} as a message; return an expression or a number")
    if foreign := value.free_symbols - known:
        names = ", ".join(sorted(map(str, foreign)))
        raise _Malformed(
            f"returned {found}, which holds {names}, no argument of the rule; put a number for it"
        )
    others = (x for x in sp.preorder_traversal(value) if not _is_real_of_reals(x))
    if any(getattr(x, "is_complex", False) and x.is_real is False for x in others):
        raise _Malformed(f"returned {found}, a complex number; relevance is real")
    if value.has(sp.Float):
        raise _Malformed(f"returned {found}, which holds a float; write Rational(1, 2) for 0.5")
    if value.has(sp.sign):
        raise _Malformed(
            f"returned {found}; sympy.sign(0) is 0, so write `from lrp_axioms import sign`, "
            "which is 1 there, or sympy.Piecewise"
        )
    if not all(map(_is_decidable, sp.preorder_traversal(value))):
        raise _Malformed(f"returned {found}, which is no rational function; use {ALLOWED}")
    return value


def _is_real_of_reals(part: sp.Basic) -> bool:
    """Whether a part is real if its parts are; digits of 0/0 in exponentials take seconds."""
    known = part.is_Add or part.is_Mul or part.is_Rational or part.func is sp.exp
    return bool(known or (part.is_Pow and part.exp.is_Integer))


def _is_decidable(part: sp.Basic) -> bool:
    """Whether a part of a formula has a meaning for the solver."""
    if isinstance(part, sp.Expr) and part.free_symbols:
        made = part.is_Add or part.is_Mul or part.is_Symbol or isinstance(part, (Sign, *CASES))
        return bool(made or (part.is_Pow and part.exp.is_Integer))
    known = sp.Expr | sp.Rel | sp.Tuple | BooleanFunction | BooleanAtom  # numbers and cases
    return isinstance(part, known) and not isinstance(part, ExprWithLimits)


def changed(found: Nested, change: Callable[[sp.Expr], sp.Expr]) -> Nested:
    """Nested lists with every entry changed."""
    if isinstance(found, list):
        return [changed(part, change) for part in found]
    return change(found)


def replaced(found: Nested, values: Mapping[sp.Symbol, sp.Expr]) -> Nested:
    """Nested lists of expressions with ``values`` in place of symbols."""
    return changed(found, lambda part: part.xreplace(values))
