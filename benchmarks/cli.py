"""The command line: ``lrp-axioms prove | explain | attribute | audit | plan | reproduce ...``."""

import atexit
import gc
import logging
import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from benchmarks.attribute_command import attribute
from benchmarks.audit_command import audit
from benchmarks.console import (
    bars,
    console,
    each_with_bars,
    loading,
    mendable,
    printable,
    problems,
    spell_what_cannot_be_encoded,
    track,
)
from benchmarks.evaluate_command import evaluate
from benchmarks.explain_command import explain
from benchmarks.plan_command import plan

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Proofs about LRP rules, and how far LRP is from Leave-One-Out on a real Transformer.",
)

Model = Annotated[str, typer.Option(help="'embedded', a folder, or a Hugging Face Hub id.")]
Device = Annotated[str, typer.Option(help="'cpu', 'cuda', 'cuda:1', 'mps'.")]


@app.command()
def prove(
    *,
    rules: Annotated[
        Path | None,
        typer.Argument(help="A Python file of your own rules, to judge these; it is executed."),
    ] = None,
    show: Annotated[
        str | None, typer.Option(help="Only this theorem, such as 10, or statement, such as 10b.")
    ] = None,
    latex: Annotated[bool, typer.Option(help="With --show: print LaTeX.")] = False,
    limit: Annotated[
        int, typer.Option(min=1, help="With a file: seconds for each rule, then it is ended.")
    ] = 600,
):
    """Run every proof and print the verdicts, or one theorem in full, or judge your own rules."""
    if rules or show is not None or latex:
        with mendable():
            _prove_one(rules, show, latex=latex, limit=limit)
        return
    from benchmarks import reproduce, tables

    result = reproduce.theorems(track=track)
    console.print(tables.terminal(result, only=tables.EVERY))
    _print_notes(result)
    failed = [row for row in result.rows if row["verdict"] == "not established"]
    for row in failed:
        problems.print(f"{row['test']}\n{row['error']}", markup=False)
    raise typer.Exit(code=bool(failed))


def _prove_one(rules: Path | None, show: str | None, *, latex: bool, limit: int):
    from axioms import show as pages

    if rules and (show is not None or latex):
        raise ValueError(f"--show and --latex print a theorem, {rules} holds rules; pass one only")
    if rules:
        from benchmarks.judging import judged

        for n, text in enumerate(judged(rules, limit)):
            console.out("\n" * (n > 0) + text, highlight=False, end="")
        return
    if show is None:
        raise ValueError("--latex prints one theorem; pass its number as --show N too")
    page = pages.page(show)
    console.out((pages.latex if latex else pages.text)(page), highlight=False, end="")
    if any(verdict.error for verdict in page.verdicts):
        raise typer.Exit(code=1)


app.command()(explain)
app.command()(attribute)
app.command()(audit)
app.command()(evaluate)
app.command()(plan)


@app.command()
def reproduce(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            help="theorems table1 table2 figure2 time, or table1-mnist special sensitivity softmax "
            "causes."
        ),
    ] = None,
    *,
    model: Annotated[
        str,
        typer.Option(help="'embedded', 'paper' (its BERT-base, from the Hub), a folder, a Hub id."),
    ] = "embedded",
    dataset: Annotated[str, typer.Option(help="embedded, sst2 or imdb.")] = "embedded",
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder to read sst2, imdb or mnist from.")
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(help="Only the first N texts, and N prompts of every task of causes."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="As of explain; default: cpu, or the GPUs of a cluster.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Where results are written.")] = Path("results"),
    engine: Annotated[
        str, typer.Option(help="'local', or 'ray': rows on texts are measured by a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="With --engine ray: its HOST:PORT; default: this machine.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Processes with one thread each; default: one per core, at most 4."
        ),
    ] = None,
    longest: Annotated[
        int, typer.Option(min=8, help="Tokens of the longest text that is timed.")
    ] = 128,
    curves: Annotated[
        bool,
        typer.Option("--curves", help="Figure 2 with the curves of all mixes, which take long."),
    ] = False,
):
    """Prove the theorems, and measure Tables 1 and 2, Figure 2 and time; write a report.

    TABLES chooses some of them, and of what the paper did not ask.  An interrupted run goes on
    where it was stopped.
    """
    with loading("the model and the texts"), mendable():
        from benchmarks import data, engines, models
        from benchmarks import reproduce as experiments
        from benchmarks.tables import terminal
        from benchmarks.text import check
        from benchmarks.workers import cores

        place = engines.named(engine, address=address, device=device)
        device = "cpu" if place.device else device or "cpu"  # here, the first text is tried
        models.check_device(device)
        wanted = experiments.chosen(tables)
        if curves and "figure2" not in wanted:
            raise ValueError("--curves would be ignored; it is about figure2, so ask for that too")
        local = None if dataset == "embedded" and "table1-mnist" in wanted else data_dir
        texts = data.load(dataset, data_dir=local).first(examples)
        name = experiments.model_of_the_paper(texts) if model == "paper" else model
        classifier = models.load(name, device=device)
        needed = partial(experiments.needed_rows, curves=curves)
        check(classifier, texts, [row for table in wanted for row in needed(table, texts)])
    shown = bars()
    with mendable(f"--output {output}"):
        found = experiments.reproduce(
            classifier,
            texts,
            output=output,
            wanted=wanted,
            data_dir=data_dir,
            engine=place,
            workers=workers or cores(),
            longest=longest,
            curves=curves,
            **({"prompts": examples} if examples else {}),
            track=partial(track, within=shown),
        )
        for result in each_with_bars(found, shown, total=len(wanted), description="tables"):
            console.print(terminal(result))
            _print_notes(result)
    page = output / "report.html"
    console.print(
        f"\nwrote {page}, with every row, and the tables beside it", markup=False, soft_wrap=True
    )


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Where `reproduce` wrote.")] = Path("results"),
):
    """Render all results of a folder, and of the folders in it, as HTML and Markdown."""
    with mendable():
        from benchmarks import report as pages

        for page in pages.write(folder):
            console.print(f"wrote {page}", markup=False, soft_wrap=True)


def _print_notes(result):
    for number, note in enumerate(result.notes, start=1):
        below = int(number == len(result.notes))
        console.print(Padding(Text(note), (0, 0, below, 1)))


def main() -> None:
    """Runs a command."""
    spell_what_cannot_be_encoded()
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and not 0 < int(columns[:5]) < 10000:  # no width in which one can print
        del os.environ["COLUMNS"]
        console.width = problems.width = 80
    for library in ("TRANSFORMERS", "HF_HUB", "DATASETS"):  # our errors say it in one message
        os.environ.setdefault(f"{library}_VERBOSITY", "error")
    atexit.register(gc.freeze)  # else the end takes a second, to look for garbage once more
    log = logging.getLogger("benchmarks")
    log.setLevel(logging.INFO)
    log.handlers = [logging.StreamHandler()]  # on stderr
    with printable():
        app()


if __name__ == "__main__":
    main()
