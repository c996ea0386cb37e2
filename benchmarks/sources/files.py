"""Records of a file, one per line or row: every value as it is written, or one error with its line.

CSV follows RFC 4180.  TSV has no quotes, as GLUE writes it: no field holds a tab or a line break.
"""

import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

SHOWN = 10  # offenders that an error lists
DECODER = json.JSONDecoder(object_pairs_hook=tuple)  # which keeps both of two equal names
BLANK = ([], [""])  # a line of a table without anything


def records(
    path: Path, columns: Sequence[str], fault: Callable[..., str | None], *, advice: str
) -> list[tuple]:
    """The values of ``columns`` of every record; those of JSON and Parquet keep their types.

    ``fault`` of these values is what is wrong with them, or None; ``advice`` is the next step.
    Raises ValueError, which names the file and the lines of all records that cannot be used.
    """
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix not in READERS:
        raise ValueError(
            f"{path}: files {path.suffix or 'without a suffix'!r} are not read; pass one of "
            f"{', '.join(READERS)}"
        )
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe may be silent for ever
        raise ValueError(f"{path} is no regular file; write its lines to one, and pass that")
    found, faults = [], {}
    try:
        for line, values in READERS[suffix](path, columns):
            wrong = values if isinstance(values, str) else fault(*values)
            if wrong:
                faults.setdefault(wrong, []).append(line)
            else:
                found.append(tuple(values))
    except ColumnError as error:
        raise ValueError(f"{path} has {error}; {advice}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is truncated or broken ({error}); get it again") from error
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}; pass another file") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if faults:
        unit = "row" if suffix == ".parquet" else "line"
        said = [f"{what} in {unit}{'s'[: len(n) > 1]} {some(n)}" for what, n in faults.items()]
        raise ValueError(f"{path}: {some(said, '; ')}; {advice}")
    if not found:
        raise ValueError(f"{path} has no records; pass a file that has some")
    return found


def text_fault(value: object) -> str | None:
    """Why a value cannot be explained as a text."""
    if value is None or value == "":
        return "no text"
    if not isinstance(value, str):
        return f"{'object' if isinstance(value, tuple) else type(value).__name__} in place of text"
    if not value.strip():
        return "no text"
    if "\0" in value:
        return "a NUL character"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "half a character (a lone surrogate)"
    return None


def check_sentence(text: str) -> None:
    """ValueError if what somebody typed cannot be explained as a text."""
    if fault := text_fault(text):
        raise ValueError(f'{fault} in {text!r}: pass a sentence in UTF-8, such as "a fine film"')


def some(values: Sequence, between: str = ", ") -> str:
    """The first few of what an error lists, and how many more there are."""
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return between.join(map(str, values[:SHOWN])) + more


class ColumnError(ValueError):
    """A column that is not there, or more than once."""


def decoded(raw: bytes) -> str:
    """Bytes as UTF-8.  Raises ValueError that names the first line that is none."""
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"line {line} is not UTF-8 (byte 0x{raw[error.start]:02x}); save the file as UTF-8"
        ) from error


def lines(text: str) -> list[str]:
    """Lines end at a newline alone: what else Unicode calls a line break is part of a text."""
    found = text.split("\n")
    if not found[-1]:
        found.pop()
    return [line.removesuffix("\r") for line in found]


def _decoded(path):
    raw = path.read_bytes()
    return decoded(gzip.decompress(raw) if path.suffix.lower() == ".gz" else raw)


def _lines(path):
    yield from enumerate(lines(_decoded(path)), 1)


def _txt(path, columns):
    _places(["text"], columns)  # another one would be ignored
    for line, text in _lines(path):
        yield line, [text]


def _tsv(path, columns):
    return _table(((line, text.split("\t")) for line, text in _lines(path)), columns)


def _csv(path, columns):
    return _table(_quoted(path), columns)


def _quoted(path):
    """A record may have several lines: it is named by its first."""
    limit = csv.field_size_limit(2**31 - 1)  # which belongs to the process
    try:
        rows = csv.reader(io.StringIO(_decoded(path), newline="\n"), strict=True)
        line = 1
        for row in rows:
            yield line, row
            line = rows.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"the record from line {line} on breaks the rules of CSV "
            f"({str(error).partition(' - ')[0]}); put a field with commas, quotes or line breaks "
            "in quotes, and double the quotes in it"
        ) from error
    finally:
        csv.field_size_limit(limit)


def _table(rows: Iterator, columns):
    """Records of rows, the first of which names the columns; blank lines between them are none."""
    _, names = next(rows, (1, []))
    places = _places(names, columns)
    for line, row in rows:
        if len(row) == len(names):
            yield line, [row[place] for place in places]
        elif row not in BLANK:
            yield line, f"not the {len(names)} fields of the header"
        elif len(names) == 1:
            yield line, [""]


def _places(names, columns):
    for column in columns:
        if (count := names.count(column)) > 1:
            raise ColumnError(f"{count} columns {column!r}")
        if not count:
            raise ColumnError(f"no column {column!r}, only {some(names) or 'none'}")
    return [names.index(column) for column in columns]


def _jsonl(path, columns):
    for line, text in _lines(path):
        if text.strip():
            yield line, _json(text, columns)


def _json(text, columns):
    """A record's values, or what is wrong with it; of values of one name, none is the right one."""
    try:
        pairs = DECODER.decode(text)
        if not isinstance(pairs, tuple):
            return "no object"
        return [pairs[place][1] for place in _places([name for name, _ in pairs], columns)]
    except json.JSONDecodeError as error:
        return f"no JSON ({error.msg})"
    except (ValueError, RecursionError) as error:
        return str(error)


def _parquet(path, columns):
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with path.open("rb") as stream:
            file = parquet.ParquetFile(stream)
            _places(file.schema_arrow.names, columns)
            table = file.read(columns=list(columns))
        yield from enumerate(zip(*(table[name].to_pylist() for name in columns), strict=True), 1)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise EOFError(error) from error


READERS = {".txt": _txt, ".csv": _csv, ".tsv": _tsv, ".jsonl": _jsonl, ".parquet": _parquet}
"""By suffix, before that of gzip: path and columns -> lines, with values or what is wrong."""
