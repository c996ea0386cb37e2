"""A certificate has every run and decision of a test, and each of them is checked."""

import json
import shutil
from unittest import mock

import pytest

from axioms import check
from axioms.decide.decisions import DIFFER_AT, IDENTICAL
from axioms.decide.records import Depends, answer, disturbing
from axioms.evidence.certificates import certify

THEOREMS = """
import pytest
import sympy as sp
from axioms.decide.identity import differ_at, generic, identical, sign_cases
from axioms.rules.linear import add
from axioms.rules.products import equal_split

EPS = sp.Symbol("epsilon", positive=True)

@pytest.mark.theorem(1, "A sum passes on what the stabiliser leaves.", "proved")
@pytest.mark.parametrize("n", [1, 2, 1])
def test_a_sum_passes_on_what_is_left(n):
    x, y, r = generic("x", 1, n), generic("x", 1, n, positive=True), generic("r", 1, n)
    for _ in sign_cases(1, 1):
        for sign in sign_cases(1, n):
            one, other = add([x, y], r, eps=EPS, sign=sign)
            z = x[0] + y[0]
            assert identical(r[0] * z / (z + EPS * sign[0]), one[0] + other[0])

@pytest.mark.theorem(2, "One factor of a product gets all.", "refuted")
@pytest.mark.parametrize("n", [3, 2, 4])
def test_a_product_is_shared(n, record_property):
    r = sp.Symbol("r", real=True)
    for value in (12, 24):
        assert differ_at(equal_split(n, sp.Matrix([[r]]))[0][0], r, {r: value})
    record_property("witness", f"r = 12: {12 // n} of 12")

@pytest.mark.theorem(3, "A share keeps what it is of.", "proved")
@pytest.mark.parametrize("known", [True, False, True])
def test_a_share_keeps_what_it_is_of(known):
    x, r = sp.symbols("x r", real=True)
    more = 0 if known else sp.Max(x, r)
    assert identical(more + 2 * equal_split(2, sp.Matrix([[r]]))[0][0], more + r)

@pytest.mark.theorem(4, "A half is all.", "proved")
def test_a_half_is_all():
    r = sp.Matrix([[sp.Symbol("r", real=True)]])
    assert identical(equal_split(1, r)[0], r)
    assert identical(equal_split(2, r)[0], r)
"""
RUNS = {"1": 3, "2": 3}


@pytest.fixture(scope="module")
def theorems(tmp_path_factory):
    path = tmp_path_factory.mktemp("theorems") / "test_theorems.py"
    path.write_text(THEOREMS, "utf-8")
    return path


@pytest.fixture(scope="module")
def good(theorems):
    """A folder of certificates, their verdicts, and the decisions of every test."""
    folder, decisions = theorems.parent / "certificates", {}
    verdicts = certify(theorems, folder=folder, decisions=decisions)
    return folder, verdicts, decisions


def read(folder, name):
    return json.loads((folder / f"{name}.json").read_text("utf-8"))


def test_what_is_written_is_all_that_was_decided_but_for_signs_and_what_is_trivial(good):
    """All cases of signs are one decision, of ``sign[...]``."""
    folder, verdicts, decisions = good
    for verdict in verdicts[:2]:
        runs = read(folder, verdict.label)["runs"]
        assert len({run["run"] for run in runs}) == len(runs) == RUNS[verdict.label]
        made = [d for d in decisions[verdict.test] if all(s == 1 for case in d.signs for s in case)]
        assert len(made) == sum(len(run["decisions"]) for run in runs)
        for (kind, _, at), decision in zip(
            (row for run in runs for row in run["decisions"]), made, strict=True
        ):
            assert kind == ("equal" if decision.kind == IDENTICAL else "apart")
            assert at == {str(x): str(value) for x, value in decision.point.items()}
        assert all(run["graphs"] for run in runs)
    signs = [name for run in read(folder, "1")["runs"] for name in run["symbols"] if "[" in name]
    assert signs == ["sign[1*x00 + 1*x00']"] * 3  # two symbols x00


def test_a_statement_is_certified_as_a_whole_or_not_at_all(good):
    folder, verdicts, _ = good
    assert [verdict.verdict for verdict in verdicts] == [
        *("proved", "refuted", "proved", "not established")
    ]
    index = read(folder, "index")
    assert [entry["label"] for entry in index["statements"]] == ["1", "2"]
    assert index["not certified"] == {
        "3": "it has Max(r, x), and the checker has no Max",
        "4": "not established",
    }
    assert check.check(folder)[0] == []


FALSE = {"equal": ["r", "1"], "apart": ["r", "12"]}


@pytest.mark.parametrize("label", RUNS)
@pytest.mark.parametrize("run", range(3))
def test_one_false_decision_of_one_run_is_found(good, tmp_path, label, run):
    for place in (0, -1):
        folder = shutil.copytree(good[0], tmp_path / str(place))
        certificate = read(folder, label)
        decision = certificate["runs"][run]["decisions"][place]
        decision[1] = FALSE[decision[0]]
        certificate["runs"][run]["symbols"]["r"] = ""
        decision[2] |= {"r": "12"} if decision[0] == "apart" else {}
        (folder / f"{label}.json").write_text(json.dumps(certificate), "utf-8")
        (error,) = check.check(folder)[0]
        assert error.startswith(f"{label}: ValueError")
        assert "are not" in error


def test_every_false_certificate_is_named(good, tmp_path):
    folder = shutil.copytree(good[0], tmp_path / "both")
    for label in RUNS:
        text = (folder / f"{label}.json").read_text("utf-8")
        (folder / f"{label}.json").write_text(text.replace('"decisions": [', '"decisions": [0, '))
    errors, _ = check.check(folder)
    assert [error.partition(":")[0] for error in errors] == [*RUNS]


def test_rules_that_differ_on_one_side_alone_are_noticed(theorems, tmp_path):
    """Theorem 1 has relevance on the right, and theorem 2 on the left."""
    right, minus = check.messages, check.Value(-1)

    def turned(*given):
        return [check.scaled(minus, part) for part in right(*given)]

    with mock.patch.object(check, "messages", turned):
        verdicts = certify(theorems, folder=tmp_path)
    assert "are not equal" in verdicts[0].error
    assert "finds other relevance" in verdicts[1].error


POINTS = """
import pytest
import sympy as sp
from axioms.decide.identity import differ_at, generic, identical
from axioms.decide.denotation import as_rational
from axioms.rules.attention import softmax

Z, E = generic("z", 1, 2), generic("e", 1, 2, positive=True)

@pytest.mark.theorem(1, "The first key gets nothing.", "refuted")
def test_equal_scores():
    assert differ_at(softmax(Z, exp_z=E)[0], 0, {E[0]: 1, E[1]: 1})

@pytest.mark.theorem(2, "The first key gets a half.", "refuted")
def test_scores_without_numbers():
    assert differ_at(softmax(Z, exp_z=E)[0], sp.Rational(1, 2), {E[0]: 2, E[1]: 1})

@pytest.mark.theorem(3, "Both keys get all.", "proved")
def test_names_of_functions():
    assert not identical(as_rational(sp.log(6)), as_rational(sp.log(2) + sp.log(3)))  # by name
    assert identical(sum(softmax(Z, exp_z=E)), 1)
"""


def test_a_point_has_the_exponentials_of_its_exponents(tmp_path):
    (tmp_path / "test_points.py").write_text(POINTS, "utf-8")
    folder = tmp_path / "certificates"
    certify(tmp_path / "test_points.py", folder=folder)
    assert read(folder, "index")["not certified"] == {
        "2": "a point has an exponential of ['z00'] that is 2"
    }
    assert check.check(folder)[0] == []
    rows = [read(folder, label)["runs"][0]["decisions"] for label in "13"]
    found = [[(kind, at) for kind, _, at in decisions] for decisions in rows]
    assert found == [[("apart", {"z00": "0", "z01": "0"})], [("equal", {})]]


def test_a_disturbed_run_ends_where_a_true_answer_of_its_sort_turns_false():
    with disturbing(IDENTICAL, [False, True, True]):
        assert not answer(IDENTICAL, now=True)
        assert answer(DIFFER_AT, now=False)
        with pytest.raises(Depends):
            answer(IDENTICAL, now=False)
        assert not answer(IDENTICAL, now=True)  # no answer is left
