"""Explanations as files: one of safetensors each, whose header holds the rest as JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

KINDS = ("attribution", "generation")


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


def read(path: str | Path, what: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and facts that ``write`` put there.  Raises ValueError for any other file."""
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            kind = about.get("format")
            known = kind == _format(what)
            tensors = {name: file.get_tensor(name) for name in file.keys() if known}  # noqa: SIM118
    except SafetensorError:
        kind, known = None, False
    if not known:
        other = [each.capitalize() for each in KINDS if kind == _format(each)]
        mend = f"call {other[0]}.load" if other else f"pass a file of {what.capitalize()}.save"
        raise ValueError(f"{path} holds no {what}; {mend}")
    return tensors, json.loads(about["facts"])


def _format(what: str) -> str:
    return f"lrp-axioms {what} 1"
