"""Every table is one record in a module of its own, and the index has all of them."""

import ast
from pathlib import Path

import pytest

from benchmarks import names
from benchmarks.experiments import theorems
from benchmarks.experiments.record import experiment

FOLDER = Path(names.__file__).parent / "experiments"


def ends_in_a_record(path):
    last = ast.parse(path.read_text("utf-8")).body[-1:]
    return any(isinstance(x, ast.Assign) and x.targets[0].id == "EXPERIMENT" for x in last)


def test_the_index_has_every_module_that_ends_in_a_record_under_the_name_that_it_says():
    modules = {
        ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        for path in FOLDER.rglob("*.py")
        if ends_in_a_record(path)
    }
    assert modules == set(names.EXPERIMENTS.values())
    assert [experiment(name).name for name in names.EXPERIMENTS] == list(names.EXPERIMENTS)


def test_those_on_texts_are_those_that_are_computed_from_rows():
    assert {name for name in names.EXPERIMENTS if experiment(name).rows} == set(names.ON_TEXTS)


def test_each_table_that_is_reproduced_says_how():
    assert {name for name in names.EXPERIMENTS if experiment(name).run} == set(names.TABLES)
    assert set(names.DEFAULT_TABLES) <= set(names.TABLES)


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_a_report_of_ones_own_is_not_replaced(run, small, tmp_path, name):
    theorems.theorems().write(tmp_path)
    (tmp_path / name).write_text("mine")
    for call in (["report", tmp_path], ["reproduce", "table1", "--output", tmp_path]):
        code, _, err = run(*call)
        assert (code, f"no run wrote {tmp_path / name}, and the report" in err) == (2, True)
    assert (tmp_path / name).read_text() == "mine"
