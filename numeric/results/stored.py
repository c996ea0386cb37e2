"""Stores explanations: one file of safetensors each, whose header holds the rest as JSON."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from lrp_axioms.axioms import schema
from lrp_axioms.axioms.writing import write_named

KINDS = ("attribution", "generation")
VERSION = 1
"""The version of written files."""
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
Stored = TypeVar("Stored")
Facts = TypeVar("Facts")


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Splits options into tensors by name, name/0, name/1, ... for a list of them, and the rest.

    A list may hold whole numbers beside tensors.
    """
    tensors, rest = {}, {}
    for key, x in options.items():
        if isinstance(x, Tensor):
            tensors[key] = x
        elif _is_mixed(x):
            tensors |= {f"{key}/{n}": torch.as_tensor(y) for n, y in enumerate(x)}
        else:
            rest[key] = x
    return tensors, rest


def _is_mixed(x: object) -> bool:
    several = isinstance(x, list | tuple) and any(isinstance(y, Tensor) for y in x)
    return several and all(isinstance(y, Tensor | int) for y in x)  # type: ignore[attr-defined]


def join_options(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Joins the tensors of lists that ``split_options`` numbered."""
    found: dict[str, Any] = {}
    for key, x in sorted(tensors.items(), key=lambda named: (len(named[0]), named[0])):
        name, is_listed, _ = key.partition("/")
        if is_listed:
            found.setdefault(name, []).append(x if x.ndim else x.item())
        else:
            found[name] = x
    return found


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
    about["sha256"] = _digest(about["facts"], own)
    write_named(Path(path), save(own, about))


def read(
    path: str | Path,
    what: str,
    facts: type[Facts],
    build: Callable[[dict[str, Tensor], Facts], Stored],
) -> Stored:
    """Reads the tensors and facts of a file of ``write``, and returns ``build`` of both.

    Raises ValueError for any other file, for a digest that does not match, and for facts or tensors
    that do not fit together.  Files of earlier releases have no digest.
    """
    if Path(path).exists() and not Path(path).is_file():
        raise ValueError(f"{path} is no regular file{_instead('', what)}")
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
    values = schema.VALUES + sum(x.numel() for x in tensors.values())
    try:
        if about.get("sha256") not in (None, _digest(about.get("facts", ""), tensors)):
            raise ValueError("its SHA-256 is not the one that was written")
        found = schema.parse(about.get("facts", ""), facts, "facts", finite=False, values=values)
        return build(tensors, found)
    except ValueError as error:
        raise ValueError(
            f"{path}: its {what} was changed or is incomplete ({error}); save it again"
        ) from error


def _digest(facts: str, tensors: Mapping[str, Tensor]) -> str:
    """Returns the SHA-256 of facts, and of the names, types, shapes and bytes of tensors."""
    found = hashlib.sha256(facts.encode("utf-8", "surrogatepass"))
    for name, x in sorted(tensors.items()):
        found.update(f"{name!r} {x.dtype} {tuple(x.shape)}".encode())
        found.update(x.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def check(
    tensors: Mapping[str, Tensor], floats: Mapping[str, tuple[int, ...]], others: Iterable[str] = ()
) -> None:
    """Raises ValueError unless the tensors are ``others``, and ``floats`` of these shapes.

    No tensor of ``floats`` may be empty, and relevance and its sum must be finite.
    """
    if names := sorted(tensors.keys() ^ {*floats, *others}):
        raise ValueError(f"tensors {', '.join(map(repr, names))} are missing or unknown")
    wrong = [
        f"{name} is {x.dtype} of shape {tuple(x.shape)}, and must be floats of {shape}"
        for name, shape in floats.items()
        if (x := tensors[name]).dtype not in FLOATS or x.shape != shape or not x.numel()
    ]
    if wrong or not tensors["relevance"].abs().sum().isfinite():
        raise ValueError("; ".join(wrong) or "relevance or its sum is not finite")


def _instead(kind: str, what: str) -> str:
    """Returns the next step for a file of another kind."""
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
