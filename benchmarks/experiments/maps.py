"""Stored relevance maps of the text experiments, and computations that several tables share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lrp_axioms.benchmarks.experiments.result import Result, joined
from lrp_axioms.benchmarks.experiments.rows import Row
from lrp_axioms.numeric.evaluation.correlation import bootstrap_mean, kendall, normalise, pearson

SEED = 0  # of the bootstrap
FEW = 20  # texts, below which resampling them says little about others
CURVES = {"LeRF": "lerf mean", "MoRF": "morf mean"}
GAP = "completeness_gap"  # of Integrated Gradients, among its details
AOPC = {"AOPC LeRF": "lerf aopc", "AOPC MoRF": "morf aopc"}


@dataclass(frozen=True, kw_only=True)
class Run:
    """A complete row: its settings, and its measurements, one line per text and variant."""

    row: Row
    settings: dict
    table: pa.Table
    chunk: int  # tokens per removal step of a curve
    commits: list[str]  # of the code that measured


@dataclass(frozen=True, kw_only=True)
class Maps:
    """One method's maps of all texts: (example, token) arrays, and one value per example."""

    relevance: np.ndarray  # 0 at padding
    present: np.ndarray  # bool: not padding
    content: np.ndarray  # bool: neither special token nor padding
    values: dict[str, np.ndarray]  # (example,): label, logit, curves, ...


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Measurements on one model and data set, by label of the method."""

    settings: dict
    maps: dict[str, Maps]
    paper: dict[str, Mapping]  # by label, or by order of the layer sweep
    chunk: int
    steps: dict[str, str] = field(default_factory=dict)  # of methods that sum along a path
    layers: pa.Table | None = None  # entropy and errors per text and layer
    commits: tuple[str, ...] = ()  # of the code that measured

    @property
    def dataset(self) -> str:
        return f"{self.settings['examples']} texts of {self.settings['dataset']!r}"

    def result(self, table: str, **parts) -> Result:
        """Makes a Result of this data, with its settings."""
        name = f"{table}-{self.settings['dataset']}"
        settings = self.settings | {"chunk": self.chunk, "measured by commits": self.commits}
        return Result(name=name, table=table, settings=settings, **parts)


def measured(runs: Sequence[Run]) -> Measured:
    """Joins the maps of several rows; raises ValueError if their texts differ."""
    maps, paper, steps, layers = {}, {}, {}, None
    for run in runs:
        if run.settings["dataset_sha256"] != runs[0].settings["dataset_sha256"]:
            raise ValueError(f"{run.row.name} and {runs[0].row.name} are not about the same texts")
        if "relevance" in run.table.column_names:
            maps |= _by_variant(run.table)
        else:
            layers = run.table
        paper |= run.row.paper
        steps |= run.row.steps()
    return Measured(
        settings=runs[0].settings | {"dtype": _dtypes(runs)},
        maps=maps,
        paper=paper,
        chunk=runs[0].chunk,
        steps=steps,
        layers=layers,
        commits=tuple(sorted({commit for run in runs for commit in run.commits})),
    )


def _dtypes(runs):
    """Returns the dtype of all rows, or each dtype with its rows."""
    found: dict[str, list[str]] = {}
    for run in runs:
        found.setdefault(run.settings["dtype"], []).append(run.row.name)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{dtype}: {', '.join(names)}" for dtype, names in found.items())


def _by_variant(table: pa.Table) -> dict[str, Maps]:
    labels = dict.fromkeys(table["variant"].to_pylist())
    return {label: _maps(table.filter(pc.field("variant") == label)) for label in labels}


def _maps(table: pa.Table) -> Maps:
    table = table.sort_by("example")
    tokens = table["tokens"].to_numpy()
    present = np.arange(tokens.max()) < tokens[:, None]
    filled = {}
    for key, dtype in (("relevance", float), ("content", bool)):
        filled[key] = np.zeros(present.shape, dtype)
        filled[key][present] = pc.list_flatten(table[key]).to_numpy()
    own = [key for key in table.column_names if key not in ("variant", *filled)]
    return Maps(present=present, values={key: table[key].to_numpy() for key in own}, **filled)


def correlations(maps: Maps, loo: Maps) -> dict[str, np.ndarray]:
    """Returns Pearson r with LOO per text: over all and content tokens, raw and summing to one."""
    a, b, found = maps.relevance, loo.relevance, {}
    for tokens, keep in {"all": loo.present, "content": loo.content}.items():
        found[f"r {tokens}"] = pearson(a, b, keep)
        found[f"r {tokens}, sum to one"] = pearson(normalise(a, keep), normalise(b, keep), keep)
    return found


def means(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Returns mean, 95 % interval and number of undefined values of every column."""
    row = {}
    for key, column in values.items():
        mean, low, high, missing = bootstrap_mean(column, seed=SEED)
        row |= {key: mean, f"{key} low": low, f"{key} high": high, f"{key} undefined": missing}
    return row


def statistics(maps: Maps, loo: Maps) -> dict[str, np.ndarray]:
    """Returns the values behind a line of Table 2: agreement with LOO, and measured curves."""
    found = correlations(maps, loo)
    for tokens, keep in {"all": loo.present, "content": loo.content}.items():
        found[f"tau {tokens}"] = kendall(maps.relevance, loo.relevance, keep)
    curves = {key: maps.values[column] for key, column in CURVES.items() if column in maps.values}
    if curves:
        found |= curves | {"Δ": curves["LeRF"] - curves["MoRF"]}
        found |= {key: maps.values[column] for key, column in AOPC.items()}
    return found


def too_few(count: int, what: str = "texts") -> list[str]:
    """Warns of intervals over fewer than ``FEW`` texts, or other things."""
    said = f"With fewer than {FEW} {what} these intervals are too narrow: use more."
    return [said] if count < FEW else []


def stacked(found: Mapping[str, Mapping], loo: Maps, key: str) -> dict[str, list]:
    """Per-text values as columns: the label as ``key``, the texts' own, and a block per label."""
    own = ("example", "label", "tokens", "target", "logit")
    measured = dict.fromkeys(name for values in found.values() for name in values)
    missing = [math.nan] * len(loo.present)  # of methods without curves
    return joined(
        {key: [label] * len(loo.present)}
        | {name: loo.values[name].tolist() for name in own}
        | {name: values[name].tolist() if name in values else missing for name in measured}
        for label, values in found.items()
    )
