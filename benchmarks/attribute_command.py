"""``lrp-axioms attribute``: the relevance of every token of every text of a file, as Parquet."""

from functools import partial
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer
from pyarrow import csv, json, parquet

from benchmarks.console import console, mendable, problems, track
from benchmarks.errors import RunError

SHOWN = 10  # offenders that an error lists


def attribute(
    file: Annotated[
        Path, typer.Argument(help="One text per line (.txt), or .csv, .tsv, .jsonl, .parquet.")
    ],
    *,
    column: Annotated[str, typer.Option(help="Where texts are, in a file of columns.")] = "text",
    model: Annotated[str, typer.Option(help="'embedded', a folder, or a Hub id.")] = "embedded",
    method: Annotated[
        list[str] | None, typer.Option(help="As of explain; may be given again. Default: attnlrp.")
    ] = None,
    output: Annotated[
        Path, typer.Option(help="Folder for the Parquet files; a stopped run goes on there.")
    ] = Path("results/attribute"),
    device: Annotated[
        str | None, typer.Option(help="As of explain; default: cpu, or the GPUs of a cluster.")
    ] = None,
    engine: Annotated[str, typer.Option(help="'local', or 'ray': by a Ray cluster.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="With --engine ray: its HOST:PORT; default: this machine.")
    ] = None,
):
    """Explain the predicted class of every text of a file, by one or more methods."""
    with mendable():
        if not output.name:
            raise ValueError(f"--output {output} has no name; pass one, such as results/attribute")
        texts = read(file, column)
        with problems.status("loading the model"):
            from benchmarks import data, engines, models, text
            from benchmarks.rows import Row
            from numeric.attribution import METHODS

            chosen = list(dict.fromkeys(method or ["attnlrp"]))
            unknown = [name for name in chosen if name not in METHODS]
            if unknown:
                raise ValueError(f"--method {', '.join(unknown)}: pass {', '.join(METHODS)}")
            place = engines.named(engine, address=address, device=device)
            device = "cpu" if place.device else device or "cpu"  # here, the first text is tried
            models.check_device(device)
            classifier = models.load(model, device=device)
            of_file = data.unlabelled(file.name, texts)
            text.check(classifier, of_file)
        with mendable(f"--output {output}"):
            output.mkdir(parents=True, exist_ok=True)
    row = Row(
        name=output.name,
        table="attribute",
        dataset=of_file.name,
        model=classifier.name,
        curves=False,
        variants={name: {"method": name} for name in chosen},
    )
    with mendable(catch=(RunError, ValueError, OSError)):
        found = text.run(row, classifier, of_file, output=output.parent, engine=place, track=track)
    columns, limit = found.table.column_names, found.settings["tokens_at_most"]
    console.print(
        f"{len(texts)} texts, {', '.join(chosen)}: wrote {output}/part-*.parquet, one line per "
        f"text and method, with {', '.join(columns)}; read them with\n"
        f'datasets.load_dataset("parquet", data_files="{output}/part-*.parquet")',
        markup=False,
        soft_wrap=True,
    )
    full = pc.sum(pc.equal(found.table["tokens"], limit)).as_py() // len(chosen)
    if full:
        console.print(
            f"{full} texts fill all {limit} positions of the model: what was longer has been cut",
            soft_wrap=True,
        )


def read(file: Path, column: str) -> list[str]:
    """The texts of a file; ValueError says which lines hold none, or which columns there are."""
    suffix = file.suffix.lower()
    if suffix not in OPEN:
        raise ValueError(
            f"{file}: files {file.suffix or 'without a suffix'!r} are not read; pass one of "
            f"{', '.join(OPEN)}"
        )
    try:
        texts = _texts(OPEN[suffix](file, column), column)
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 ({error}); save it as UTF-8") from error
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror or error}") from error
    except (ValueError, pa.ArrowException) as error:
        advice = "; save it as UTF-8" if "UTF8" in str(error) else ""
        raise ValueError(f"{file}: {error}{advice}") from error
    empty = [n for n, text in enumerate(texts, 1) if text is None or not text.strip()]
    if empty:
        raise ValueError(f"{file}: no text in lines {_some(empty)} (of records); take them out")
    if not texts:
        raise ValueError(f"{file} has no texts; pass a file with one per line")
    return texts


def _lines(path, column):
    """Lines end at a newline alone: what else Unicode calls a line break is part of a text."""
    text = path.read_bytes().decode("utf-8-sig")
    lines = text.removesuffix("\n").split("\n") if text else []
    return pa.table({"text": pa.array([line.removesuffix("\r") for line in lines], pa.string())})


def _separated(path, column, *, by):
    """A guess of types would make numbers of texts such as "1"; quoted texts may have lines."""
    types = csv.ConvertOptions(column_types={column: pa.string()})
    parse = csv.ParseOptions(delimiter=by, newlines_in_values=True)
    return csv.read_csv(path, parse_options=parse, convert_options=types)


OPEN = {
    ".txt": _lines,
    ".csv": partial(_separated, by=","),
    ".tsv": partial(_separated, by="\t"),
    ".jsonl": lambda path, column: json.read_json(path),
    ".parquet": lambda path, column: parquet.ParquetFile(path).read(),
}
"""By suffix: a table of which one column may hold texts."""


def _texts(table, column):
    names = table.column_names
    if column not in names:
        raise ValueError(f"no column {column!r}; pass --column, one of {_some(names)}")
    if names.count(column) > 1:
        raise ValueError(f"{names.count(column)} columns are called {column!r}; rename all but one")
    kind = table.schema.field(column).type
    of = kind.value_type if pa.types.is_dictionary(kind) else kind
    if of not in (pa.string(), pa.large_string(), pa.string_view(), pa.null()):
        raise ValueError(f"column {column!r} is of type {kind}, not text; pass another --column")
    return table[column].to_pylist()


def _some(values):
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return ", ".join(map(str, values[:SHOWN])) + more
