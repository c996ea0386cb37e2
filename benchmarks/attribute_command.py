"""``lrp-axioms attribute``: the relevance of every token of every text of a file, as Parquet."""

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer
from pyarrow import csv, json, parquet

from benchmarks.console import console, mendable, problems, track
from benchmarks.errors import RunError

OPEN = {
    ".txt": lambda path: pa.table({"text": path.read_text("utf-8").splitlines()}),
    ".csv": csv.read_csv,
    ".tsv": lambda path: csv.read_csv(path, parse_options=csv.ParseOptions(delimiter="\t")),
    ".jsonl": json.read_json,
    ".parquet": parquet.read_table,
}
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
    with mendable(catch=(ValueError, OSError, pa.ArrowException)):
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
            classifier = models.load(model, device="cpu" if place.device else device or "cpu")
            of_file = data.unlabelled(file.name, texts)
            text.check(classifier, of_file)
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
        f"text and method, with {', '.join(columns)}",
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
    if file.suffix not in OPEN:
        raise ValueError(
            f"{file}: files {file.suffix or 'without a suffix'!r} are not read; pass one of "
            f"{', '.join(OPEN)}"
        )
    table = OPEN[file.suffix](file)
    if column not in table.column_names:
        raise ValueError(
            f"{file} has no column {column!r}; pass --column, one of "
            f"{', '.join(table.column_names)}"
        )
    texts = table[column].to_pylist()
    empty = [n for n, text in enumerate(texts, 1) if not isinstance(text, str) or not text.strip()]
    if empty:
        more = f" and {len(empty) - SHOWN} more" if len(empty) > SHOWN else ""
        raise ValueError(
            f"{file}: no text in lines {', '.join(map(str, empty[:SHOWN]))}{more} (of records); "
            "take them out"
        )
    if not texts:
        raise ValueError(f"{file} has no texts; pass a file with one per line")
    return texts
