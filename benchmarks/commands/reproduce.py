"""``lrp-axioms reproduce`` and ``report``: the tables of the paper, measured and shown."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lrp_axioms.axioms.extras import need
from lrp_axioms.benchmarks import names
from lrp_axioms.benchmarks.commands.console import (
    bars,
    check_folder,
    console,
    each_with_bars,
    invocation,
    loading,
    mendable,
    track,
)
from lrp_axioms.benchmarks.commands.options import Address, Device, completing
from lrp_axioms.benchmarks.commands.output import answer, headline, of_result, present, say

MORE_TABLES = [table for table in names.TABLES if table not in names.DEFAULT_TABLES]
LONG = 60  # seconds of a run that is announced


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
            "causes 'embedded' is 'embedded-lm', for patching both.",
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
        typer.Option(
            help="The first N texts, N prompts of every task of causes, N pairs of patching."
        ),
    ] = None,
    device: Device = None,
    output: Annotated[Path, typer.Option(help="Where results are written.")] = Path("results"),
    engine: Annotated[
        str, typer.Option(help="'local', or 'ray': rows on texts are measured by a Ray cluster.")
    ] = "local",
    address: Address = None,
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
    forecast: Annotated[
        bool,
        typer.Option("--forecast", help="Say what time and memory texts will take, and stop."),
    ] = False,
):
    """Prove the theorems, and measure Tables 1 and 2, Figure 2 and time; write a report.

    TABLES names the experiments; some are not in the paper.
    Run the command again to go on where it was interrupted.
    """
    with loading("the model and the texts"), mendable():
        need("lrp-axioms reproduce", "matplotlib", "pytest", "sklearn")
        from lrp_axioms.benchmarks.experiments import forecast as forecasts
        from lrp_axioms.benchmarks.experiments import reproduce as experiments
        from lrp_axioms.benchmarks.experiments.record import Request, experiment
        from lrp_axioms.benchmarks.experiments.text import check
        from lrp_axioms.benchmarks.running import cluster
        from lrp_axioms.benchmarks.running.workers import cores
        from lrp_axioms.benchmarks.sources import data, models

        place = cluster.engine(engine, address=address, device=device)
        device = "cpu" if place.device else device or "cpu"  # here, the first text is tried
        check_folder(output)
        wanted = experiments.choose_tables(tables)
        if curves and "figure2" not in wanted:
            raise ValueError("--curves would be ignored; it is about figure2, so ask for that too")
        reads = any(experiment(table).reads_data_dir for table in wanted)
        local = None if dataset == "embedded" and reads else data_dir
        texts = data.load(dataset, data_dir=local).first(examples)
        name = experiments.model_of_the_paper(texts) if model == "paper" else model
        classifier = models.load(name, device=device)
        sizes = {"longest": longest, "prompts": examples, "curves": curves}
        of = {"classifier": classifier, "data": texts, "output": output, "data_dir": data_dir}
        request = Request(**of, **sizes, engine=place)
        needed = experiments.needed_rows(request, wanted)
        rows = {row.name: row for of in needed.values() for row in of}.values()
        if forecast and not (rows and engine == "local"):
            raise ValueError("--forecast is about tables on texts, measured on this machine alone")
        trials, workers = check(classifier, texts, rows), workers or cores()
        seconds, count = 0, workers if device == "cpu" else 1
        if rows and engine == "local":
            seconds, memory = forecasts.forecast(request, rows, trials, count)
        size = memory() if forecast or seconds > LONG else None
    if size:
        time = f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
        said = f"{time} in all, and {count} x {size / 2**30:.1f} GiB of memory"
        console.print(f"Texts take about {said}; an interrupted run resumes.", highlight=False)
    if forecast:
        return answer(forecast={"seconds": seconds, "bytes": size, "processes": count})
    shown = bars()
    with mendable(f"--output {output}"):
        request = replace(request, track=partial(track, within=shown))
        found = experiments.reproduce(request, wanted=wanted, workers=workers)
        results = []
        for result in each_with_bars(found, shown, total=len(wanted), description="tables"):
            alone = invocation.full or len(wanted) == 1
            present(*of_result(result)) if alone else present(headline(result))
            results.append(result)
    page = output / "report.html"
    facts = [{key: getattr(x, key) for key in ("name", "title", "rows", "notes")} for x in results]
    answer(tables=facts, wrote=[page])
    more = ", and the tables beside it" if invocation.full else "; --full prints the tables"
    say(f"wrote {page}, with every row{more}")


def report(
    folder: Annotated[Path, typer.Argument(help="Where `reproduce` wrote.")] = Path("results"),
):
    """Render all results of a folder, and of the folders in it, as HTML and Markdown."""
    with mendable(str(folder)):
        need("lrp-axioms report", "matplotlib")
        from lrp_axioms.benchmarks.experiments import report as pages

        written = list(pages.write(folder))
    answer(wrote=written)
    present((), wrote=written)
