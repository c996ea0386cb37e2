"""A propagation rule of one's own, in a few lines of Python, and what holds for it.

    from axioms.own_rules import rule, sign

    @rule("product")
    def halves(x, y, z, R, eps):
        share = R / (2 * z + eps * sign(z))
        return x * y * share, x * y * share

`lrp-axioms prove FILE` decides for every rule of a file whether it conserves relevance, what
absorbs the rest, and which rewrites of the function change what it says.  A rule states the
messages from one output, R, to its operands, in exact arithmetic; sums over outputs are ours.
The file is executed, with the rights of whoever runs the command.
"""

import importlib.util
import inspect
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType
from typing import Any, Protocol, TypeAlias

import sympy as sp

from axioms import kinds
from axioms.algebra.decide import is_rational_function
from axioms.invariance.witness import NEAR_0
from axioms.own_rules.signs import UNDEFINED, Sign, written

Nested: TypeAlias = "sp.Expr | list[Nested]"  # a number, or a list with an entry per input
Shape: TypeAlias = int | tuple[int | None, ...] | None
"""How many messages, how many in each of several groups, or None for one that is no list."""

# kind -> arguments of a rule, and how many messages it returns
ARGUMENTS = {
    kinds.PRODUCT: "x, y, z, R, eps",  # z = x y                    -> to x, to y
    kinds.ADD: "x, y, z, R, eps",  # z = x + y                      -> to x, to y
    kinds.LINEAR: "x, w, b, z, R, eps",  # z = sum x_i w_i + b      -> to every x_i
    kinds.BILINEAR: "a, v, o, R, eps",  # o = sum a_i v_i           -> to all a_i, to all v_i
    kinds.SCORES: "q, k, z, R, eps",  # the same, in z = Q K' alone
    kinds.READOUT: "a, v, o, R, eps",  # the same, in O = A V alone
    kinds.SOFTMAX: "z, a, R, eps",  # a = softmax(z), R per entry   -> to every z_i
    kinds.ACTIVATION: "x, y, slope, R, eps",  # y = f(x), slope f'  -> to x
}

LISTS = {  # kind -> arguments that are lists, one entry per input
    kinds.LINEAR: "xw",
    kinds.BILINEAR: "av",
    kinds.SCORES: "qk",
    kinds.READOUT: "av",
    kinds.SOFTMAX: "zaR",
}
EPS = sp.Symbol("epsilon", positive=True)  # of proofs
MATRIX_PRODUCTS = (kinds.BILINEAR, kinds.SCORES, kinds.READOUT)


class Function(Protocol):
    """A function that a user wrote."""

    __name__: str
    __code__: CodeType

    def __call__(self, *arguments: Any, **options: Any) -> object: ...


class RuleError(ValueError):
    """A rule that cannot be judged: the message names its file and line, and the next step."""


@dataclass(frozen=True, eq=False)
class Rule:
    """One propagation rule, called with the operands and relevance of one output."""

    kind: str
    function: Function
    place: str  # file:line of its definition

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.function.__name__

    @property
    def operations(self) -> tuple[str, ...]:
        """The kinds of operations that it is for; "bilinear" stands for every matrix product."""
        return MATRIX_PRODUCTS if self.kind == kinds.BILINEAR else (self.kind,)

    def __call__(self, *arguments: Nested) -> Nested:
        """Its messages as rational expressions, of symbols by its formula; errors as formula()."""
        if set().union(*(a.free_symbols for a in flat(arguments))) <= {NEAR_0}:
            return self._checked(_rational, self.formula(*arguments))
        given, messages = for_symbols(self, _count(arguments[0]))
        at = dict(zip(flat(given), flat(arguments), strict=True))
        return self._checked(_rational, replaced(messages, at))

    def formula(self, *arguments: Nested) -> Nested:
        """Its messages as it returns them; RuleError says what is wrong with them."""
        known = set().union(*(a.free_symbols for a in flat(arguments)))
        try:
            found = self.function(*(list(a) if isinstance(a, list) else a for a in arguments))
        except (KeyboardInterrupt, RuleError):
            raise
        except BaseException as error:  # any error in a user's code, and sys.exit, names its line
            raise self._raised(error) from error
        return self._checked(_nested, found, _shape(self.kind, arguments), known)

    def _checked(self, check: Callable[..., Nested], *found: object) -> Nested:
        try:
            return check(*found)
        except _Malformed as error:
            raise RuleError(f"{self.place}: {self.name} {error}") from None

    def _raised(self, error: BaseException) -> RuleError:
        frames = traceback.extract_tb(error.__traceback__)
        file = self.function.__code__.co_filename
        line = next((f.lineno for f in reversed(frames) if f.filename == file), "?")
        return RuleError(
            f"{file}:{line}: {self.name} raised {type(error).__name__}: {error}; "
            f"{_next_step(error)}"
        )


@cache
def for_symbols(rule: Rule, count: int | None) -> tuple[list[Nested], Nested]:
    """Symbols for the arguments of a rule, lists of ``count``, and its messages for them.

    A rule is asked once: no verdict rests on the names of symbols or on what it keeps in mind.
    """
    given = symbols(rule.kind, count)
    return given, rule.formula(*given)


@cache
def symbols(kind: str, count: int | None) -> list[Nested]:
    """The arguments of every rule of a kind as different symbols, lists of ``count``."""
    listed, (*operands, _) = LISTS.get(kind, ""), ARGUMENTS[kind].split(", ")
    each = [
        list(sp.symbols(f"{x}:{count}", real=True)) if x in listed else sp.Symbol(x, real=True)
        for x in operands
    ]
    return [*each, EPS]


def _next_step(error: BaseException, otherwise: str = "mend the line") -> str:
    if isinstance(error, NameError):
        homes = {"axioms.own_rules": ("rule", "sign"), "sympy": sp.__all__}
        for home, names in homes.items():
            if error.name in names:
                return f"write `from {home} import {error.name}` at the top of the file"
        return "rule and sign are in axioms.own_rules; Rational, Max and other names in sympy"
    if isinstance(error, TypeError) and str(error).endswith(" as text"):
        return "the operands are symbols, so do not print or format them"
    if isinstance(error, TypeError) and re.search("to float|ufunc", str(error)):
        return (
            "the operands are symbols, and functions of math and NumPy take floats; use + - * / "
            "and powers, sign, abs and sympy.Max"
        )
    if isinstance(error, TypeError) and "cannot determine truth value" in str(error):
        return (
            "the operands are symbols, so branch by sign(x) instead of `if`, and by abs or "
            "sympy.Max"
        )
    return otherwise


def rule(kind: str) -> Callable[[Function], Rule]:
    """Marks a function as the propagation rule of one ``kind`` of operation, a key of ARGUMENTS.

    Raises RuleError for an unknown kind, and for a function with other arguments.
    """

    def mark(function: Function) -> Rule:
        code = function.__code__
        place = f"{code.co_filename}:{code.co_firstlineno}"
        if kind not in ARGUMENTS:
            known = "".join(f'\n  @rule("{k}")  ({found})' for k, found in ARGUMENTS.items())
            raise RuleError(f"{place}: there is no kind {kind!r}; the kinds are{known}")
        if not _takes(function, ARGUMENTS[kind].split(", ")):
            raise RuleError(
                f"{place}: {function.__name__}{inspect.signature(function)} is no rule for "
                f"{kind!r}; write def {function.__name__}({ARGUMENTS[kind]})"
            )
        return Rule(kind, function, place)

    return mark


def _takes(function: Function, arguments: list[str]) -> bool:
    """Whether it can be called with these; it may name them otherwise, but not exchange names."""
    try:
        bound = inspect.signature(function).bind(*arguments).arguments
    except TypeError:
        return False
    return all(name == given for name, given in bound.items() if name in arguments)


class _Malformed(Exception):
    """What is wrong with the value that a rule returned."""


def _shape(kind: str, arguments: Sequence[Nested]) -> Shape:
    """How the messages must be nested: a number of expressions, or a tuple of such numbers."""
    operands = arguments[0]
    return {
        kinds.PRODUCT: 2,
        kinds.ADD: 2,
        kinds.ACTIVATION: None,
        **dict.fromkeys(MATRIX_PRODUCTS, (_count(operands), _count(operands))),
    }.get(kind, _count(operands))


def flat(found: object) -> list[sp.Expr]:
    """The entries of nested lists and tuples."""
    if isinstance(found, sp.MatrixBase | list | tuple):
        return [entry for part in found for entry in flat(part)]
    return [found]


def _count(operands: Nested) -> int | None:
    return len(operands) if isinstance(operands, list) else None


def _nested(found: object, shape: Shape, known: set[sp.Symbol]) -> Nested:
    if shape is None:
        return _expression(found, known)
    if isinstance(found, sp.MatrixBase):
        found = list(found)
    elif hasattr(found, "tolist"):  # an array
        found = found.tolist()
    count = len(shape) if isinstance(shape, tuple) else shape
    if not isinstance(found, (tuple, list)):
        raise _Malformed(f"returned {found!r}; return a list or tuple of {_asked(shape)}")
    if len(found) != count:
        raise _Malformed(f"returned {_messages(len(found))}; return {_asked(shape)}")
    inner = shape if isinstance(shape, tuple) else [None] * count
    return [_nested(part, part_shape, known) for part, part_shape in zip(found, inner, strict=True)]


def _messages(count: int) -> str:
    return f"{count} message{'s' * (count != 1)}"


def _asked(shape: Shape) -> str:
    if isinstance(shape, tuple):
        return f"{len(shape)} groups of messages, one per factor"
    return _messages(shape or 0)


def _expression(found: object, known: set[sp.Symbol]) -> sp.Expr:
    if isinstance(found, (tuple, list, str)) or found is None:
        raise _Malformed(f"returned {found!r} as a message; return an expression or a number")
    try:
        value = sp.sympify(found)
    except (sp.SympifyError, TypeError):
        value = None
    if not isinstance(value, sp.Expr):
        raise _Malformed(f"returned {found!r} as a message; return an expression or a number")
    if foreign := value.free_symbols - known:
        names = ", ".join(sorted(map(str, foreign)))
        raise _Malformed(
            f"returned {found}, which holds {names}, no argument of the rule; put a number for it"
        )
    others = (x for x in sp.preorder_traversal(value) if not _is_real_of_reals(x))
    if any(x.is_complex and x.is_real is False for x in others):
        raise _Malformed(f"returned {found}, a complex number; relevance is real")
    if value.has(sp.Float):
        raise _Malformed(f"returned {found}, which holds a float; write Rational(1, 2) for 0.5")
    return value.replace(sp.sign, Sign) if value.has(sp.sign) else value


def _is_real_of_reals(part: sp.Expr) -> bool:
    """What asks for no digits: those of 0/0 in exponentials take seconds."""
    power = part.is_Pow and part.exp.is_Integer
    return power or part.is_Add or part.is_Mul or part.is_Rational or part.func is sp.exp


def replaced(found: Nested, values: Mapping[sp.Symbol, sp.Expr]) -> Nested:
    """Nested lists of expressions with ``values`` in place of symbols."""
    if isinstance(found, list):
        return [replaced(part, values) for part in found]
    return found.xreplace(values)


def _rational(found: Nested) -> Nested:
    """Messages with a symbol for every sign, by which sizes and maxima are written too."""
    if isinstance(found, list):
        return [_rational(part) for part in found]
    value = written(found)
    # numbers may be irrational, as the value of an exponential is; 0/0 is decided by the caller
    if not is_rational_function(_numbers_named(value)) and not value.has(*UNDEFINED):
        raise _Malformed(
            f"returned {found}, which is no rational function; use + - * / and powers, sign, abs"
        )
    return value


def _numbers_named(value: sp.Expr) -> sp.Expr:
    """With a symbol for every irrational number: they are operands like others."""
    if not value.free_symbols:
        return value if value.is_Rational else sp.Dummy()
    rational = value.is_Add or value.is_Mul or value.is_Pow
    return value.func(*map(_numbers_named, value.args)) if rational else value


def load(path: str | Path) -> list[Rule]:
    """The rules of a Python file, in their order; the file is run.

    Raises RuleError with the line if the file cannot be run, and if it holds no rule.
    """
    path = Path(path)
    if not path.is_file():
        raise RuleError(f"{path}: there is no such file; pass a Python file that holds rules")
    spec = ModuleSpec(path.stem, loader=None, origin=str(path))
    module = importlib.util.module_from_spec(spec)
    try:
        code = compile(path.read_bytes(), str(path), "exec")
        exec(code, vars(module))
    except RuleError:
        raise
    except SyntaxError as error:
        raise RuleError(f"{path}:{error.lineno}: {error.msg}; mend the line") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit among them
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        place = f"{path}:{lines[-1]}" if lines else path
        raise RuleError(
            f"{place}: {type(error).__name__}: {error}; "
            f"{_next_step(error, otherwise='the file must run by itself')}"
        ) from error
    rules = [value for value in vars(module).values() if isinstance(value, Rule)]
    if not rules:
        raise RuleError(
            f'{path}: holds no rule; put @rule("product") above a function '
            f"({ARGUMENTS[kinds.PRODUCT]}), with `from axioms.own_rules import rule`"
        )
    return rules
