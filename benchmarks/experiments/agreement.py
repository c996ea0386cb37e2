"""Tables of the text experiments, computed from stored relevance maps: Table 2, Figure 2 and A3."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.experiments import text
from benchmarks.experiments.result import Result, undefined
from benchmarks.experiments.rows import cells, layers_label
from benchmarks.experiments.text import Run
from numeric.evaluation.correlation import bootstrap_mean, kendall, normalise, pearson

SEED = 0  # of the bootstrap
FEW = 20  # texts, below which resampling them says little about others
METHODS = ("LOO", "IG", "Rollout", "AttnLRP", "CP-LRP")  # in the order of Table 2, before others
PAIR = ("CP-LRP", "AttnLRP")  # whose difference is put in words
CURVES = {"LeRF": "lerf mean", "MoRF": "morf mean"}
AOPC = {"AOPC LeRF": "lerf aopc", "AOPC MoRF": "morf aopc"}


@dataclass(frozen=True, kw_only=True)
class Maps:
    """What one method says of every text: (example, token) arrays, and one value per example."""

    relevance: np.ndarray  # 0 at padding
    present: np.ndarray  # bool: not padding
    content: np.ndarray  # bool: neither special token nor padding
    values: dict[str, np.ndarray]  # (example,): label, logit, curves, ...


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All that was measured on one model and data set, by label of the method."""

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
        """A Result of this data, with its settings."""
        name = f"{table}-{self.settings['dataset']}"
        settings = self.settings | {"chunk": self.chunk, "measured by commits": self.commits}
        return Result(name=name, table=table, settings=settings, **parts)


def measured(runs: Sequence[Run]) -> Measured:
    """The maps of several rows over the same texts; raises ValueError if they are not the same."""
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
    """The dtype of all rows, or each with the rows that were measured in it."""
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
    """Pearson r with LOO per text: over all and content tokens, raw and summing to one."""
    a, b, found = maps.relevance, loo.relevance, {}
    for tokens, keep in {"all": loo.present, "content": loo.content}.items():
        found[f"r {tokens}"] = pearson(a, b, keep)
        found[f"r {tokens}, sum to one"] = pearson(normalise(a, keep), normalise(b, keep), keep)
    return found


def means(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Mean, 95 % interval and number of undefined values of every column."""
    row = {}
    for key, column in values.items():
        mean, low, high, missing = bootstrap_mean(column, seed=SEED)
        row |= {key: mean, f"{key} low": low, f"{key} high": high, f"{key} undefined": missing}
    return row


def statistics(maps: Maps, loo: Maps) -> dict[str, np.ndarray]:
    """All that a line of Table 2 averages: agreement with LOO, and the curves if measured."""
    found = correlations(maps, loo)
    for tokens, keep in {"all": loo.present, "content": loo.content}.items():
        found[f"tau {tokens}"] = kendall(maps.relevance, loo.relevance, keep)
    curves = {key: maps.values[column] for key, column in CURVES.items() if column in maps.values}
    if curves:
        found |= curves | {"Δ": curves["LeRF"] - curves["MoRF"]}
        found |= {key: maps.values[column] for key, column in AOPC.items()}
    return found


def table2(data: Measured) -> Result:
    """Table 2: agreement of each method with LOO, and perturbation curves."""
    loo = data.maps["LOO"]
    order = sorted(data.maps, key=[*METHODS, *data.maps].index)
    found = {label: statistics(data.maps[label], loo) for label in order}
    rows = []
    for label, values in found.items():
        paper = {"method": "  paper", **data.paper.get(label, {})}
        rows += [{"method": label, **means(values)}, paper]
    examples = stacked({(label,): values for label, values in found.items()}, loo, ["method"])
    return data.result(
        "table2",
        title=f"Table 2: agreement with Leave-One-Out on {data.dataset}",
        text=TABLE2_TEXT,
        rows=rows,
        examples=examples,
        notes=(*notes(examples, data.paper), *_gaps(data), *undefined(rows)),
    )


def _gaps(data):
    """How far a path that is summed in steps is from completeness."""
    for label, maps in data.maps.items():
        if text.GAP not in maps.values:
            continue
        gap = np.abs(maps.values[text.GAP])
        yield (
            f"{label} with {data.steps[label]}: its relevance and the change of the logit "
            f"from the baseline differ by {gap.mean():.3f} logits in the mean over texts, at most "
            f"{gap.max():.3f} (completeness gap)."
        )


def figure2(data: Measured) -> Result:
    """Figure 2 and Table A3: agreement with LOO when some layers bypass the softmax."""
    loo = data.maps["LOO"]
    found = {label: statistics(maps, loo) for label, maps in data.maps.items() if maps is not loo}
    averages = {label: means(values) for label, values in found.items()}
    depth = max(len(label.split()) for label in found)
    rows = [{"order": "AttnLRP", "layer": 0, "layers": 0, **averages["none"]}]
    for (order, n), chosen in cells(depth).items():
        row = {"order": order, "layer": n, "layers": len(chosen), **averages[layers_label(chosen)]}
        rows.append(row | _paper_cell(data.paper.get(order, {}), n, depth))
    return data.result(
        "figure2",
        title=f"Figure 2: which layers gain from bypassing the softmax, on {data.dataset}",
        text=SWEEP_TEXT,
        rows=rows,
        examples=stacked({(label,): values for label, values in found.items()}, loo, ["layers"]),
        notes=(*_sweep_notes(found, rows), *([] if "Δ" in rows[0] else [WITHOUT_CURVES])),
    )


def _paper_cell(columns, n, depth):
    """The paper's numbers for one cell, if its model is as deep as this one."""
    return {
        f"paper {key}": values[n - 1] for key, values in columns.items() if len(values) == depth
    }


def _sweep_notes(found, rows):
    """Which single layers gain, from intervals of the paired difference to AttnLRP."""
    for tokens in ("all", "content"):
        key = f"r {tokens}"
        singles = [row["layer"] for row in rows if row["order"] == "single layer"]
        gaps = {
            n: bootstrap_mean(found[str(n)][key] - found["none"][key], seed=SEED) for n in singles
        }
        up = [str(n) for n, gap in gaps.items() if gap.low > 0]
        down = [str(n) for n, gap in gaps.items() if gap.high < 0]
        best = max(gaps, key=lambda n: gaps[n].mean)
        yield (
            f"Over {tokens} tokens, bypassing the softmax in one layer brings AttnLRP closer to "
            f"Leave-One-Out in {_layers(up)}, and farther from it in {_layers(down)} (95 % "
            "intervals of the paired difference exclude 0); the largest gain is "
            f"{gaps[best].mean:+.3f} [{gaps[best].low:+.3f}, {gaps[best].high:+.3f}], in layer "
            f"{best}."
        )


def _layers(numbers):
    return f"layers {', '.join(numbers)}" if numbers else "no layer"


def stacked(found: Mapping[tuple, Mapping], loo: Maps, keys: Sequence[str]) -> dict[str, list]:
    """Per-text values as columns: the texts' own, and a block of lines per entry of ``found``."""
    own = ("example", "label", "tokens", "target", "logit")
    measured = dict.fromkeys(key for values in found.values() for key in values)
    missing = [math.nan] * len(loo.present)  # of methods without curves
    columns: dict[str, list] = {}
    for where, values in found.items():
        block = {key: [name] * len(loo.present) for key, name in zip(keys, where, strict=True)}
        block |= {key: loo.values[key].tolist() for key in own}
        block |= {key: values[key].tolist() if key in values else missing for key in measured}
        for key, column in block.items():
            columns.setdefault(key, []).extend(column)
    return columns


def notes(columns: Mapping[str, list], paper: Mapping[str, Mapping]) -> tuple[str, ...]:
    """Which of the two LRP variants is closer to LOO, in words, from the per-text values."""
    if not set(PAIR) <= set(columns["method"]):
        return ()
    gaps = {tokens: paired_gap(columns, f"r {tokens}") for tokens in ("all", "content")}
    found = [f"Over {tokens} tokens, {_compared(gap)}." for tokens, gap in gaps.items()]
    if len(set(columns["example"])) < FEW:
        found.append(f"With fewer than {FEW} texts these intervals are too narrow: use more.")
    if all(map(_decided, gaps.values())) and gaps["all"].mean * gaps["content"].mean < 0:
        found.append(HINGES)
    theirs = [paper.get(method, {}).get("r all, sum to one") for method in PAIR]
    if None not in theirs:
        found.append(
            f"The paper reports {theirs[0]:.2f} for CP-LRP and {theirs[1]:.2f} for AttnLRP, over "
            "all tokens of maps that sum to one, with BERT-base."
        )
    return tuple(found)


def paired_gap(columns: Mapping[str, list], key: str):
    """r of CP-LRP minus r of AttnLRP: mean over texts, with interval."""
    values: dict[str, dict] = {method: {} for method in PAIR}
    for method, example, r in zip(columns["method"], columns["example"], columns[key], strict=True):
        values.get(method, {})[example] = r
    ours, other = values.values()
    return bootstrap_mean([ours[n] - other[n] for n in sorted(ours)], seed=SEED)


def _decided(gap):
    return gap.low > 0 or gap.high < 0


def _compared(gap):
    if np.isnan(gap.mean):
        return "no text has an r for both CP-LRP and AttnLRP"
    verdict = "the interval contains 0, so these texts do not separate the two"
    if _decided(gap):
        verdict = f"{'CP-LRP' if gap.mean > 0 else 'AttnLRP'} is closer to Leave-One-Out"
    return (
        f"r of CP-LRP minus r of AttnLRP is {gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}] "
        f"(paired, 95 % bootstrap): {verdict}"
    )


HINGES = (
    "The sign of that difference changes once [CLS] and [SEP] are left out: which rule is closer "
    "hinges on two tokens that carry no content."
)
TABLE2_TEXT = (
    "Mean over texts of Pearson's r, and of Kendall's τ-b, between each method's relevance and "
    "Leave-One-Out (token masked in the attention mask, logit of the predicted class), over all "
    "tokens and over content tokens alone ([CLS] and [SEP] left out), with 95 % bootstrap "
    "intervals over texts. The paper normalises every map to sum to one, which turns r around "
    "whenever exactly one of the two sums is negative: its r belongs beside 'sum to one'. LeRF "
    "and MoRF are the mean logit while tokens are removed, least or most relevant first; Δ = LeRF "
    "− MoRF; AOPC is the mean drop of the logit from its start. The paper's numbers belong to "
    "BERT-base on SST-2 or IMDB: they stand beside ours for comparison, not as a target."
)
SWEEP_TEXT = (
    "AttnLRP everywhere, except that the named layers treat attention as CP-LRP does (all "
    "relevance to the values, none through the softmax): mean Pearson's r with Leave-One-Out, and "
    "Δ = LeRF − MoRF. Layer n of 'front to back' means layers 1 to n, of 'back to front' layers n "
    "to the last. The paper's numbers (Table A3) are for BERT-base and maps that sum to one."
)
WITHOUT_CURVES = "Δ is left out: `lrp-axioms reproduce figure2 --curves` measures it."
