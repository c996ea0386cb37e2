"""Refuses comparisons of symbols by a user's rule, which hide another formula from a proof."""

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import sympy as sp
from sympy.assumptions.assume import AppliedPredicate, Predicate
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean
from sympy.matrices.repmatrix import RepMatrix

AXIOMS = Path(__file__).parents[1]
OURS = tuple(f"{place}{os.sep}" for place in (Path(sp.__file__).parent, AXIOMS))
"""Folders whose code may compare symbols; names of modules would prove nothing."""
ASKED = {  # methods that compare, and words for the comparison
    "__eq__": "{} == {}",
    "__ne__": "{} != {}",
    "__round__": "{} rounded",
    "__hash__": "{} as a key",
    **dict.fromkeys(("__float__", "__int__", "__complex__"), "{} as a number"),
    **dict.fromkeys(("__str__", "__repr__", "__format__"), "{} as text"),
}
COMPARED = (sp.Expr, Relational, sp.Number, sp.Rational, sp.Integer, sp.Float, sp.NumberSymbol)
"""Classes with comparisons of their own: 77 == x calls the number."""
HOLDERS = (sp.Tuple, sp.Dict, sp.Set, RepMatrix)
"""Classes whose own comparisons reach the numbers and symbols in them."""
HELD = {"__eq__": "{} == {}", "__ne__": "{} != {}", "__contains__": "{} contains {}"}
FROZEN = "<frozen abc>"  # isinstance of an abstract class asks there
CREATE = AppliedPredicate.__new__
NEXT = (
    "a rule must be one formula: branch by sign(x), abs, sympy.Max or sympy.Piecewise, and store "
    "nothing between calls"
)


@contextlib.contextmanager
def comparisons_refused() -> Iterator[list[str]]:
    """Refuses comparisons of symbols by other code than SymPy and this package.

    Yields a list of all that were refused, since the code may catch the error.
    """
    refused_here: list[str] = []

    def check(asking: FrameType, one: object, text: str, *other: object) -> None:
        while asking.f_back and asking.f_code.co_filename == FROZEN:
            asking = asking.f_back
        if asking.f_code.co_filename.startswith(OURS):
            return
        if any(getattr(x, "free_symbols", None) for x in (one, *other)):
            asked_for = text.format(one, *other)
            refused_here.append(f"cannot determine truth value of {asked_for}")  # SymPy's words
            raise TypeError(refused_here[-1])

    def refused(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def asked(one: sp.Expr, *other: object) -> Any:
            check(sys._getframe(1), one, (ASKED | HELD).get(name, "{}"), *other)
            return method(one, *other)

        return asked

    def claimed(of: type, predicate: Predicate, *given: object) -> Any:  # for sympy.ask
        frame = sys._getframe(1)
        called = frame.f_code is Predicate.__call__.__code__ and frame.f_back
        check(called or frame, given[0], f"{predicate} of {{}}")
        return CREATE(of, predicate, *given)

    def looked_up(one: sp.Expr, name: str) -> Any:
        # x.is_zero is None for a symbol, x.name another, and isinstance reads x.__class__
        if not name.startswith("__") or name == "__class__":
            check(sys._getframe(1), one, f"({{}}).{name}")
        return object.__getattribute__(one, name)

    def looked_up_in(one: RepMatrix, name: str) -> Any:
        if name.startswith("is_"):  # such as is_zero_matrix
            check(sys._getframe(1), one, f"({{}}).{name}")
        return object.__getattribute__(one, name)

    with contextlib.ExitStack() as stack:
        for of, name in (*itertools.product(COMPARED, ASKED), *itertools.product(HOLDERS, HELD)):
            if method := getattr(of, name, None):  # a relation is no float
                stack.enter_context(mock.patch.object(of, name, refused(name, method)))
        stack.enter_context(mock.patch.object(RepMatrix, "__getattribute__", looked_up_in))
        for of in (sp.Expr, Boolean, Relational):
            method = vars(of).get("__bool__", lambda one: True)
            truth = refused("__bool__", method)
            stack.enter_context(mock.patch.object(of, "__bool__", truth, create=True))
        for of in (sp.Expr, Boolean):
            stack.enter_context(mock.patch.object(of, "__getattribute__", looked_up))
        stack.enter_context(mock.patch.object(AppliedPredicate, "__new__", claimed))
        yield refused_here
