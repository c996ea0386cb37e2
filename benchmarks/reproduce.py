"""The main job: theorems, Table 1, Table 2, Figure 2 and timing, on one model and one data set."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from axioms.prove import THEOREMS, numbered, prove
from benchmarks import digits, figures, report, text, timing
from benchmarks.data import Texts
from benchmarks.experiment import Result, Track, undefined, untracked
from benchmarks.models import Classifier
from numeric.evaluation.correlation import bootstrap_mean

DIGIT_SEEDS = (0, 1, 2)


def reproduce(
    classifier: Classifier, data: Texts, *, output: Path, track: Track = untracked
) -> Iterator[Result]:
    """Yields each experiment once its files are in ``output``; the report comes with the last.

    Files: NAME.json (with provenance), NAME.parquet (per-example values), NAME.png, report.html.
    """
    output.mkdir(parents=True, exist_ok=True)
    results = []
    for result in _experiments(classifier, data, track):
        result.write(output)
        results.append(result)
        if result.name == "time":
            (output / "report.html").write_text(report.render(results), encoding="utf-8")
        yield result


def _experiments(classifier, data, track):
    yield theorems(track=track)
    yield table1(track=track)
    found = text.groups(classifier, data, track=track)
    yield text.table2(classifier, data, found, track=track)
    yield text.sweep(classifier, data, found, track=track)
    yield timing.lrp_versus_loo(classifier, track=track)


def theorems(*, folder: Path = THEOREMS, track: Track = untracked) -> Result:
    """The theorem table: each statement with its verdict, from running its proof."""
    start = time.perf_counter()
    files = sorted(folder.glob("test_*.py"))
    verdicts = numbered(v for file in track(files, "theorems") for v in prove(file))
    counts = Counter(verdict.verdict for verdict in verdicts)
    return Result(
        name="theorems",
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
    track: Track = untracked,
) -> Result:
    """Table 1 on the embedded digits: one linear-attention network per seed, two factorizations."""
    start = time.perf_counter()
    runs = {
        seed: digits.table1(seed=seed, epochs=epochs, count=count)
        for seed in track(seeds, "digits")
    }
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
        title="Table 1: one function, two factorizations, on handwritten digits",
        text=(
            "Linear attention without softmax on 8×8 digits, evaluated as (QKᵀ)V (L, qk_first) or "
            "Q(KᵀV) (R, kv_first) with the same weights: mean Pearson's r between pixel maps "
            f"over {len(examples['seed']) // len(runs)} test images of each of "
            f"{len(runs)} trained networks (accuracy {', '.join(map(str, accuracy.values()))}). "
            "The paper's numbers are from 14×14 MNIST and a network whose details it leaves open. "
            "The number of epochs was chosen on the accuracy over these test images, after results "
            "with fewer epochs had been seen (benchmarks/digits.py): not a blind choice."
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
        figure=figures.table1,
        seconds=time.perf_counter() - start,
    )


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
