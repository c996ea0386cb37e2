"""Reads the files of this program by declared schemas: strictly, as a whole, within bounds."""

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from reprlib import repr as short
from typing import Any, NoReturn, TypeAlias, TypeVar

SIZE, VALUES = 16 * 2**20, 10**6  # limits of a file: bytes, and commas between values
LISTED = 20  # problems that an error lists; it counts the others
DEEP = "it is nested too deeply"
WORDS = {"missing": "is missing", "unexpected_keyword_argument": "is unknown"}
T = TypeVar("T")
Place: TypeAlias = tuple[int | str, ...]


def read(path: Path, schema: type[T], what: str, *, size: int = SIZE) -> T:
    """Returns the content of a JSON or TOML file (by its suffix) as an object of ``schema``.

    ``schema`` is a dataclass, or a list, tuple or dictionary of declared types.  Nothing is
    converted, but an integer may stand for a float and an array for a tuple.  A ValueError of a
    ``__post_init__`` becomes a problem of the file.
    Raises ValueError that says that the file is no ``what`` and lists its problems by field:
    unknown, missing, duplicate or ill-typed fields, numbers that are not finite, more than ``size``
    bytes, nesting too deep to be read, text that is not UTF-8, and a path to no regular file.
    """
    said = f"{path} is no {what}"
    try:
        text = _text(path, size)
        if path.suffix == ".toml":
            text = json.dumps(tomllib.loads(text), default=_refuse)
    except OSError as error:
        raise ValueError(f"{said}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{said}: {error}") from error
    except RecursionError as error:
        raise ValueError(f"{said}: {DEEP}") from error
    return parse(text, schema, said)


def parse(text: str, schema: type[T], said: str, *, finite: bool = True, values: int = VALUES) -> T:
    """Returns JSON ``text`` as ``read`` does; its ValueError begins with ``said``."""
    from pydantic import ValidationError

    problems: list[Any] = []
    try:
        if text.count(",") > values:
            raise ValueError(f"it has more than {values} values")
        content = json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, problems))
        problems += _not_finite(content) if finite else ()
        found: list[T] = _strict(schema).validate_json(f"[{text}]")
    except ValidationError as error:
        problems += error.errors(include_url=False)
    except ValueError as error:
        problems = [str(error)]
    except RecursionError:
        problems = [DEEP]
    if problems:
        more = [f"and {len(problems) - LISTED} more"] if problems[LISTED:] else []
        listed = "\n  ".join([*map(_problem, problems[:LISTED]), *more])
        raise ValueError(f"{said}: {listed}" if len(problems) == 1 else f"{said}:\n  {listed}")
    return found[0]


def _strict(schema: Any) -> Any:
    """Returns a reader of lists of ``schema``: a dataclass alone takes no settings."""
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(list[schema], config=ConfigDict(strict=True, extra="forbid"))


def _text(path: Path, size: int) -> str:
    if not path.exists():
        raise ValueError("the link leads nowhere" if path.is_symlink() else "there is no such file")
    if not path.is_file():
        raise ValueError("it is no regular file")
    with path.open("rb") as file:
        content = file.read(size + 1)
    if len(content) > size:
        raise ValueError(f"it has more than {size} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from error


def _object(pairs: list[tuple[str, Any]], problems: list[Any]) -> dict[str, Any]:
    counts = Counter(key for key, _ in pairs)
    problems += [f"{short(key)} is there {n} times" for key, n in counts.items() if n > 1]
    return dict(pairs)


def _not_finite(content: Any, place: Place = ()) -> Iterator[str]:
    if isinstance(content, float) and not isfinite(content):
        yield f"{_name(place)}: must be a finite number, not {content}"
    elif isinstance(content, dict | list):
        inner = content.items() if isinstance(content, dict) else enumerate(content)
        for key, value in inner:
            yield from _not_finite(value, (*place, key))


def _problem(found: Any) -> str:
    """Words a problem, or an error of pydantic, for the user."""
    if isinstance(found, str):
        return found
    place, kind = found["loc"][1:], found["type"]
    if kind == "value_error":
        said = str(found["ctx"]["error"])
    elif kind in WORDS:
        return f"{_name(place)} {WORDS[kind]}"
    else:
        said = found["msg"].replace("Input should be", "must be")
        said += f", not {short(found['input'])}"
    return f"{_name(place)}: {said}" if place else said


def _name(place: Iterable[int | str]) -> str:
    """Writes a place as an expression, such as ``files[0].tally``."""
    said = ""
    for key in place:
        if isinstance(key, int):
            said += f"[{key}]"
        else:
            name = key if key.replace("-", "_").isidentifier() else short(key)
            said += f".{name}" if said else name
    return said or "it"


def _refuse(value: object) -> NoReturn:
    raise ValueError(f"{value} is a date or a time; no field takes one")
