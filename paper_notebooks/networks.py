"""Networks, differences and reached numbers of the sweep of Table 1, for notebook 2."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.experiments.result import Result
from benchmarks.experiments.table1.analysis import SAME


def count(result: Result) -> int:
    """Counts the trained networks."""
    return len({(row["model"], row["seed"]) for row in result.rows})


def commits(folder: Path) -> list[str]:
    """Returns the commits whose code trained and analysed the networks."""
    metadata = (pq.read_schema(path).metadata for path in sorted(folder.glob("*.parquet")))
    return sorted({str(json.loads(one[b"made"])["provenance"]["commit"]) for one in metadata})


def differences(result: Result) -> dict[str, float]:
    """Returns explainer -> largest difference of the orders, in units of a map's largest value."""
    return {
        name.removesuffix(SAME): float(np.nanmax(np.array(values, dtype=float)))
        for name, values in result.examples.items()
        if name.endswith(SAME)
    }


def ranges(result: Result, number: str) -> list[tuple]:
    """Returns network, accuracy, least and largest mean r over analyses, and the paper's r."""
    by_network: dict[tuple, list] = {}
    for row in result.rows:
        if row["number"] == number:
            about = f"{row['model']}, seed {row['seed']}", row["accuracy"], row["paper r"]
            by_network.setdefault(about, []).append(row["r"])
    return [
        (name, accuracy, np.nanmin(r), np.nanmax(r), paper)
        for (name, accuracy, paper), r in by_network.items()
    ]


def turned(result: Result) -> list[tuple]:
    """Returns a row per number: the paper's r, the closest sum-to-one r, its flips and raw r."""
    found = []
    for number in dict.fromkeys(row["number"] for row in result.rows):
        rows = [x for x in result.rows if x["number"] == number and x["r"] == x["r"]]
        raw = [row["r raw"] for row in rows]
        rows = [row for row in rows if row["maps"] == "sum to one"]
        near = min(rows, key=lambda row: abs(row["r"] - row["paper r"]))
        cells = f"{near['r']:.2f}", f"{near['flips']:.0%}", f"{near['r raw']:.2f}"
        found.append((number, near["paper r"], *cells, f"{min(raw):.2f} to {max(raw):.2f}"))
    return found


def reached(result: Result) -> dict[str, tuple]:
    """Returns number -> the paper's r, the closest r, specifications that reach it, and all."""
    found = {}
    for number in dict.fromkeys(row["number"] for row in result.rows):
        rows = [row for row in result.rows if row["number"] == number and row["r"] == row["r"]]
        nearest = min(rows, key=lambda row: abs(row["r"] - row["paper r"]))
        hits = sum(row["reached"] for row in rows)
        found[number] = nearest["paper r"], f"{nearest['r']:.4f}", hits, len(rows)
    return found
