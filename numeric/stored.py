"""Explanations as files: one of safetensors each, whose header holds the rest as JSON."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

KINDS = ("attribution", "generation")
VERSION = 1
"""The version of the files that are written."""
Stored = TypeVar("Stored")


def write(
    path: str | Path, what: str, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]
) -> None:
    """Writes ``tensors``, and ``facts`` that JSON can hold, as a file of kind ``what``.

    Raises TypeError for any other fact, before anything is written.
    """

    def refuse(value: object) -> NoReturn:
        raise TypeError(
            f"{path}: {value!r} ({type(value).__name__}) cannot be saved; pass options that are "
            "texts, numbers, lists or tensors"
        )

    about = {"format": _format(what), "facts": json.dumps(facts, default=refuse)}
    own = {name: x.detach().cpu().clone().contiguous() for name, x in tensors.items()}
    Path(path).write_bytes(save(own, about))


def read(
    path: str | Path, what: str, build: Callable[[dict[str, Tensor], dict[str, Any]], Stored]
) -> Stored:
    """``build`` of the tensors and facts that ``write`` put there.

    Raises ValueError for any other file, and for one of which ``build`` finds parts missing.
    """
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            kind = about.get("format", "")
            known = kind == _format(what)
            tensors = {name: file.get_tensor(name) for name in file.keys() if known}  # noqa: SIM118
    except SafetensorError:
        kind, known = "", False
    if not known:
        raise ValueError(f"{path} holds no {what}{_instead(kind, what)}")
    try:
        return build(tensors, json.loads(about["facts"]))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: the {what} in it was changed or is incomplete ({type(error).__name__}: "
            f"{error}); save it again"
        ) from error


def check(fits: bool, said: str) -> None:  # noqa: FBT001 as assert has it
    """Raises ValueError unless what ``build`` read fits together."""
    if not fits:
        raise ValueError(said)


def _instead(kind: str, what: str) -> str:
    """What to do with a file of another kind."""
    if found := re.fullmatch(r"lrp-axioms (\w+) (\d+)", kind):
        if int(found[2]) != VERSION:
            return (
                f" of version {VERSION}, but {found[1]} of version {found[2]}; read it with the "
                "lrp-axioms that wrote it"
            )
        if found[1] in KINDS:
            return f"; call {found[1].capitalize()}.load"
    return f"; pass a file of {what.capitalize()}.save"


def _format(what: str) -> str:
    return f"lrp-axioms {what} {VERSION}"
