"""Runs experiments by table, and writes what they find."""

import fnmatch
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from axioms.writing import write_atomically
from benchmarks.errors import RunError
from benchmarks.experiments import report, rows, text
from benchmarks.experiments.maps import measured
from benchmarks.experiments.record import Experiment, Request, experiment
from benchmarks.experiments.result import Result
from benchmarks.names import DEFAULT_TABLES, ON_TEXTS, TABLES
from benchmarks.running.engines import IN_PROCESS, Engine
from benchmarks.running.workers import processes
from benchmarks.sources.data import SOURCES, Texts
from numeric.spelling import did_you_mean


def reproduce(
    request: Request, *, wanted: Sequence[str] = DEFAULT_TABLES, workers: int = 1
) -> Iterator[Result]:
    """Yields each wanted table once its files are in the output; the report comes with the last.

    Files: NAME.json (with provenance), NAME.parquet (per-example values), NAME.png, report.html;
    a folder per row of ``configs``, from which an interrupted run goes on.
    Theorems, networks and shards of texts are shared out to ``workers`` processes, or the shards
    to an engine; a model on a GPU stays here.  Time is measured when nothing else is at work.
    Raises RunError where the output holds a run of another configuration, or a broken result, and
    ValueError for images that cannot be read.
    """
    from benchmarks.experiments import drawing  # matplotlib, which who only measures does without

    for table in wanted:  # before anything runs
        needed(table, request.data)
    records = [experiment(table) for table in wanted]
    prepared = [record.prepare(request) for record in records]
    report.load(request.output)
    request.output.mkdir(parents=True, exist_ok=True)
    with processes(workers) as each:
        request = replace(request, each=each)
        if request.engine is IN_PROCESS and request.classifier.model.device.type == "cpu":
            request = replace(request, engine=Engine(each))
        for record, ready in zip(records, prepared, strict=True):
            result = on_texts(record, request) if record.rows else record.run(request, **ready)
            result.write(request.output)
            if image := drawing.png(result):
                write_atomically(request.output / f"{result.name}.png", image)
            if record is records[-1]:
                report.write(request.output)
            yield result


def chosen(tables: Sequence[str] | None) -> Sequence[str]:
    """The tables that are wanted, in the order of the paper; ValueError names all unknown ones."""
    unknown = [table for table in tables or () if table not in TABLES]
    if unknown:
        raise ValueError(
            f"unknown table {', '.join(map(repr, unknown))}; the tables are {', '.join(TABLES)}"
            f"{did_you_mean(unknown, TABLES)}"
        )
    return [table for table in TABLES if table in (tables or DEFAULT_TABLES)]


def model_of_the_paper(data: Texts) -> str:
    """The Hub id of the model that the paper explains on this data set (Appendix B.1.2)."""
    return rows.load(rows.LOO.format(data.config)).model


def needed(table: str, data: Texts) -> list[str]:
    """The rows that a table of the text experiments is computed from; no other table has any.

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
    try:
        rows.check_together([rows.load(name) for name in found], data)
    except ValueError as error:
        raise RunError(str(error)) from error
    return list(found)


def _tables_of(name):
    """The tables that are computed from a row of this name."""
    for table in ON_TEXTS:
        patterns = (each.format(dataset) for each in experiment(table).rows for dataset in SOURCES)
        if any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
            yield table


def needed_rows(request: Request, table: str) -> list[rows.Row]:
    """Those that are ``needed``, on the texts that are asked for.

    Without curves, the sweep of Figure 2 is another row, of maps alone, in its own folder.
    """
    data = request.data
    found = [
        replace(row, name=row.name.replace(f"-{row.dataset}", f"-{data.name}"), dataset=data.name)
        for row in map(rows.load, needed(table, data))
    ]
    maps = lambda row: replace(row, name=f"{row.name}-maps", curves=False)
    return found if request.curves else [maps(row) if row.sweep else row for row in found]


def on_texts(record: Experiment, request: Request) -> Result:
    """One table of the text experiments, from the ``needed_rows``."""
    start = time.perf_counter()
    options = {key: getattr(request, key) for key in ("output", "engine", "track")}
    runs = [
        text.run(row, request.classifier, request.data, **options)
        for row in needed_rows(request, record.name)
    ]
    return replace(record.run(measured(runs)), seconds=time.perf_counter() - start)
