"""The command line: ``lrp-axioms explain | attribute | audit | plan | prove | reproduce ...``."""

import atexit
import gc
import logging
import os
import sys
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from axioms.extras import need
from benchmarks import names
from benchmarks.commands.attribute import attribute
from benchmarks.commands.audit import audit
from benchmarks.commands.console import (
    asked,
    bars,
    console,
    each_with_bars,
    loading,
    mendable,
    printable,
    problems,
    spell_what_cannot_be_encoded,
    tell,
    track,
)
from benchmarks.commands.evaluate import evaluate
from benchmarks.commands.explain import explain
from benchmarks.commands.lists import methods, vocabulary
from benchmarks.commands.output import (
    EXIT_CODES,
    answer,
    completing,
    first_lines,
    headline,
    of_result,
    present,
    with_shared_options,
)
from benchmarks.commands.plan import plan

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=EXIT_CODES,
    help="Proofs about LRP rules, and how far LRP is from Leave-One-Out on a real Transformer.",
)


def _version(wanted: bool):  # noqa: FBT001 as Typer calls it
    if wanted:
        console.print(f"lrp-axioms {version('lrp-axioms')}", highlight=False)
        raise typer.Exit


@app.callback()
def _program(
    *,
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
):
    pass


MORE_TABLES = [table for table in names.TABLES if table not in names.DEFAULT_TABLES]
Model = Annotated[str, typer.Option(help="'embedded', a folder, or a Hugging Face Hub id.")]
Device = Annotated[str, typer.Option(help="'cpu', 'cuda', 'cuda:1', 'mps'.")]


def command(function):
    """A command of the program."""
    app.command(epilog=EXIT_CODES)(with_shared_options(function))
    return function


for each in (explain, attribute, audit, evaluate, plan, methods, vocabulary):
    command(each)


@command
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
        int, typer.Option(min=1, help="With a file: seconds for each rule, then it is stopped.")
    ] = 600,
):
    """Run every proof and print the verdicts, or one theorem in full, or judge your own rules."""
    if rules or show is not None or latex:
        with mendable():
            _prove_one(rules, show, latex=latex, limit=limit)
        return
    with mendable():
        need("lrp-axioms prove", "pytest")
    from benchmarks.experiments import theorems

    result = theorems.theorems(track=track)
    answer(theorems=result.rows, notes=result.notes)
    present(*of_result(result, whole=True))
    failed = [row for row in result.rows if row["verdict"] == "not established"]
    for row in failed:
        problems.print(f"{row['test']}\n{row['error']}", markup=False)
    raise typer.Exit(code=bool(failed))


def _prove_one(rules: Path | None, show: str | None, *, latex: bool, limit: int):
    if rules and (show is not None or latex):
        raise ValueError(f"--show and --latex print a theorem, {rules} holds rules; pass one only")
    if rules:
        from axioms.own_rules import report as verdict_report
        from benchmarks.commands.judging import judged

        texts = []
        for n, text in enumerate(judged(rules, limit)):
            if asked.full:
                console.out("\n" * (n > 0) + text, highlight=False, end="")
            else:
                head, *lines = verdict_report.summary(text)
                present([Text(head, style="bold"), *(first_lines(Text(x), 4) for x in lines)])
            texts.append(text)
        if not asked.full:
            present([Text("--full prints every verdict and its witness.", style="dim")])
        answer(rules=texts)
        return
    if show is None:
        raise ValueError("--latex prints one theorem; pass its number as --show N too")
    need("lrp-axioms prove", "pytest")
    from axioms.proofs import show as pages

    page = pages.page(show)
    text = (pages.latex if latex else pages.text)(page)
    answer(theorem=show, text=text)
    console.out(text, highlight=False, end="")
    if any(verdict.error for verdict in page.verdicts):
        raise typer.Exit(code=1)


@command
def reproduce(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"{' '.join(names.DEFAULT_TABLES)}, or {' '.join(MORE_TABLES)}.",
            autocompletion=completing(names.TABLES),
        ),
    ] = None,
    *,
    model: Annotated[
        str,
        typer.Option(
            help="'embedded', 'paper' (its BERT-base, from the Hub), a folder, a Hub id. For "
            "causes 'embedded' is 'embedded-lm'.",
            autocompletion=completing((*names.MODELS, "paper")),
        ),
    ] = "embedded",
    dataset: Annotated[
        str,
        typer.Option(help="embedded, sst2 or imdb.", autocompletion=completing(names.DATASETS)),
    ] = "embedded",
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder to read sst2, imdb or mnist from.")
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(help="Only the first N texts, and N prompts of every task of causes."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="As in explain; default: cpu, or the GPUs of a cluster.")
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

    TABLES names what to measure; some experiments are not in the paper.
    Run the command again to go on where it was interrupted.
    """
    with loading("the model and the texts"), mendable():
        need("lrp-axioms reproduce", "matplotlib", "pytest", "sklearn")
        from benchmarks.experiments import reproduce as experiments
        from benchmarks.experiments.record import Request
        from benchmarks.experiments.text import check
        from benchmarks.running import engines
        from benchmarks.running.workers import cores
        from benchmarks.sources import data, models

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
        request = Request(
            classifier=classifier,
            data=texts,
            output=output,
            data_dir=data_dir,
            longest=longest,
            prompts=examples,
            curves=curves,
            engine=place,
        )
        needed = partial(experiments.needed_rows, request)
        check(classifier, texts, [row for table in wanted for row in needed(table)])
    shown = bars()
    with mendable(f"--output {output}"):
        request = replace(request, track=partial(track, within=shown))
        found = experiments.reproduce(request, wanted=wanted, workers=workers or cores())
        results = []
        for result in each_with_bars(found, shown, total=len(wanted), description="tables"):
            alone = asked.full or len(wanted) == 1
            present(*of_result(result)) if alone else present(headline(result))
            results.append(result)
    page = output / "report.html"
    facts = [{key: getattr(x, key) for key in ("name", "title", "rows", "notes")} for x in results]
    answer(tables=facts, wrote=[page])
    more = ", and the tables beside it" if asked.full else "; --full prints the tables"
    console.print(f"wrote {page}, with every row{more}", markup=False, soft_wrap=True)


@command
def report(
    folder: Annotated[Path, typer.Argument(help="Where `reproduce` wrote.")] = Path("results"),
):
    """Render all results of a folder, and of the folders in it, as HTML and Markdown."""
    with mendable():
        need("lrp-axioms report", "matplotlib")
        from benchmarks.experiments import report as pages

        written = list(pages.write(folder))
    answer(wrote=written)
    present((), wrote=written)


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
    log.handlers = [logging.StreamHandler()]  # on stderr
    console.quiet = problems.quiet = False  # as a command before this one left them
    with printable():
        if "--json" in sys.argv[1:]:
            sys.exit(_with_json())
        app()


def _with_json() -> int:
    """Runs a command; what is wrong with the command line is JSON, too."""
    asked.begin("", json=True, quiet=False, full=False)
    try:
        return app(standalone_mode=False) or 0
    except Exception as error:
        if not hasattr(error, "format_message"):  # it is no error of the command line
            raise
        tell(error.format_message())
        return error.exit_code


if __name__ == "__main__":
    main()
