"""Every theorem of the package: established, certified, and decided by two engines."""

import itertools
import json
import re
from collections import Counter
from types import SimpleNamespace

import pytest

from axioms import check, conftest
from axioms.decide.decisions import IDENTICAL, Decision
from axioms.evidence import certificates
from axioms.evidence.certificates import certify
from axioms.evidence.scope import assumptions, named
from axioms.evidence.statements import ROOT, THEOREMS
from tests.support import flint_fractions
from tests.support.theorems import FILES, claims, stated

AS_WRITTEN = ("25d", "63a", "64a", "64b")  # SymPy makes both sides one formula
PARTLY = ("25e", "61a", "73h", "73m")  # so it does in some runs
NOT_CERTIFIED = {
    "8c": "it has tanh(x), and the checker has no tanh",
    "51c": "it has log(exp_s), and the checker has no log",
    **dict.fromkeys(AS_WRITTEN, certificates.AS_WRITTEN),
}
LABELS = {verdict.statement: verdict.label for verdict in stated()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_theorem_of_the_package_is_established_and_certified(path, tmp_path):
    """Where `make test` runs the theorems, each once; a checker and FLINT decide them again."""
    decisions: dict[str, list[Decision]] = {}
    found = certify(path, folder=tmp_path, decisions=decisions)
    wrong, told = check.check(tmp_path)
    assert wrong == []
    index = json.loads((tmp_path / "index.json").read_text())
    of_all = {v.label: LABELS[v.statement] for v in found}  # one theorem may lie in two files
    expected = {a: NOT_CERTIFIED[b] for a, b in of_all.items() if b in NOT_CERTIFIED}
    assert index["not certified"] == expected
    assert re.findall(r"a part of (\w+)", told) == [a for a, b in of_all.items() if b in PARTLY]
    heads = {x["label"]: (x["given"], x["scope"]) for x in index["statements"]}
    assert heads == {v.label: (v.given, v.scope) for v in found if v.label not in expected}
    assert [v.error for v in found if v.verdict == "not established"] == []
    assert all(v.witness and v.points for v in found if v.verdict == "refuted")
    proved = [v for v in found if v.verdict == "proved"]
    assert all(v.scope for v in proved)
    for verdict in found:  # nothing is said to be assumed that no symbol needs
        said = named(verdict.given.split("; ")) if verdict.given else set()
        assert said <= assumptions(decisions[verdict.test]), verdict.label
    assert all(v.ran for v in found)
    source = path.read_text()
    assert len(found) == source.count("\ndef test_")
    if found[0].number == 1:
        assert found[0].witness.startswith("x = (2, 3, 4): 6/6/12 versus 12/6/6")
    for decision in itertools.chain(*decisions.values()):
        if decision.kind == IDENTICAL:
            assert flint_fractions.same(decision.left, decision.right) == decision.verdict


def test_the_page_names_what_is_not_certified():
    page = (ROOT / "docs" / "PROOFS.md").read_text("utf-8")
    for labels in (AS_WRITTEN, NOT_CERTIFIED.keys() - {*AS_WRITTEN}):
        *first, last = sorted(labels, key=lambda x: (int(x[:-1]), x))
        said = f"tatements {', '.join(first)} and {last} are not certified"
        assert said in " ".join(page.split())
    *first, last = PARTLY
    assert f"some runs of {', '.join(first)} and {last} hold none" in " ".join(page.split())


def test_every_statement_of_the_package_is_made_once():
    found = [claim for path in FILES for claim in claims(path)]
    assert max(Counter(claim.statement for claim in found).values()) == 1
    assert not [x for x in found if x.statement.startswith(("Some ", "At some"))]


def test_the_first_proof_a_reader_meets_is_that_of_figure_1():
    names = [line for line in FILES[0].read_text().splitlines() if line.startswith("def test_")]
    assert "6_6_12_and_12_6_6" in names[0]


def test_pytest_shares_all_theorems_out_and_its_workers_share_nothing_out():
    def processes(path, **more):
        option = SimpleNamespace(numprocesses=None, usepdb=False, collectonly=False)
        conftest.pytest_cmdline_main(SimpleNamespace(args=[str(path)], option=option, **more))
        return option.numprocesses

    assert processes(THEOREMS.parent) == "auto"
    assert processes(THEOREMS.parent, workerinput={}) is None
    assert processes(THEOREMS / "test_linear.py") is None
