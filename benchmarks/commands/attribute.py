"""``lrp-axioms attribute``: the relevance of every token of every text of a file, as Parquet."""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.commands.console import check_names, console, loading, mendable, track
from benchmarks.commands.output import answer, completing
from benchmarks.names import MODELS
from benchmarks.sources import files
from numeric.methods.catalogue import METHODS


def attribute(
    file: Annotated[
        Path,
        typer.Argument(help="One text per line (.txt), or .csv, .tsv, .jsonl, .parquet; or .gz."),
    ],
    *,
    column: Annotated[str, typer.Option(help="Column that holds the texts.")] = "text",
    model: Annotated[
        str,
        typer.Option(help="'embedded', a folder, or a Hub id.", autocompletion=completing(MODELS)),
    ] = "embedded",
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="As in explain; may be given again. Default: attnlrp.",
            autocompletion=completing(METHODS),
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="Folder for the Parquet files; a stopped run resumes there.")
    ] = Path("results/attribute"),
    device: Annotated[
        str | None, typer.Option(help="As in explain; default: cpu, or the GPUs of a cluster.")
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
        with loading("the model"):
            from benchmarks.experiments import text
            from benchmarks.experiments.rows import Row
            from benchmarks.running import engines
            from benchmarks.sources import data, models

            chosen = list(dict.fromkeys(method or ["attnlrp"]))
            check_names("--method", chosen, METHODS)
            place = engines.named(engine, address=address, device=device)
            device = "cpu" if place.device else device or "cpu"  # here, the first text is tried
            models.check_device(device)
            classifier = models.load(model, device=device)
            of_file = data.unlabelled(file.name, texts)
            row = Row(
                name=output.name,
                table="attribute",
                dataset=of_file.name,
                model=classifier.name,
                curves=False,
                variants={name: {"method": name} for name in chosen},
            )
            text.check(classifier, of_file, [row])
        with mendable(f"--output {output}"):
            output.mkdir(parents=True, exist_ok=True)
    with mendable(f"--output {output}"):
        found = text.run(row, classifier, of_file, output=output.parent, engine=place, track=track)
    columns, limit = found.table.column_names, found.settings["tokens_at_most"]
    full = found.table["tokens"].to_pylist().count(limit) // len(chosen)
    answer(
        model=model,
        methods=chosen,
        texts=len(texts),
        cut=full,
        columns=columns,
        wrote=sorted(output.glob("part-*.parquet")),
    )
    console.print(
        f"{len(texts)} texts, {', '.join(chosen)}: wrote {output}/part-*.parquet, one line per "
        f"text and method, with {', '.join(columns)}; read them with\n"
        f'datasets.load_dataset("parquet", data_files="{output}/part-*.parquet")',
        markup=False,
        soft_wrap=True,
    )
    if full:
        console.print(
            f"{full} texts fill all {limit} positions of the model: what was longer has been cut",
            soft_wrap=True,
        )


def read(file: Path, column: str) -> list[str]:
    """The texts of a file as they are; ValueError says which lines hold none."""
    advice = "mend the file, or pass another --column"
    return [text for (text,) in files.records(file, [column], files.text_fault, advice=advice)]
