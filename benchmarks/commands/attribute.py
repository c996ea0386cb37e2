"""``lrp-axioms attribute``: the relevance of every token of any number of texts, as Parquet."""

from pathlib import Path
from typing import Annotated

import typer

from lrp_axioms.benchmarks.commands.console import check_names, loading, mendable, track
from lrp_axioms.benchmarks.commands.options import (
    DTYPES,
    Address,
    Device,
    Dtype,
    Model,
    completing,
    names_of,
)
from lrp_axioms.benchmarks.commands.output import answer, say
from lrp_axioms.benchmarks.running.blocks import read_ahead
from lrp_axioms.benchmarks.sources import streams
from lrp_axioms.benchmarks.sources.files import path_of
from lrp_axioms.numeric.methods.catalogue import METHODS


def attribute(
    file: Annotated[
        str,
        typer.Argument(
            help="One text per line (.txt), or .csv, .tsv, .jsonl, .parquet; or .gz; or a URL of "
            "such a file, or hub:NAME, or a saved Hugging Face data set; with --verify, the folder "
            "of a run."
        ),
    ],
    *,
    text_column: Annotated[str, typer.Option(help="Name of the column with the texts.")] = "text",
    split: Annotated[
        str | None, typer.Option(help="Of a Hugging Face data set; default: train.")
    ] = None,
    model: Model = "embedded",
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="As in explain, and may be given again. Default: attnlrp.",
            autocompletion=completing(METHODS),
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="Folder for the Parquet files; a stopped run resumes there.")
    ] = Path("results/attribute"),
    dtype: Dtype = "float32",
    device: Device = None,
    engine: Annotated[str, typer.Option(help="'local', or 'ray': by a Ray cluster.")] = "local",
    address: Address = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Only compare the files of a run with their SHA-256.")
    ] = False,
):
    """Explain the predicted class of every text of a file, by one or more methods."""
    if verify:
        _verify(Path(file))
        return
    with mendable():
        check_names("--dtype", [dtype], DTYPES)
        if not output.name:
            raise ValueError(f"--output {output} has no name; pass one, such as results/attribute")
        # Reports errors in the first texts before the model is loaded.
        texts = read_ahead(streams.texts(file, column=text_column, split=split))
        with loading("the model"):
            from lrp_axioms.benchmarks.experiments import explained
            from lrp_axioms.benchmarks.running import cluster
            from lrp_axioms.benchmarks.sources import models

            chosen = names_of("--method", method or ["attnlrp"], METHODS)
            place = cluster.engine(engine, address=address, device=device)
            device = "cpu" if place.device else device or "cpu"  # here, the first text is tried
            classifier = models.load(model, device=device, dtype=dtype)
    with mendable(f"--output {output}"):
        name = Path(path_of(file)).name or file.partition("?")[0]
        about = {"methods": chosen, "name": name, "output": output}
        found = explained.explain_texts(classifier, texts, **about, engine=place, track=track)
    wrote, full = found.parts(), found.tally(explained.CUT)
    columns, limit = found.columns(), explained.text.limit(classifier.model)
    amplified = found.tally(explained.AMPLIFIED)
    counts = {"texts": found.texts, "cut": full, "amplified": amplified}
    answer(model=model, methods=chosen, **counts, columns=columns, wrote=wrote)
    say(
        f"{found.texts} texts, {', '.join(chosen)}: wrote {output}/part-*.parquet, one line per "
        f"text and method, with {', '.join(columns)}; read them with\n"
        f'datasets.load_dataset("parquet", data_files="{output}/part-*.parquet")'
    )
    if full:
        say(f"{full} texts fill all {limit} positions of the model: what was longer has been cut")
    if amplified:
        say(
            f"lines with amplified relevance (column amplified): {amplified}; its sizes add up to "
            "many times the logit and the gradient; lrp-axioms audit tells where, for one text"
        )


def _verify(folder: Path):
    from lrp_axioms.benchmarks.running import runner

    with mendable(str(folder)):
        found = runner.verify(folder)
    texts, files = found.texts, found.parts()
    answer(texts=texts, verified=files)
    say(f"{folder}: no file has changed since its run (texts: {texts}, files: {len(files)})")
