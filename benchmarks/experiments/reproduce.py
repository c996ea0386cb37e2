"""Runs experiments by table: theorems, Table 1, the text experiments of ``configs``, timing."""

import fnmatch
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from axioms.proofs.prove import THEOREMS, numbered, prove
from benchmarks.errors import RunError
from benchmarks.experiments import agreement, beyond, report, rows, text, time_by_length
from benchmarks.experiments.causes.measure import COUNT, answering, causes
from benchmarks.experiments.result import Result, undefined
from benchmarks.experiments.table1 import digits, mnist
from benchmarks.names import DEFAULT_TABLES, TABLES
from benchmarks.running import engines
from benchmarks.running.engines import IN_PROCESS, Engine
from benchmarks.running.progress import Track, untracked
from benchmarks.running.workers import Each, collected, in_turn, processes
from benchmarks.running.writing import write_atomically
from benchmarks.sources.data import Texts
from benchmarks.sources.models import Classifier
from numeric.evaluation.correlation import bootstrap_mean
from numeric.spelling import did_you_mean

DIGIT_SEEDS = (0, 1, 2)

LOO, LRP = "table2-{}-loo", ("table2-{}-attnlrp", "table2-{}-cp-lrp")
TEXT: dict[str, tuple[Callable[[agreement.Measured], Result], tuple[str, ...]]] = {
    "table2": (agreement.table2, (LOO, "table2-{}-*")),
    "special": (beyond.special, (LOO, *LRP)),
    "figure2": (agreement.figure2, (LOO, "figure2-{}")),
    "sensitivity": (beyond.sensitivity, (LOO, *LRP, "sensitivity-{}")),
    "softmax": (beyond.softmax, (LOO, "figure2-{}", "softmax-{}")),
}
"""Table -> how it is computed, and from which files of ``configs`` by data set."""


def reproduce(
    classifier: Classifier,
    data: Texts,
    *,
    output: Path,
    wanted: Sequence[str] = DEFAULT_TABLES,
    data_dir: Path | None = None,
    engine: Engine = IN_PROCESS,
    workers: int = 1,
    longest: int = time_by_length.LONGEST,
    prompts: int = COUNT,
    curves: bool = True,
    track: Track = untracked,
) -> Iterator[Result]:
    """Yields each wanted table once its files are in ``output``; the report comes with the last.

    Files: NAME.json (with provenance), NAME.parquet (per-example values), NAME.png, report.html;
    a folder per row of ``configs``, from which an interrupted run goes on.
    Theorems, networks and shards of texts are shared out to ``workers`` processes, or the shards
    to an ``engine``; a model on a GPU stays here.  Time is measured when nothing else is at work,
    of texts up to ``longest`` tokens.  ``prompts``: of "causes", for each task and distance.
    ``curves``: as of ``needed_rows``.
    Raises RunError where ``output`` holds a run of another configuration, or a broken result, and
    ValueError for images that cannot be read.
    """
    from benchmarks.experiments import (
        figures,  # matplotlib, which those who only measure do without
    )

    for table in wanted:  # before anything runs
        needed(table, data)
    asked = answering(classifier) if "causes" in wanted else None
    report.load(output)
    images = mnist.load(data_dir=data_dir) if "table1-mnist" in wanted else None
    output.mkdir(parents=True, exist_ok=True)
    with processes(workers) as each:
        if engine is IN_PROCESS and classifier.model.device.type == "cpu":
            engine = engines.of(each)
        other = {
            "theorems": lambda: theorems(each=each, track=track),
            "table1": lambda: table1(each=each, track=track),
            "table1-mnist": lambda: mnist.sweep(
                images, output=output / "table1-mnist", track=track
            ),
            "causes": lambda: causes(model=asked, count=prompts, each=each, track=track),
            "time": lambda: time_by_length.lrp_versus_loo(classifier, longest=longest, track=track),
        }
        on_texts = {"output": output, "engine": engine, "curves": curves, "track": track}
        for table in wanted:
            if table in TEXT:
                result = text_table(table, classifier, data, **on_texts)
            else:
                result = other[table]()
            result.write(output)
            if image := figures.png(result):
                write_atomically(output / f"{result.name}.png", partial(_put, image))
            if table == wanted[-1]:
                report.write(output)
            yield result


def _put(content, path):
    path.write_bytes(content)


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
    return rows.load(LOO.format(data.config)).model


def needed(table: str, data: Texts) -> list[str]:
    """The rows that a table of the text experiments is computed from; no other table has any.

    Raises RunError if ``configs`` has none for this data set, or some that cannot be in one table.
    """
    found: dict[str, None] = {}
    if strays := [name for name in rows.names() if not name.startswith(rows.BEGINNINGS)]:
        raise RunError(
            f"no table would find {', '.join(strays)} in {rows.FOLDER}; call a row "
            "TABLE-DATASET-NAME.toml, such as table2-sst2-mine.toml"
        )
    for pattern in (each.format(data.config) for each in TEXT.get(table, (None, ()))[1]):
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


def needed_rows(table: str, data: Texts, *, curves: bool = True) -> list[rows.Row]:
    """Those that are ``needed``, on the texts of ``data``.

    Without ``curves``, the sweep of Figure 2 is another row, of maps alone, in its own folder.
    """
    found = [
        replace(row, name=row.name.replace(f"-{row.dataset}", f"-{data.name}"), dataset=data.name)
        for row in map(rows.load, needed(table, data))
    ]
    maps = lambda row: replace(row, name=f"{row.name}-maps", curves=False)
    return found if curves else [maps(row) if row.sweep else row for row in found]


def text_table(
    table: str,
    classifier: Classifier,
    data: Texts,
    *,
    output: Path,
    engine: Engine = IN_PROCESS,
    curves: bool = True,
    track: Track = untracked,
) -> Result:
    """One table of the text experiments, from the ``needed_rows``."""
    start = time.perf_counter()
    make, _ = TEXT[table]
    runs = [
        text.run(row, classifier, data, output=output, engine=engine, track=track)
        for row in needed_rows(table, data, curves=curves)
    ]
    return replace(make(agreement.measured(runs)), seconds=time.perf_counter() - start)


def theorems(*, folder: Path = THEOREMS, each: Each = in_turn, track: Track = untracked) -> Result:
    """The theorem table: each statement with its verdict, from running its proof."""
    start = time.perf_counter()
    files = sorted(folder.glob("test_*.py"))
    found = collected(prove, files, each=each, track=track, description="theorems")
    verdicts = numbered(verdict for file in files for verdict in found[file])
    counts = Counter(verdict.verdict for verdict in verdicts)
    return Result(
        name="theorems",
        table="theorems",
        title="Theorems: what LRP rules guarantee, and what they do not",
        text=(
            "Each line was decided just now by exact computation: 'proved' by an identity of "
            "rational functions over generic symbols, 'refuted' by an exact counterexample."
        ),
        settings={"files": [file.name for file in files]},
        rows=[asdict(verdict) for verdict in verdicts],
        notes=(
            f"Of {len(verdicts)} statements about LRP rules: "
            f"{', '.join(f'{n} {verdict}' for verdict, n in sorted(counts.items()))}.",
        ),
        seconds=time.perf_counter() - start,
    )


def table1(
    *,
    seeds: Sequence[int] = DIGIT_SEEDS,
    epochs: int = digits.EPOCHS,
    count: int | None = None,
    each: Each = in_turn,
    track: Track = untracked,
) -> Result:
    """Table 1 on the embedded digits: one linear-attention network per seed, two factorizations."""
    start = time.perf_counter()
    network = partial(_network, epochs, count)
    runs = collected(network, seeds, each=each, track=track, description="digits")
    examples: dict[str, list] = {"seed": []}
    for seed, run in runs.items():
        count = len(run.examples["label"])
        examples["seed"] += [seed] * count
        for key, values in run.examples.items():
            examples.setdefault(key, []).extend(values.tolist())
    rows = [
        _table1_row(runs, examples, explainer, pair, paper)
        for explainer, row in digits.PAPER.items()
        for pair, paper in row.items()
    ]
    accuracy = {seed: round(run.accuracy, 3) for seed, run in runs.items()}
    return Result(
        name="table1",
        table="table1",
        title="Table 1: one function, two factorizations, on handwritten digits",
        text=(
            "Linear attention without softmax on 8×8 digits, evaluated as (QKᵀ)V (L, qk_first) or "
            "Q(KᵀV) (R, kv_first) with the same weights: mean Pearson's r between pixel maps "
            f"over {len(examples['seed']) // len(runs)} test images of each of "
            f"{len(runs)} trained networks (accuracy {', '.join(map(str, accuracy.values()))}). "
            "The paper's numbers are from 14×14 MNIST and a network whose details it leaves open. "
            "The number of epochs follows from the accuracy on held-out training images "
            f"(at least {digits.GOAL} for every seed, benchmarks/experiments/table1/digits.py)."
        ),
        settings={
            "seeds": list(runs),
            "epochs": epochs,
            "epsilon": 1e-6,
            "accuracy": accuracy,
        },
        rows=rows,
        examples=examples,
        notes=(*_table1_notes(rows), *undefined(rows)),
        seconds=time.perf_counter() - start,
    )


def _network(epochs, count, seed):
    return digits.table1(seed=seed, epochs=epochs, count=count)


def _table1_notes(rows):
    """What of the paper's table comes back and what does not, in words, from the numbers."""
    r = {f"{row['explainer']} {row['pair']}": row["r raw"] for row in rows}
    same = [name for name in ("LOO", "IG", "AttnLRP") if r[f"{name} L vs R"] > 1 - 1e-9]
    differ = [name for name in ("LOO", "IG", "AttnLRP") if name not in same]
    yield (
        f"The same map for both factorizations: {', '.join(same) or 'none'}; different maps: "
        f"{', '.join(differ) or 'none'} (in the paper: LOO, IG; AttnLRP)."
    )
    far = [row for row in rows if abs(row["r raw"] - row["paper r"]) > 0.5]
    if far:
        cells = [f"{row['explainer']} {row['pair']} ({row['paper r']})" for row in far]
        yield f"More than 0.5 away from the paper: {', '.join(cells)}."


def _table1_row(runs, examples, explainer, pair, paper):
    row = {"explainer": explainer, "pair": pair, "paper r": paper}
    for maps in ("raw", "sum to one"):
        key = f"{explainer} {pair} {maps} all"
        mean, low, high, undefined = bootstrap_mean(examples[key], seed=0)
        row[f"r {maps}"] = mean
        row |= {f"r {maps} low": low, f"r {maps} high": high, f"r {maps} undefined": undefined}
    key = f"{explainer} {pair} raw all"
    per_seed = [bootstrap_mean(run.examples[key], seed=0).mean for run in runs.values()]
    return row | {"range": f"{min(per_seed):.2f}–{max(per_seed):.2f}"}
