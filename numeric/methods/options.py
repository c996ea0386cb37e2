"""Finds a method by its name and checks its options, before a model runs."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral, Real
from typing import Any

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.methods.catalogue import METHODS, WITH_RULES, Method, by_rules
from lrp_axioms.numeric.spelling import NAME, did_you_mean

TELLS = ("each",)  # functions that are told of progress, and change no number


def composite_of(method: str | Composite, share: str | None) -> tuple[str, Composite, str]:
    """Returns the name and the rules of a method by rules, and its default share if none is given.

    Raises ValueError for any other method.
    """
    found = _method(method)
    if found is None or found.composite is None:
        raise ValueError(
            f"method {method!r} has no rules; pass {', '.join(WITH_RULES)}, or a Composite"
            f"{did_you_mean([method], WITH_RULES)}"
        )
    own = found.defaults.get("share", "embedding")
    return found.name, found.composite, own if share is None else share


def resolve(
    method: str | Composite, options: Mapping[str, Any]
) -> tuple[str, Callable[..., Any], dict[str, Any]]:
    """Returns the method's name, its function with all options bound, and options of a record.

    Raises ValueError for an unknown method and TypeError for an unknown option.
    """
    if too_long := _problem("method", method, None):
        raise ValueError(too_long)
    found = _method(method)
    if found is None:
        raise ValueError(
            f"unknown method {method!r}; the methods are {', '.join(METHODS)}, or a Composite"
            f"{did_you_mean([method], METHODS)}"
        )
    defaults = found.options
    unknown = [key for key in options if key not in defaults]
    if unknown:
        known = ", ".join(f"{key}={value!r}" for key, value in defaults.items())
        others = {key: [x.name for x in METHODS.values() if key in x.options] for key in unknown}
        of = "".join(f"; {key} is of {', '.join(names)}" for key, names in others.items() if names)
        raise TypeError(
            f"method {found.name!r} has no option {', '.join(map(repr, unknown))}; it has "
            f"{known}{of}{did_you_mean(unknown, defaults)}"
        )
    used = {**defaults, **{key: builtin(value) for key, value in options.items()}}
    said = [_problem(key, used[key], defaults[key]) for key in options]
    if problems := [x for x in said if x]:
        raise ValueError("\n".join(problems))
    kept = {key: value for key, value in used.items() if key not in TELLS}
    return found.name, partial(found.run, **used), kept


def _problem(name: str, value: Any, default: Any) -> str | None:
    """Describes an option's fault: a switch that is no bool, or a value that is too large."""
    if type(default) is bool and type(value) is not bool:
        return f"{name}={value!r}: pass True or False"
    if type(value) is int and abs(value) > sys.maxsize:
        return f"{name}={value!r}: pass a number of at most 64 bits"
    if isinstance(value, str) and len(value) > NAME:
        return f"{name} has {len(value)} letters; pass at most {NAME}"
    return None


def builtin(value: Any) -> Any:
    """Converts numbers of other types, such as Fraction or NumPy's, which tensors do not take."""
    if isinstance(value, Integral):
        return value if isinstance(value, int) else int(value)
    return float(value) if isinstance(value, Real) else value


def _method(method: str | Composite) -> Method | None:
    if isinstance(method, Composite):
        return by_rules(method)
    return METHODS.get(method) if isinstance(method, str) else None
