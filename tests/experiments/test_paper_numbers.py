"""The paper's own numbers, as the files of ``configs`` have them, and whether they fit together."""

import pytest

from benchmarks.experiments import rows
from benchmarks.experiments.table1 import digits
from tests.support.one_by_one import METHODS

PAPER = {
    "sst2": [
        "1.00 1.11 0.33 0.78",
        "-0.05 0.48 0.36 0.12",
        "0.08 0.72 0.38 0.35",
        "0.22 0.88 0.05 0.83",
        "0.52 1.00 0.22 0.79",
    ],
    "imdb": [
        "1.00 2.20 -0.94 3.14",
        "0.00 1.98 2.70 -0.72",
        "0.04 2.85 1.38 1.47",
        "0.25 3.72 -2.64 6.36",
        "0.26 3.73 -3.02 6.75",
    ],
}
"""Table 2, copied from the paper by eye: r, LeRF, MoRF, Δ in the order of METHODS."""
COLUMNS = ("r all, sum to one", "LeRF", "MoRF", "Δ")


@pytest.mark.parametrize("dataset", PAPER)
def test_the_papers_table_2(dataset):
    for label, line in zip(METHODS, PAPER[dataset], strict=True):
        want = dict(zip(COLUMNS, map(float, line.split()), strict=True))
        assert rows.load(f"table2-{dataset}-{METHODS[label]}").paper == {label: want}
        assert want["Δ"] == pytest.approx(want["LeRF"] - want["MoRF"], abs=0.0101)  # all rounded


def test_the_papers_table_1():
    assert digits.PAPER == {
        "LOO": {"L vs R": 1.0000, "L vs LOO": 1.0000, "R vs LOO": 1.0000},
        "IG": {"L vs R": 1.0000, "L vs LOO": -0.3707, "R vs LOO": -0.3707},
        "AttnLRP": {"L vs R": 0.7865, "L vs LOO": 0.0730, "R vs LOO": -0.0698},
    }


@pytest.mark.parametrize("dataset", PAPER)
def test_the_papers_table_a3_is_consistent(dataset):
    orders = rows.load(f"figure2-{dataset}").paper
    assert orders.keys() == rows.SWEEP.keys()
    cells = {
        (order, n): {key: columns[key][n - 1] for key in COLUMNS}
        for order, columns in orders.items()
        for n in range(1, 13)
    }
    assert all(len(columns[key]) == 12 for columns in orders.values() for key in COLUMNS)
    for cell in cells.values():
        assert cell["Δ"] == pytest.approx(cell["LeRF"] - cell["MoRF"], abs=0.0101)
    assert cells["front to back", 1] == cells["single layer", 1]
    assert cells["back to front", 12] == cells["single layer", 12]
    assert cells["front to back", 12] == cells["back to front", 1]
    table2 = rows.load(f"table2-{dataset}-cp-lrp").paper["CP-LRP"]
    assert cells["front to back", 12] == table2


A3 = {  # some cells of Table A3 away from its ends, copied from the paper by eye
    ("sst2", "front to back", 7): "0.33 0.82 0.02 0.81",
    ("sst2", "front to back", 10): "0.50 0.85 0.14 0.72",
    ("sst2", "back to front", 2): "0.52 1.12 0.13 0.98",
    ("sst2", "back to front", 7): "0.55 0.97 0.20 0.77",
    ("sst2", "back to front", 11): "0.26 0.91 0.05 0.86",
    ("sst2", "single layer", 7): "0.27 0.89 0.15 0.74",
    ("sst2", "single layer", 10): "0.32 0.93 -0.01 0.93",
    ("imdb", "front to back", 11): "0.28 3.74 -2.94 6.68",
    ("imdb", "back to front", 2): "0.26 3.74 -3.02 6.76",
    ("imdb", "back to front", 3): "0.27 3.73 -3.01 6.74",
    ("imdb", "back to front", 9): "0.25 3.73 -3.02 6.75",
    ("imdb", "back to front", 10): "0.21 3.72 -3.00 6.72",
    ("imdb", "back to front", 11): "0.20 3.72 -2.95 6.67",
    ("imdb", "single layer", 9): "0.28 3.72 -2.71 6.43",
}


@pytest.mark.parametrize("cell", A3, ids=lambda cell: " ".join(map(str, cell)))
def test_the_papers_table_a3(cell):
    dataset, order, n = cell
    columns = rows.load(f"figure2-{dataset}").paper[order]
    assert [columns[key][n - 1] for key in COLUMNS] == [float(x) for x in A3[cell].split()]
