"""Gains of single layers, early and late, from the layer sweep, for notebook 5."""

from collections.abc import Sequence

import numpy as np

from axioms.kinds import IDENTITY
from benchmarks.experiments import figure2, rows
from benchmarks.experiments.maps import SEED
from benchmarks.experiments.result import Result
from numeric.evaluation.correlation import BootstrapMean, bootstrap_mean

TOKENS = ("all", "content")
RULES = {"": "Eq. 5", f"{IDENTITY} ": "R_Z = R_A", "paper ": "the paper"}
CELLS = {
    "none": ("AttnLRP", 0),
    **{f"first {n}": ("front to back", n) for n in (4, 8, 10)},
    **{f"last {n}": ("back to front", 13 - n) for n in (1, 2, 3, 5)},
    "all": ("front to back", 12),
}
"""Layers that bypass the softmax -> cell of Table A3, of a model with 12."""
PAPER_R = "r all, sum to one"


def gains(result: Result, tokens: str) -> np.ndarray:
    """Returns r with one layer alone bypassing the softmax less r of AttnLRP: (layer, example)."""
    values: dict[str, list] = {}
    for label, r in zip(result.examples["layers"], result.examples[f"r {tokens}"], strict=True):
        values.setdefault(label, []).append(r)
    depth = max(len(label.split()) for label in values)
    return np.array([values[str(n)] for n in range(1, depth + 1)]) - values["none"]


def single(result: Result) -> dict[str, list[BootstrapMean]]:
    """Returns the mean gain of every layer alone, with its interval, by tokens that count."""
    return {t: [bootstrap_mean(g, seed=SEED) for g in gains(result, t)] for t in TOKENS}


def late_minus_early(result: Result) -> dict[str, BootstrapMean]:
    """Returns the mean gain of later layers less the mean gain of earlier layers, paired."""
    found = {}
    for tokens in TOKENS:
        early, late = np.split(gains(result, tokens), 2)
        found[tokens] = bootstrap_mean(late.mean(axis=0) - early.mean(axis=0), seed=SEED)
    return found


def shape(result: Result) -> list[list[str]]:
    """Returns a row per rule: r of sum-to-one maps at ``CELLS``, and gaps of its ratios.

    Returns no row for a model without the paper's 12 layers.
    """
    if not (ratios := figure2.ratios(result.rows)):
        return []
    cells = {(row["order"], row["layer"]): row for row in result.rows}
    base = {f"paper {PAPER_R}": _paper_base(result.settings["dataset"])}  # in Table 2 alone
    chosen = [base | cells[cell] for cell in CELLS.values()]
    found = []
    for rule, name in RULES.items():
        gaps = ratios[rule] - ratios["paper "]
        size = [f"{np.sqrt(np.mean(gaps**2)):.2f}", f"{np.abs(gaps).max():.2f}"]
        found.append([name, *(f"{row[rule + PAPER_R]:.2f}" for row in chosen), *size])
    return found


def _paper_base(dataset):
    return rows.load(f"table2-{dataset}-attnlrp").paper["AttnLRP"][PAPER_R]


def named(found: Sequence[BootstrapMean], sign: int) -> str:
    """Names the layers whose interval lies above 0 (sign 1) or below it (-1)."""
    chosen = [n for n, g in enumerate(found, start=1) if min(sign * g.low, sign * g.high) > 0]
    return ", ".join(map(str, chosen)) or "none"


def best(found: Sequence[BootstrapMean]) -> int:
    """Returns the layer of the largest mean gain."""
    return 1 + int(np.argmax([g.mean for g in found]))


def paper(dataset: str) -> list[float]:
    """Returns the paper's gain of every layer alone: Table A3 less AttnLRP in Table 2."""
    base = _paper_base(dataset)
    sweep = rows.load(f"figure2-{dataset}").paper["single layer"][PAPER_R]
    return [round(r - base, 2) for r in sweep]


def paper_late(dataset: str) -> str:
    """Returns the paper's mean gain of later layers less its mean gain of earlier layers."""
    early, late = np.split(np.array(paper(dataset)), 2)
    return f"{late.mean() - early.mean():+.3f}"


def paper_best(dataset: str) -> int:
    """Returns the layer of the paper's largest gain."""
    return 1 + int(np.argmax(paper(dataset)))


def by_cell(result: Result) -> dict[tuple[str, int], dict]:
    """Returns (order, layer) -> all measured values of that cell of Table A3."""
    about = ("order", "layer", "layers")
    return {
        (row["order"], row["layer"]): {
            key: str(value)  # NaN equals itself as text
            for key, value in row.items()
            if key not in about and not key.startswith("paper")
        }
        for row in result.rows
    }
