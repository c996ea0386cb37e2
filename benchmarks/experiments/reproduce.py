"""Runs experiments by table, and writes their results."""

import fnmatch
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from lrp_axioms.axioms.writing import write_atomically
from lrp_axioms.benchmarks.errors import RunError
from lrp_axioms.benchmarks.experiments import report, rows, text
from lrp_axioms.benchmarks.experiments.maps import Run, measured
from lrp_axioms.benchmarks.experiments.record import Experiment, Request, experiment
from lrp_axioms.benchmarks.experiments.result import Result
from lrp_axioms.benchmarks.names import DEFAULT_TABLES, ON_TEXTS, TABLES
from lrp_axioms.benchmarks.running.workers import IN_PROCESS, Engine, processes
from lrp_axioms.benchmarks.sources.data import SOURCES, Texts
from lrp_axioms.numeric.spelling import check_known


def reproduce(
    request: Request, *, wanted: Sequence[str] = DEFAULT_TABLES, workers: int = 1
) -> Iterator[Result]:
    """Yields each wanted table once its files are in the output; the report comes with the last.

    Files: NAME.json (with provenance), NAME.parquet (per-example values), NAME.png, report.html;
    a folder per row of ``configs``, where an interrupted run resumes.
    Theorems, networks and shards of texts are shared out to ``workers`` processes, or the shards
    to an engine; a model on a GPU stays here.  Time is measured when nothing else is at work.
    Raises RunError where the output holds a run of another configuration, or a broken result, and
    ValueError for images that cannot be read.
    """
    # matplotlib, without which one can still measure
    from lrp_axioms.benchmarks.experiments import drawing

    runs = Runs(needed_rows(request, wanted))  # before anything runs
    records = [experiment(table) for table in wanted]
    prepared = [record.prepare(request) for record in records]
    report.load(request.output)
    request.output.mkdir(parents=True, exist_ok=True)
    with processes(workers) as each:
        request = replace(request, each=each)
        if request.engine is IN_PROCESS and request.classifier.model.device.type == "cpu":
            request = replace(request, engine=Engine(each))
        for record, ready in zip(records, prepared, strict=True):
            start = time.perf_counter()
            result = (
                on_texts(record, request, runs) if record.rows else record.run(request, **ready)
            )
            result = replace(result, seconds=time.perf_counter() - start)
            result.write(request.output)
            if image := drawing.png(result):
                write_atomically(request.output / f"{result.name}.png", image)
            if record is records[-1]:
                report.write(request.output)
            yield result


def choose_tables(tables: Sequence[str] | None) -> Sequence[str]:
    """Sorts the wanted tables as in the paper; ValueError names all unknown ones."""
    check_known("table", tables or (), TABLES)
    return [table for table in TABLES if table in (tables or DEFAULT_TABLES)]


def model_of_the_paper(data: Texts) -> str:
    """Returns the Hub id of the paper's model on this data set (Appendix B.1.2)."""
    return rows.load(rows.LOO.format(data.config)).model


def needed(table: str, data: Texts) -> list[rows.Row]:
    """Returns the rows behind a table of the text experiments; other tables have none.

    Raises RunError if ``configs`` has none for this data set, or some that cannot be in one table.
    """
    patterns = [pattern.format(data.config) for pattern in experiment(table).rows]
    if patterns and (strays := [name for name in rows.names() if not any(_tables_of(name))]):
        raise RunError(
            f"no table would find {', '.join(strays)} in {rows.FOLDER}; call a row "
            "TABLE-DATASET-NAME.toml, such as table2-sst2-mine.toml"
        )
    found: dict[str, None] = {}
    for pattern in patterns:
        matching = fnmatch.filter(rows.names(), pattern)
        if not matching:
            raise RunError(
                f"table {table!r} has no row {pattern} in {rows.FOLDER}; leave it out, or pass "
                "another --dataset"
            )
        found |= dict.fromkeys(matching)
    loaded = []
    try:
        loaded += map(rows.load, found)
        rows.check_together(loaded, data)
    except ValueError as error:
        raise RunError(str(error)) from error
    return loaded


def _tables_of(name):
    """Returns the tables that are computed from a row of this name."""
    for table in ON_TEXTS:
        patterns = (each.format(dataset) for each in experiment(table).rows for dataset in SOURCES)
        if any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
            yield table


def needed_rows(request: Request, tables: Sequence[str]) -> dict[str, list[rows.Row]]:
    """Returns table -> ``needed`` rows, on the texts of the request.

    Without curves, the sweep of Figure 2 is another row, of maps alone, in its own folder.
    """
    return {
        table: [_adapt_row(request, row) for row in needed(table, request.data)] for table in tables
    }


def _adapt_row(request, row):
    texts = request.data.name
    row = replace(row, name=row.name.replace(f"-{row.dataset}", f"-{texts}"), dataset=texts)
    maps_alone = row.sweep and row.curves and not request.curves
    return replace(row, name=f"{row.name}-maps", curves=False) if maps_alone else row


@dataclass
class Runs:
    """Rows by table, each measured or read once, and held until no later table needs it."""

    by_table: dict[str, list[rows.Row]]
    held: dict[str, Run] = field(default_factory=dict)

    def of(self, table: str, request: Request) -> list[Run]:
        """Returns the runs of a table, in the order of its rows, and releases them."""
        options = {key: getattr(request, key) for key in ("output", "engine", "track")}
        of_table = self.by_table.pop(table)
        for row in of_table:
            if row.name not in self.held:
                run = text.run(row, request.classifier, request.data, **options)
                self.held[row.name] = run
        runs = [self.held[row.name] for row in of_table]
        later = {row.name for rows in self.by_table.values() for row in rows}
        self.held = {name: run for name, run in self.held.items() if name in later}
        return runs


def on_texts(record: Experiment, request: Request, runs: Runs | None = None) -> Result:
    """Computes a table of the text experiments, from ``runs`` or from its rows alone."""
    runs = runs or Runs(needed_rows(request, [record.name]))
    return record.run(measured(runs.of(record.name, request)))
