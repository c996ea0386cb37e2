"""Table 1 on 14×14 MNIST as a sweep over choices that the paper leaves open.

``configs/table1-mnist.toml`` lists them.

Every specification is declared beforehand, and all are reported; none is chosen.
"""

import json
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from lrp_axioms.axioms import schema
from lrp_axioms.benchmarks.errors import RunError
from lrp_axioms.benchmarks.experiments.maps import means
from lrp_axioms.benchmarks.experiments.record import Experiment, interval, number, percent, value
from lrp_axioms.benchmarks.experiments.result import Result, joined, undefined
from lrp_axioms.benchmarks.experiments.table1 import methods
from lrp_axioms.benchmarks.experiments.table1.analysis import SAME, analyse, analyses, column
from lrp_axioms.benchmarks.experiments.table1.findings import findings, strips
from lrp_axioms.benchmarks.experiments.table1.images import Images, load
from lrp_axioms.benchmarks.experiments.table1.pixel_attention import PixelAttention, Specification
from lrp_axioms.benchmarks.running.folders import claim, read_part, write_part
from lrp_axioms.benchmarks.running.provenance import provenance
from lrp_axioms.benchmarks.running.timing import one_thread
from lrp_axioms.benchmarks.running.workers import Track, untracked
from lrp_axioms.numeric.evaluation.correlation import flipped

CONFIG = Path(__file__).parents[2] / "configs" / "table1-mnist.toml"


SIDES = {"3.1": {"L": "qk_first", "R": "kv_first"}, "4.3": {"L": "kv_first", "R": "qk_first"}}


@dataclass(frozen=True)
class Declared:
    """Fields of configs/table1-mnist.toml."""

    tolerance: float
    accuracy: float
    paper: dict[str, float]
    training: dict[str, int | float]
    analysis: dict[str, int | float | list[str]]
    reduced: dict[str, Any]
    main: dict[str, Any]
    models: dict[str, dict[str, str | bool]]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Networks, their training and analysis, and the paper's numbers."""

    tolerance: float
    accuracy: float
    paper: dict[str, float]
    training: dict
    analysis: dict
    models: dict[tuple[str, int], Specification]  # by name and seed


def declared(*, reduced: bool = False) -> Grid:
    """Reads the grid of configs/table1-mnist.toml; reduced: three networks, for seconds."""
    table = schema.read(CONFIG, Declared, "declaration of Table 1")
    main, less = table.main, table.reduced
    seeds = main.pop("seeds")
    models = {("main", seed): main for seed in seeds}
    models |= {(name, seeds[0]): main | changed for name, changed in table.models.items()}
    if reduced:
        models = {(name, seeds[0]): models[name, seeds[0]] for name in less["models"]}
    return Grid(
        tolerance=table.tolerance,
        accuracy=table.accuracy,
        paper=table.paper,
        training=table.training | (less["training"] if reduced else {}),
        analysis=table.analysis | (less["analysis"] if reduced else {}),
        models={key: Specification(**choices) for key, choices in models.items()},
    )


@one_thread()
def sweep(
    images: Images, *, output: Path, reduced: bool = False, track: Track = untracked
) -> Result:
    """Trains and analyses every declared specification that ``output`` does not have yet.

    ``output`` gets one Parquet file per network, with r per test image.  Raises RunError for a
    folder of another configuration, a broken file, or too few images, and ArithmeticError if LOO
    or IG differ between the two orders.
    """
    grid = declared(reduced=reduced)
    _check_counts(grid, images)
    output.mkdir(parents=True, exist_ok=True)
    digest = claim(output, _record(grid, images))
    file = lambda name, seed: f"{re.sub('[^a-z0-9]+', '-', name)}-seed{seed}.parquet"
    paths = {key: output / file(*key) for key in grid.models}
    for path in filter(Path.exists, paths.values()):
        _read(path, grid, digest)  # refuses a broken file before hours of training
    for key in track([key for key, path in paths.items() if not path.exists()], "mnist"):
        write_part(paths[key], measure(grid, key, images), digest)
    tables = {key: _read(path, grid, digest) for key, path in paths.items()}
    rows = [row for key, table in tables.items() for row in _rows(grid, key, table)]
    accuracies = [row["accuracy"] for row in rows]
    limits = {"tolerance": grid.tolerance, "accuracy": grid.accuracy}
    return Result(
        name="table1-mnist",
        table="table1-mnist",
        title="Table 1: one function, two factorizations, on 14×14 MNIST",
        text=(
            "Linear attention without softmax, evaluated as (QKᵀ)V (qk_first) or Q(KᵀV) "
            "(kv_first) with the same weights: mean Pearson's r between pixel maps over "
            f"{grid.analysis['images']} test images, for {len(grid.models)} trained networks "
            f"(test accuracy {min(accuracies):.2f} to {max(accuracies):.2f}) and every analysis "
            "that the paper's text allows. Each specification was declared before any "
            "correlation was computed, and all are here."
        ),
        settings=_record(grid, images) | limits | {"origin": images.origin},
        rows=rows,
        examples=joined(
            table.to_pydict() | {"model": [name] * len(table), "seed": [seed] * len(table)}
            for (name, seed), table in tables.items()
        ),
        notes=(
            *findings(rows, **limits, invariance=_invariance(tables.values())),
            *undefined(rows),
        ),
    )


def _check_counts(grid, images):
    wanted = {"train": grid.training["images"], "test": grid.analysis["images"]}
    there = {split: len(images.labels[split]) for split in wanted}
    few = [f"{there[s]} of {n} {s} images" for s, n in wanted.items() if there[s] < n]
    if few:
        raise RunError(f"{images.origin} has {' and '.join(few)}; get the whole data set again")


def measure(grid: Grid, key: tuple[str, int], images: Images) -> pa.Table:
    """Trains a network in float32, and returns r per test image by analysis, in float64."""
    start = time.perf_counter()
    name, seed = key
    train, test = _scaled(images, grid.models[key])
    model = _train(grid.models[key], train, images.labels["train"], seed=seed, **grid.training)
    accuracy = methods.accuracy(model, test.float(), images.labels["test"])
    model.double().requires_grad_(requires_grad=False)
    count = grid.analysis["images"]
    ink = (images.pixels["test"][:count] > 0).numpy()
    columns = analyse(model, test[:count], grid.analysis, ink=ink, mean=train.mean(dim=0))
    columns = {"label": images.labels["test"][:count].numpy()} | columns
    made = {"model": name, "seed": seed, "accuracy": accuracy, "provenance": provenance()}
    made["seconds"] = time.perf_counter() - start
    return pa.table(columns).replace_schema_metadata({"made": json.dumps(made)})


def _scaled(images, specification):
    """Scales training and test pixels for the network."""
    train, test = images.pixels["train"], images.pixels["test"]
    if specification.input == "unit":
        return train, test
    mean, deviation = train.mean(), train.std()
    return (train - mean) / deviation, (test - mean) / deviation


def _train(specification, pixels, labels, *, seed, images, width, **training):
    pixels, labels = pixels[:images].float(), labels[:images]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = PixelAttention(specification, tokens=pixels.shape[1], width=width)
        *_, model = methods.fit(model, pixels, labels, **training)
    return model


def _rows(grid, key, table):
    """Yields a row per analysis of a network and number of the paper that it may answer."""
    name, seed = key
    made = json.loads(table.schema.metadata[b"made"])
    about = {"model": name, "seed": seed, "accuracy": made["accuracy"]}
    for settings in analyses(grid.analysis):
        both = [table[column(settings | {"maps": maps})].to_numpy() for maps in methods.MAPS]
        r = means({"r": table[column(settings)].to_numpy()})
        r |= {"r raw": float(np.nanmean(both[0])), "flips": float(np.nanmean(flipped(*both)))}
        choices = {axis: "–" for axis in ("level", "bias", "baseline", "sides")} | settings
        pair = choices.pop("pair")
        for answered, sides in _numbers(pair, grid.analysis["sides"]):
            paper = grid.paper[answered]
            reached = abs(r["r"] - paper) <= grid.tolerance
            row = about | {"number": answered} | choices | {"sides": sides}
            yield row | asdict(grid.models[key]) | r | {"paper r": paper, "reached": reached}


def _numbers(pair, sections):
    """Returns the paper's numbers that a pair of maps answers, with the section of the sides."""
    if pair in ("AttnLRP L vs R", "IG vs LOO"):
        return [(pair, "–")]
    order = pair.split()[1]
    pairs = ((x, side) for x in sections for side, named in SIDES[x].items() if named == order)
    return [(f"AttnLRP {side} vs LOO", section) for section, side in pairs]


def _invariance(tables):
    """Returns explainer -> largest difference of the orders over networks, number of images."""
    tables = list(tables)
    names = [name for name in tables[0].column_names if name.endswith(SAME)]
    return {
        name.removesuffix(SAME): (
            max(np.nanmax(table[name].to_numpy()) for table in tables),
            int((~np.isnan(tables[0][name].to_numpy())).sum()),
        )
        for name in names
    }


def _record(grid, images):
    """Returns all settings of the values; a folder of results belongs to one record."""
    words = lambda one: ", ".join(f"{name}={value}" for name, value in asdict(one).items())
    models = {f"{name}, seed {seed}": words(one) for (name, seed), one in grid.models.items()}
    own = {"training": grid.training, "analysis": grid.analysis, "models": models}
    return {"images": images.sha256} | own


def _read(path, grid, digest):
    table = read_part(path, digest)
    wanted = {column(settings) for settings in analyses(grid.analysis)}
    missing = sorted(wanted - set(table.column_names))
    if missing or len(table) != grid.analysis["images"]:
        raise RunError(
            f"{path} has {len(table)} images and lacks {missing or 'no column'}: "
            f"{grid.analysis['images']} images are wanted; remove this file and run again"
        )
    return table


EXPERIMENT = Experiment(
    name="table1-mnist",
    reads_data_dir=True,
    prepare=lambda request: {"images": load(data_dir=request.data_dir)},
    run=lambda request, images: sweep(
        images, output=request.output / "table1-mnist", track=request.track
    ),
    columns=[
        ("number of the paper", value("number")),
        ("network", lambda row: f"{row['model']}, seed {row['seed']}"),
        ("level", value("level")),
        ("bias", value("bias")),
        ("baseline", value("baseline")),
        ("maps", lambda row: f"{row['maps']}, {row['pixels']}"),
        ("§", value("sides")),
        ("r, raw", number("r raw")),
        ("flips", percent("flips")),
        ("r", interval("r")),
        ("paper", number("paper r", 4)),
    ],
    short=lambda row: row["reached"],
    figure=strips,
)
