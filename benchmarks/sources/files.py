"""Records of a file, one per line or row: every value as it is written, or one error with its line.

CSV follows RFC 4180.  TSV has no quotes, as GLUE writes it: no field holds a tab or a line break.
A file is read as its records are asked for, so that its size does not matter; it is on this machine
or at a URL that fsspec opens.
"""

import codecs
import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from lrp_axioms.benchmarks.sources import parquet
from lrp_axioms.benchmarks.sources.faults import (
    ColumnError,
    Faults,
    MissingColumn,
    RepeatedColumn,
    places,
)
from lrp_axioms.numeric.spelling import LONGEST

DECODER = json.JSONDecoder(object_pairs_hook=tuple)  # which keeps both of two equal names
BLANK = ([], [""])  # a line of a table without anything
MOST = 2**20  # records that ``records`` holds at most


def records(
    path: Path, columns: Sequence[str], fault: Callable[..., str | None], *, advice: str
) -> list[tuple]:
    """Returns the values of ``columns`` of every record, as ``stream``, once all are checked.

    Raises ValueError for a file without records, too, and for more than ``MOST`` records.
    """
    found = list(islice(stream(path, columns, fault, advice=advice), MOST + 1))
    if not found:
        raise ValueError(f"{path} has no records; pass a file that has some")
    if len(found) > MOST:
        raise ValueError(f"{path} has more than {MOST} records; divide the file")
    return found


def stream(
    place: Path | str, columns: Sequence[str], fault: Callable[..., str | None], *, advice: str
) -> Iterator[tuple]:
    """Yields the values of ``columns``, record by record; JSON and Parquet keep their types.

    ``place``: a file, or a URL.  ``fault`` returns the fault of such values, or None; ``advice`` is
    the next step.  Raises ValueError, which names the file and the lines of all unusable records:
    after the first of them nothing more is yielded.
    """
    name = _path(place)
    suffix = Path(name.removesuffix(".gz")).suffix
    if "*" in str(place) and not (is_url(place) or Path(place).exists()):
        raise ValueError(
            f"{place} stands for several files; join them into one, or pass one after the other, "
            "each with an --output of its own"
        )
    if suffix not in READERS or name.endswith(".parquet.gz"):
        folder = not is_url(place) and Path(place).is_dir()
        ends = suffix + ".gz" * name.endswith(".gz")
        what = "a folder" if folder else f"files {ends or 'without a suffix'!r}"
        raise ValueError(
            f"{str(place) or repr('')}: {what} {'is' if folder else 'are'} not read; pass one of "
            f"{', '.join(READERS)}; all but .parquet may be packed by gzip (.gz)"
        )
    faults = Faults("row" if suffix == ".parquet" else "line")
    try:
        with _open(place, unpacked=suffix != ".parquet") as raw:
            try:
                for line, values in READERS[suffix](raw, columns):
                    wrong = values if isinstance(values, str) else fault(*values)
                    if wrong:
                        faults.add(wrong, line)
                    elif not faults.found:
                        yield tuple(values)
            except ValueError:
                for _ in range(2**10 * isinstance(raw, gzip.GzipFile)):
                    if not raw.read(2**20):  # gzip reports a broken file only at its end
                        break
                raise
    except IrregularFile as error:
        raise ValueError(
            f"{place} is no regular file; write its lines to one, and pass that"
        ) from error
    except ColumnError as error:
        raise ValueError(f"{place} has {error}; {advice}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{place} is truncated or broken ({error}); get it again") from error
    except OSError as error:
        gone = isinstance(error, FileNotFoundError) and "No such file or directory"
        said = error.strerror or gone or error  # fsspec says no more than the name of the file
        raise ValueError(f"{place}: {said}; pass another file") from error
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
    except Exception as error:  # a library for each protocol, as in _open
        if not is_url(place) or isinstance(error, MemoryError):
            raise
        raise ValueError(f"{place} cannot be read to its end ({error}); try again") from error
    faults.check(place, advice)


def is_url(place: Path | str) -> bool:
    return "://" in str(place)


def path_of(place: Path | str) -> str:
    """Returns ``place``, or the path of a web address, whose query may hold a secret."""
    is_web = str(place).lower().startswith(("http://", "https://"))
    return urlsplit(str(place)).path if is_web else str(place)


def _path(place):
    """Returns a path in lower case; of a web address, its path if that names a kind of file."""
    path = path_of(place).lower()
    return path if Path(path.removesuffix(".gz")).suffix in READERS else str(place).lower()


@contextmanager
def _open(place: Path | str, *, unpacked: bool) -> Iterator[IO[bytes]]:
    """Opens a stream of bytes; ``unpacked`` decompresses a file whose name ends in .gz."""
    if is_url(place):
        import fsspec  # which PyTorch brings; each protocol is a library of its own

        try:
            file = fsspec.open(str(place)).open()
        except OSError:
            raise
        except Exception as error:  # a library for each protocol, with errors of its own
            raise ValueError(f"{error}; install or set up what fsspec needs for it") from error
    else:
        path = Path(place)
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise IrregularFile
        file = path.open("rb")
    with file:
        packed = unpacked and _path(place).endswith(".gz")
        yield gzip.GzipFile(fileobj=file) if packed else file


class IrregularFile(ValueError):
    """An irregular file, such as a pipe, which may be silent for ever."""


def lines(raw: IO[bytes]) -> Iterator[tuple[int, str]]:
    """Yields numbered lines of UTF-8, without their ends."""
    for line, text in _decoded(raw):
        yield line, text.removesuffix("\n").removesuffix("\r")


def _decoded(raw):
    """Yields numbered lines of UTF-8 with their ends; ValueError names the first invalid line.

    Lines end at a newline alone: Unicode's other line breaks are part of a text.
    """
    for line, packed in enumerate(iter(lambda: raw.readline(LONGEST + 1), b""), 1):
        if len(packed) > LONGEST:
            raise ValueError(f"line {line} has more than {LONGEST} bytes; divide or shorten it")
        packed = packed.removeprefix(codecs.BOM_UTF8) if line == 1 else packed
        try:
            yield line, packed.decode("utf-8")
        except UnicodeDecodeError as error:
            wrong = packed[error.start]
            raise ValueError(
                f"line {line} is not UTF-8 (byte 0x{wrong:02x}); save the file as UTF-8"
            ) from error


def _txt(raw, columns):
    places(["text"], columns)  # another one would be ignored
    for line, text in lines(raw):
        yield line, [text]


def _tsv(raw, columns):
    return _table(((line, text.split("\t")) for line, text in lines(raw)), columns)


def _csv(raw, columns):
    return _table(_quoted(raw), columns)


def _quoted(raw):
    """Yields records by the number of their first line; a record may have several lines."""
    line = held = 0

    def texts():
        nonlocal held
        for _, text in _decoded(raw):
            held += len(text)
            if held > LONGEST:
                raise ValueError(
                    f"the record from line {line} on has more than {LONGEST} letters; close its "
                    "quotes, or shorten it"
                )
            yield text

    rows = csv.reader(texts(), strict=True)
    while True:
        line, held = rows.line_num + 1, 0
        limit = csv.field_size_limit(2**31 - 1)  # which belongs to the process
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise ValueError(
                f"the record from line {line} on breaks the rules of CSV "
                f"({str(error).partition(' - ')[0]}); put a field with commas, quotes or line "
                "breaks in quotes, and double the quotes in it"
            ) from error
        finally:
            csv.field_size_limit(limit)
        if row is None:
            return
        yield line, row


def _table(rows: Iterator, columns):
    """Yields records of rows after the header, without blank lines between them."""
    _, names = next(rows, (1, []))
    chosen = places(names, columns)
    for line, row in rows:
        if len(row) == len(names):
            yield line, [row[place] for place in chosen]
        elif row not in BLANK:
            yield line, f"not the {len(names)} fields of the header"
        elif len(names) == 1:
            yield line, [""]


def _jsonl(raw, columns):
    lacking, found = None, False
    for line, text in lines(raw):
        if text.strip():
            try:
                values = _json(text, columns)
                found = found or not isinstance(values, str)
            except MissingColumn as error:
                lacking, values = lacking or error, str(error)
            yield line, values
    if lacking and not found:  # one error of the file instead of one per line
        raise lacking


def _json(text, columns):
    """Returns a record's values, or its fault; a name with several values is a fault."""
    try:
        pairs = DECODER.decode(text)
    except json.JSONDecodeError as error:
        return f"no JSON ({error.msg})"
    except (ValueError, RecursionError) as error:
        return str(error)
    if not isinstance(pairs, tuple):
        return "no object"
    try:
        return [pairs[place][1] for place in places([name for name, _ in pairs], columns)]
    except RepeatedColumn as error:
        return str(error)


READERS = {".txt": _txt, ".csv": _csv, ".tsv": _tsv, ".jsonl": _jsonl, ".parquet": parquet.values}
"""Suffix (without .gz) -> reader of bytes and columns, which yields lines with values or faults."""
