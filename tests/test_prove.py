"""`prove` reports what the theorem tests established, and nothing else."""

import ast
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from axioms.prove import THEOREMS, numbered, prove

HEAD = "import pytest\n\n"
HOLDS = """
@pytest.mark.theorem(2, "One is one.", "proved")
@pytest.mark.parametrize("n", [1, 2])
def test_one_is_one(n, record_property):
    print("noise")
    assert n == n
    record_property("method", f"by looking at {n}")
"""
REFUTES = """
@pytest.mark.theorem(1, "One is two.", "refuted")
def test_one_is_not_two(record_property):
    assert 1 != 2
    record_property("witness", f"{1} and {2}")
"""
FAILS = """
@pytest.mark.theorem(3, "Two is three.", "proved")
@pytest.mark.parametrize("n", [2, 3])
def test_two_is_three(n):
    assert n == 3
"""


@pytest.fixture
def theorems(tmp_path):
    def write(*tests, name="test_theorems.py"):
        path = tmp_path / name
        path.write_text(HEAD + "".join(tests))
        return path

    return write


def test_a_theorem_is_one_row_with_what_its_test_recorded(theorems):
    path = theorems(HOLDS, REFUTES)
    first, second = prove(path)
    assert (first.number, first.statement) == (1, "One is two.")
    assert (first.verdict, first.witness, first.error) == ("refuted", "1 and 2", "")
    assert (second.number, second.verdict) == (2, "proved")
    assert second.method == "by looking at 1; by looking at 2"
    assert second.seconds > 0
    assert second.test == f"{path.as_posix()}::test_one_is_one"


def test_statements_of_one_number_are_lettered_in_order_and_one_alone_is_not(theorems):
    first = theorems(REFUTES, HOLDS.replace("2,", "3,", 1), FAILS, name="test_b.py")
    second = theorems(HOLDS.replace("2,", "3,", 1), name="test_c.py")
    found = prove(first, second)
    assert [(v.label, v.number) for v in found] == [("1", 1), ("3a", 3), ("3b", 3), ("3c", 3)]
    assert [Path(v.test.partition("::")[0]).name for v in found[1:]] == [
        "test_b.py",
        "test_b.py",
        "test_c.py",
    ]
    one_by_one = numbered(v for path in (first, second) for v in prove(path))
    assert [(v.label, v.test) for v in one_by_one] == [(v.label, v.test) for v in found]


def test_after_z_come_two_letters(theorems):
    (one,) = prove(theorems(REFUTES))
    labels = [verdict.label for verdict in numbered([one] * 28)]
    assert labels[:2] + labels[25:] == ["1a", "1b", "1z", "1aa", "1ab"]


WRONG = {
    "a failing assertion": (FAILS, "assert 2 == 3"),
    "an error": (HOLDS.replace("assert n == n", "1 / 0"), "ZeroDivisionError"),
    "an error before the test": (
        HOLDS.replace("(n, ", "(n, missing, "),
        "fixture 'missing' not found",
    ),
    "a skipped run": (HOLDS.replace("assert n == n", "pytest.skip()"), "skipped"),
    "an expected failure": (
        FAILS.replace("@pytest.mark.p", "@pytest.mark.xfail\n@pytest.mark.p", 1),
        "skipped",
    ),
    "a refutation without witness": (REFUTES.replace("record_property(", "print("), "no witness"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_fails_is_not_established(name, theorems):
    test, reason = WRONG[name]
    (verdict,) = prove(theorems(test))
    assert verdict.verdict == "not established"
    assert reason in verdict.error


UNREADABLE = {
    "a file that cannot be imported": ("import no_such_module\n", RuntimeError, "no_such_module"),
    "a file without theorems": ("def test_nothing():\n    pass\n", RuntimeError, "no theorem"),
    "an unknown verdict": (REFUTES.replace('"refuted"', '"true"'), ValueError, "'true'"),
    "a marker without verdict": (REFUTES.replace(', "refuted"', ""), ValueError, "verdict"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_theorem_is_an_error(name, theorems):
    text, error, message = UNREADABLE[name]
    with pytest.raises(error, match=message):
        prove(theorems(text))


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="nowhere"):
        prove(tmp_path / "test_nowhere.py")


def test_a_second_run_sees_the_file_as_it_is_then(theorems):
    assert [v.verdict for v in prove(theorems(REFUTES))] == ["refuted"]
    assert [v.verdict for v in prove(theorems(FAILS))] == ["not established"]
    assert [v.verdict for v in prove(theorems(REFUTES))] == ["refuted"]


def test_nothing_is_printed_written_or_taken_from_the_surroundings(
    theorems, tmp_path, monkeypatch, capfd
):
    path = theorems(HOLDS)
    (tmp_path / "conftest.py").write_text("raise RuntimeError\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k nothing")
    monkeypatch.chdir(tmp_path)
    files, environment = sorted(tmp_path.rglob("*")), dict(os.environ)
    modules = set(sys.modules)
    assert [v.verdict for v in prove(path)] == ["proved"]
    assert sorted(tmp_path.rglob("*")) == files
    assert os.environ == environment
    assert set(sys.modules) == modules
    assert capfd.readouterr() == ("", "")


FILES = sorted(THEOREMS.glob("test_*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_theorem_of_the_package_is_established_and_listed_in_its_file(path):
    """This is where `make test` runs the theorems, each once."""
    found = prove(path)
    assert [v.error for v in found if v.verdict == "not established"] == []
    assert all(v.witness for v in found if v.verdict == "refuted")
    assert all(v.method for v in found if v.verdict == "proved")
    source = path.read_text()
    assert len(found) == source.count("\ndef test_")
    listed = source.split('"""')[1]
    assert all(f"  {v.number}  " in listed for v in found)
    if found[0].number == 1:
        assert found[0].witness.startswith("x = (2, 3, 4): 6/6/12 versus 12/6/6")


def claims(path):
    """Number, statement and verdict of every theorem of a file, as they are written there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.theorem":
            yield tuple(map(ast.literal_eval, node.args))


def test_every_statement_of_the_package_has_a_number_and_is_made_once():
    found = [claim for path in FILES for claim in claims(path)]
    assert {number for number, *_ in found} >= {1, 2, 3, 6, 7, 8, 10, 20, 23}
    assert max(Counter(statement for _, statement, _ in found).values()) == 1


def test_the_first_proof_a_reader_meets_is_that_of_figure_1():
    names = [line for line in FILES[0].read_text().splitlines() if line.startswith("def test_")]
    assert "6_6_12_and_12_6_6" in names[0]
