"""The output of ``reproduce`` fits two screens; pages have every row."""

import ast
import re
from pathlib import Path

import pytest
from rich.console import Console

from axioms.evidence.statements import THEOREMS
from benchmarks.experiments import record, rows, table2, tables, theorems
from benchmarks.experiments.record import experiment
from benchmarks.experiments.result import Result

ROOT = Path(__file__).resolve().parents[2]
SCREENS = 2 * 47
ORDERS = ("front to back", "back to front", "single layer")
LAYERS = [("AttnLRP", 0), *((order, n) for order in ORDERS for n in range(1, 13))]


def result(table, rows):
    return Result(name=table, table=table, title="Title", text="", settings={}, rows=rows)


def theorem(test, verdict="proved"):
    row = {"label": test, "statement": "S", "verdict": verdict, "witness": "", "method": "m"}
    return row | {"test": f"axioms/theorems/test_x.py::{test}"}


def layer(order, n):
    return {"order": order, "layer": n, "layers": n}


def shown(table, rows, **options):
    console = Console(width=80)
    with console.capture() as captured:
        console.print(tables.terminal(result(table, rows), **options))
    return captured.get()


def test_the_theorems_that_matter_exist():
    code = "\n".join(path.read_text("utf-8") for path in THEOREMS.glob("test_*.py"))
    tests = {node.name for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)}
    assert set(theorems.MATTER) <= tests


def test_a_terminal_has_the_theorems_that_matter_and_those_that_failed():
    rows = [theorem(name) for name in (theorems.MATTER[0], "test_other")]
    rows.append(theorem("test_failed", "not established"))
    shortest = experiment("theorems").shortest
    assert len(tables.cells(result("theorems", rows), only=shortest)[1]) == 2
    assert len(tables.cells(result("theorems", rows))[1]) == 3
    assert "not established" in shown("theorems", rows)
    assert "test_other" in shown("theorems", rows, whole=True)
    assert "test_other" in shown("theorems", rows[1:2])  # nothing else is there to be shown


@pytest.mark.parametrize("convert", [tables.markdown, lambda found: str(tables.cells(found))])
def test_pages_have_every_layer_and_a_terminal_every_fourth(convert):
    rows = [layer(*where) for where in LAYERS]
    found = tables.cells(result("figure2", rows), only=experiment("figure2").shortest)[1]
    assert [row[:2] for row in found] == [
        ["–", "AttnLRP"],
        *([str(n), "front to back"] for n in (4, 8, 12)),
    ]
    assert convert(result("figure2", rows)).count("single layer") == 12


NEAR_ZERO = {"x": -0.0004, "x low": -0.004, "x high": 0.004}
CELLS = {
    "0.000": record.number("x"),
    "0.000 [.00, .00]": record.interval("x"),
}


@pytest.mark.parametrize("shown", CELLS)
def test_what_is_rounded_to_zero_has_no_minus(shown):
    assert CELLS[shown](NEAR_ZERO) == shown


@pytest.mark.parametrize("dataset", ["sst2", "imdb"])
def test_a_terminal_leaves_out_the_methods_of_other_papers_alone(dataset):
    assert set(table2.OTHERS) == set(rows.load(f"table2-{dataset}-neighbours").variants)


def test_the_sample_on_its_page_is_whole_and_fits_two_screens_of_80_columns():
    page = (ROOT / "docs" / "REPRODUCE.md").read_text("utf-8")
    (sample,) = re.findall(r"```text\n(Theorems: .*?)```", page, flags=re.DOTALL)
    lines = sample.splitlines()
    assert len(lines) <= SCREENS
    assert max(map(len, lines)) <= 80
    assert not any(line.strip().startswith("...") for line in lines)
    for title in ("Table 1: ", "Table 2: ", "Figure 2: ", "Time: ", "wrote results/report.html"):
        assert f"\n{title}" in sample
