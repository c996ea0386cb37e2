"""`prove` reports the statements that a test established, and no others."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sympy as sp

from axioms.decide.decisions import IDENTICAL
from axioms.decide.identity import identical
from axioms.decide.records import Unknown, disturbing, noted, replacing
from axioms.evidence.prove import numbered, prove
from axioms.evidence.statements import ROOT, THEOREMS
from axioms.rules.ledger import Ledger

HEAD = """
import pytest
import sympy as sp
from axioms.decide.identity import differ_at, identical, sign_cases
from axioms.rules.products import equal_split

R, X = sp.symbols("R x", positive=True)
"""
HOLDS = """
@pytest.mark.theorem(2, "Half and half are all.", "proved")
@pytest.mark.parametrize("n", [2, 3])
def test_shares_add_up(n, record_property):
    print("noise")
    assert identical(sum(equal_split(n, R * X + R)), R * (X + 1))
    record_property("method", f"by adding up {n}")
"""
REFUTES = """
@pytest.mark.theorem(1, "A half is all.", "refuted")
def test_half_is_not_all(record_property):
    half, _ = equal_split(2, R)
    assert differ_at(half, R, {R: 6})
    record_property("witness", f"R = {6}: {3} of {6}")
"""
FAILS = """
@pytest.mark.theorem(3, "Half is all.", "proved")
@pytest.mark.parametrize("n", [1, 2])
def test_half_is_all(n):
    assert identical(equal_split(n, R)[0], R * n)
"""
PROVED = """
@pytest.mark.theorem(4, "It holds.", "proved")
def test_it_holds(record_property):
    {}
"""
REFUTED = """
@pytest.mark.theorem(5, "It holds.", "refuted")
def test_it_does_not_hold(record_property):
    {}
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
    assert (first.number, first.statement) == (1, "A half is all.")
    assert (first.verdict, first.witness, first.error) == ("refuted", "R = 6: 3 of 6", "")
    assert (second.number, second.verdict) == (2, "proved")
    assert second.method == "by adding up 2; by adding up 3"
    assert second.seconds > 0
    assert second.test == f"{path.as_posix()}::test_shares_add_up"
    assert (first.identities, first.points) == (0, "R = 6: 3 versus 6")
    assert (second.identities, second.points) == (2, "")
    assert first.ran == second.ran == "products.equal_split"


NOTED_FIRST = """
@pytest.mark.theorem(6, "A half is all.", "refuted")
def test_twice(record_property):
    record_property("witness", "R = 8: 4 of 8")
    half, _ = equal_split(2, R)
    assert differ_at(half, R, {R: 6, X: 1})
    assert differ_at(half, R, {R: 8, X: 1})
    assert identical(half * (X + 1), half * X + half)
    assert identical(half, half)

@pytest.mark.theorem(7, "Halves add up.", "proved")
def test_halves(record_property):
    record_property("method", f"{equal_split(2, R)[0]} twice")
    half, _ = equal_split(2, R)
    assert identical(half * (X**2 - 1) / (X - 1), half * (X + 1))
    assert identical(sum(equal_split(2, R)), R)
    assert identical(1, 1)
"""


def test_what_a_test_notes_counts_once_and_only_symbols_are_general(theorems):
    refuted, proved = prove(theorems(NOTED_FIRST))
    assert (refuted.witness, refuted.points) == (
        "R = 8: 4 of 8",
        "R = 6: 3 versus 6; R = 8: 4 versus 8",
    )
    assert (proved.method, proved.identities, refuted.identities) == ("R/2 twice", 1, 1)


@noted
def returned(found):
    return found


def numbers(found):
    if isinstance(found, Ledger):
        return numbers(vars(found))
    if isinstance(found, dict):
        return numbers(list(found.values()))
    nested = isinstance(found, (list, tuple, sp.MatrixBase))
    return [x for part in found for x in numbers(part)] if nested else [found]


M, N = sp.symbols("m n", real=True)


@pytest.mark.parametrize(
    "found",
    [
        *(0, 3, M, sp.S.Zero, sp.Matrix([[M, 0], [1, N]]), [M, 0, N], (M, (0, N)), {"a": [M, 1]}),
        Ledger(started=M, kept={"x": N, "y": 0}, absorbed={("z", "bias"): M}),
    ],
    ids=str,
)
def test_every_number_that_a_function_returns_is_disturbed_by_a_factor_of_its_own(found):
    with disturbing(IDENTICAL, []):
        other = returned(found)
    assert type(other) is type(found) or isinstance(found, int | sp.Expr)
    pairs = list(zip(numbers(found), numbers(other), strict=True))
    factors = [b / (a or 1) for a, b in pairs]
    assert all(isinstance(factor, Unknown) for factor in factors)
    assert len(set(factors)) == len(pairs)


def test_a_run_that_is_repeated_is_answered_in_the_same_order():
    answers = [True, False, False, True, True]
    with replacing(lambda name, given, found: found, answers):
        assert [identical(M, N) for _ in answers] == answers


SIGNS = "for s in sign_cases(1, 1): assert identical(equal_split(2, s[0] * X)[0], s[0] * X / 2)"


def test_what_a_test_decided_is_data_with_assumptions_point_and_sign_case(theorems):
    decisions = {}
    path = theorems(REFUTES, PROVED.format(SIGNS))
    refuted, proved = prove(path, decisions=decisions)
    (found,) = decisions[refuted.test]
    assert (found.kind, found.verdict, found.signs) == ("differ_at", True, ())
    assert [str(side) for side in (found.left, found.right)] == ["R/2", "R"]
    assert {str(x): int(value) for x, value in found.point.items()} == {"R": 6}
    assert [d.signs for d in decisions[proved.test]] == [((1,),), ((-1,),)]
    assert [d.assumptions for d in decisions[proved.test]] == [{"x": "positive"}] * 2


def test_statements_of_one_number_are_lettered_in_order_and_one_alone_is_not(theorems):
    first = theorems(REFUTES, HOLDS.replace("2,", "3,", 1), FAILS, name="test_b.py")
    second = theorems(HOLDS.replace("2,", "3,", 1), name="test_c.py")
    found = prove(first, second)
    assert [(v.label, v.number) for v in found] == [("1", 1), ("3a", 3), ("3b", 3), ("3c", 3)]
    files = [Path(v.test.partition("::")[0]).stem for v in found[1:]]
    assert files == ["test_b", "test_b", "test_c"]
    one_by_one = numbered(v for path in (first, second) for v in prove(path))
    assert [(v.label, v.test) for v in one_by_one] == [(v.label, v.test) for v in found]


def test_after_z_come_two_letters(theorems):
    (one,) = prove(theorems(REFUTES))
    labels = [verdict.label for verdict in numbered([one] * 28)]
    assert labels[:2] + labels[25:] == ["1a", "1b", "1z", "1aa", "1ab"]


SUM = "assert identical(sum(equal_split(n, R * X + R)), R * (X + 1))"
NONE, NOWHERE = "no identity was decided", "nothing of the project ran"
WITNESS, UNNAMED = 'f"R = {6}: {3} of {6}"', "names no two values that differ"
NO_PROOFS = {  # the body of a test -> the reason
    "pass": NONE,
    "assert equal_split(2, R)[0] == R / 2": NONE,
    "equal_split(2, R); assert not identical(R, X)": NONE,
    "equal_split(2, R); assert identical(0, 0)": "0 = 0: every identity is one of two constants",
    "e = (R + X) / X; assert identical(e, e)": NOWHERE,
    "half, _ = equal_split(2, R); assert identical(half * X, X * half)":
        "nothing that `identical` decides depends on what the project computes",
    "equal_split(2, R); assert identical((X + 1) ** 2, X**2 + 2 * X + 1)":
        "nothing that `identical` decides depends",
    "assert equal_split(2, R)[0] == R / 2; assert identical(X + R, R + X)":
        "before the test asserts anything else",
    "half, _ = equal_split(2, R); identical(half, R); assert identical(X + R, R + X)":
        "nothing that `identical` decides depends",
    "assert identical((X + 1) ** 2, X**2 + 2 * X + 1)": NOWHERE,
}  # fmt: skip
NO_WITNESSES = {
    'record_property("witness", "trust me")': "no witness was decided",
    "equal_split(2, R); assert differ_at(1, 2, {})": "1 versus 2 are two constants",
    "half, _ = equal_split(2, R); differ_at(half, X, {R: 4, X: 2})":
        "both sides are 2 at R = 4, x = 2: that refutes nothing",
    "half, _ = equal_split(2, R); assert differ_at(half, R, {R: -2})":
        "R = -2: what is assumed of R rules this out",
    "half, _ = equal_split(2, R); assert differ_at(half, R, {R: 0.5})":
        "R = 0.5: a point is made of exact rationals",
    "half, _ = equal_split(2, R); assert differ_at(half / X, R, {R: 2, X: 0})":
        "x = 0: what is assumed of x rules this out",
    "half, _ = equal_split(2, R); assert differ_at(half, X, {R: 2})": "free: ['x']",
    "half, _ = equal_split(2, R); assert differ_at(X, X + 1, {X: 1})":
        "nothing that `differ_at` decides depends",
    "assert differ_at(X, X + 1, {X: 1})": NOWHERE,
}  # fmt: skip
WITNESSES = {  # the words of a witness -> the reason
    '"trust me"': f"witness 'trust me' {UNNAMED}; they are R = 6: 3 versus 6",
    '"trust me"); record_property("x", "3, 6"': f"witness 'trust me' {UNNAMED}",
    '"16/5 or 3, of 6.5 and x6"': UNNAMED,
    '"R = 6, of 13 and 2.3"': UNNAMED,
}
TESTS = {
    FAILS: "assert False",
    HOLDS.replace(SUM, "1 / 0"): "ZeroDivisionError",
    HOLDS.replace("(n, rec", "(n, missing, rec"): "fixture 'missing' not found",
    HOLDS.replace(SUM, "pytest.skip()"): "skipped",
    FAILS.replace("@pytest.mark.p", "@pytest.mark.xfail\n@pytest.mark.p", 1): "skipped",
    HOLDS.replace("    assert", "    if n == 2:\n        return\n    assert"): NONE,
}
WRONG = [
    *TESTS.items(),
    *((PROVED.format(body), reason) for body, reason in NO_PROOFS.items()),
    *((REFUTED.format(body), reason) for body, reason in NO_WITNESSES.items()),
    *((REFUTES.replace(WITNESS, words), reason) for words, reason in WITNESSES.items()),
]


@pytest.mark.parametrize(("test", "reason"), WRONG)
def test_a_test_that_proves_nothing_is_not_established(test, reason, theorems):
    (verdict,) = prove(theorems(test))
    assert verdict.verdict == "not established"
    assert reason in verdict.error


def test_pytest_alone_refuses_the_same(tmp_path):
    (tmp_path / "conftest.py").write_text((THEOREMS.parent / "conftest.py").read_text())
    for n, (test, _) in enumerate(WRONG):
        (tmp_path / f"test_{n}.py").write_text(HEAD + test)
    (tmp_path / "test_right.py").write_text(HEAD + HOLDS + REFUTES)
    options = ["-c", os.devnull, "--import-mode=importlib", "-pno:cacheprovider", "-q", "--tb=no"]
    command = [sys.executable, "-m", "pytest", *options, tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    failed = set(re.findall(r"^(?:FAILED|ERROR) .*?(test_\w+)\.py", done.stdout, re.MULTILINE))
    wrong = {f"test_{n}" for n, (_, reason) in enumerate(WRONG) if reason != "skipped"}
    assert failed == wrong


UNREADABLE = {
    "a missing file": ("", RuntimeError, "nowhere"),
    "a file that cannot be imported": ("import no_such_module\n", RuntimeError, "no_such_module"),
    "a file without theorems": ("def test_nothing():\n    pass\n", RuntimeError, "no theorem"),
    "an unknown verdict": (REFUTES.replace('"refuted"', '"true"'), ValueError, "'true'"),
    "a marker without verdict": (REFUTES.replace(', "refuted"', ""), ValueError, "verdict"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_theorem_is_an_error(name, theorems, tmp_path):
    text, error, message = UNREADABLE[name]
    with pytest.raises(error, match=message):
        prove(theorems(text) if text else tmp_path / "test_nowhere.py")


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
