"""Functions of torch that are made of others, whose own calls are looked up."""

from collections.abc import Callable
from functools import cache
from types import FunctionType

from numeric.fast import norms


def _glu(x, dim=-1):
    a, b = x.chunk(2, dim)
    return a * b.sigmoid()


SPELLED: dict[str, Callable] = {
    "rms_norm": norms.spelled_rms_norm,
    "normalize": norms.spelled_normalize,
    "group_norm": norms.spelled_group_norm,
    "glu": _glu,
}
ASKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def inside(engine, name, func, args, kwargs, carrying):
    with engine.again():
        return SPELLED.get(name, _entered(func))(*args, **kwargs)


@cache
def _entered(func):
    """``func`` of torch without its question who overrides it, which would lead back here."""
    answers = dict.fromkeys(ASKS, lambda *_: False)
    entered = FunctionType(
        func.__code__, {**func.__globals__, **answers}, func.__name__, func.__defaults__
    )
    entered.__kwdefaults__ = func.__kwdefaults__
    return entered
