"""A theorem that decides less than is kept of it fails by name, whatever was lost."""

import itertools
import json
import re
import sys
from collections import Counter
from dataclasses import replace
from unittest import mock

import pytest
import sympy as sp

from axioms.decide import identity as decide
from axioms.decide.decisions import DIFFER_AT, IDENTICAL, WORDS, Decision
from axioms.decide.identity import sign_cases
from axioms.evidence import counts
from axioms.evidence.prove import prove
from tests.support.theorems import FILES, claims

KEPT = json.loads(counts.KEPT.read_text("utf-8"))
LINEAR = counts.THEOREMS / "test_linear.py"
KINDS = (IDENTICAL, DIFFER_AT)
ONE = {"symbols of either sign": 1, "symbols x": 1}


def test_every_statement_has_counts_and_every_count_a_statement():
    tests = {name.partition("[")[0] for name in KEPT}
    per_file = Counter(name.partition("::")[0] for name in tests)
    assert per_file == {path.name: len(list(claims(path))) for path in FILES}
    for found in KEPT.values():
        assert sum(found.get(name, 0) for name in ("identities", "as written", "differences")) > 0
        assert any(name.startswith("symbols ") for name in found)


def test_an_identity_that_does_not_hold_is_counted_as_a_difference():
    x = sp.Symbol("x")
    found = [Decision(kind=kind, left=x, right=x, verdict=kind == DIFFER_AT) for kind in KINDS]
    assert counts.counted(found[:1]) == {"differences": 1, **ONE}
    assert counts.counted(found) == {"differences": 2, **ONE}
    held = [replace(decision, verdict=not decision.verdict) for decision in found]
    assert counts.counted(held) == {"as written": 1, **ONE}
    more = replace(held[0], right=2 * x - x + sp.Symbol("y") * 0 + sp.Symbol("x", real=True))
    assert counts.counted([more])["identities"] == 1
    assert counts.counted([replace(held[0], left=sp.S.One, right=sp.S.One, signs=((1,),))]) == {}
    assert counts.counted([replace(found[1], left=sp.S.One, right=sp.S.Zero)]) == {}
    cases = [replace(decision, signs=((k,),)) for k, decision in enumerate(found)]
    assert counts.counted(cases)["sign cases"] == 2
    names = [replace(found[0], left=sp.Symbol(x)) for x in ("s1", "s[x]", "s(x)", "s{x}", "s of x")]
    assert counts.counted(names)["symbols s"] == len(names)


@pytest.mark.parametrize("fact", WORDS)
def test_a_symbol_that_may_be_1_or_minus_1_has_either_sign(fact):
    x = sp.Symbol("x", **{fact: True})
    found = counts.counted([Decision(kind=IDENTICAL, left=x, right=x, verdict=True)])
    may = all(getattr(sp.Integer(sign), f"is_{fact}") for sign in (1, -1))
    assert found.get("symbols of either sign", 0) == may


def test_running_a_file_writes_its_counts_alone_and_a_failing_one_writes_nothing(
    tmp_path, monkeypatch
):
    written, text = tmp_path / "counts.json", counts.KEPT.read_text("utf-8")
    fewer = {name: dict.fromkeys(n, 0) if LINEAR.name in name else n for name, n in KEPT.items()}
    monkeypatch.setattr(counts, "KEPT", written)
    written.write_text(json.dumps({f"{LINEAR.name}::of_old": {}} | dict([*fewer.items()][::-1])))
    stale = written.read_text()
    assert not any("are kept" in error for error in errors(LINEAR).values())  # as it is more
    with mock.patch.dict(sys.modules):  # which keep the file as it was run here
        counts.main(LINEAR.name)
    assert written.read_text("utf-8") == text
    (tmp_path / "test_wrong.py").write_text("def test_wrong():\n    assert False\n")
    monkeypatch.setattr(counts, "THEOREMS", tmp_path)
    written.write_text(stale)
    with pytest.raises(SystemExit, match="theorems fail, and counts"):
        counts.main("test_wrong.py")
    assert written.read_text() == stale


def errors(path):
    return {verdict.test.partition("::")[2]: verdict.error for verdict in prove(path)}


def first_case(rows, cols):
    yield from itertools.islice(sign_cases(rows, cols), 1)


def no_case(rows, cols):
    yield from ()


@pytest.mark.parametrize("fewer", [first_case, no_case])
def test_fewer_cases_of_signs_are_no_proof(fewer):
    split = {k.partition("::")[2] for k in KEPT if LINEAR.name in k and "sign cases" in KEPT[k]}
    with mock.patch.object(decide, "sign_cases", fewer), mock.patch.dict(sys.modules):
        sys.modules.pop("axioms.theorems.test_linear", None)  # so that it imports `fewer`
        found = errors(LINEAR)
    assert split
    assert {name for name, error in found.items() if error} == split
    if fewer is first_case:
        assert all("sign cases 1, where" in found[name] for name in split)


LESS = {  # lost part -> file, old and new text, and the error of its theorems
    "an identity": ("test_linear.py", ("assert identical(limit(total, EPS), r[0])", "pass"),
        r"identities \d+, where \d+ are kept"),
    "a symbol": ("test_linear.py", ('("word", "position", "type")', '("word", "type")'),
        "position"),
    "a sign": ("test_linear.py", ('generic("w", 2, 2)', 'generic("w", 2, 2, positive=True)'),
        r"symbols of either sign \d+, where \d+ are kept"),
    "a run": ("test_batch_norm.py", ("[epsilon, epsilon_without_bias]", "[epsilon]"),
        "runs 1 times, where 2 are kept"),
    "a test": ("test_linear.py", ("def test_a_sum_conserves", "def no_test_a_sum_conserves"),
        r"test_a_sum_conserves\w+ is gone"),
}  # fmt: skip


@pytest.mark.parametrize("lost", LESS)
def test_what_a_file_has_lost_is_named(lost, tmp_path):
    name, (old, new), said = LESS[lost]
    text = (counts.THEOREMS / name).read_text("utf-8")
    assert text.count(old) == 1
    for path in FILES:
        (tmp_path / path.name).touch()
    (tmp_path / name).write_text(text.replace(old, new), "utf-8")
    with mock.patch.object(counts, "THEOREMS", tmp_path):
        assert any(re.search(said, error) for error in errors(tmp_path / name).values())


def test_a_file_that_is_gone_and_a_theorem_without_counts_are_named(tmp_path):
    text = LINEAR.read_text("utf-8")
    changed = text.replace("def test_a_sum_conserves", "def test_another_sum_conserves")
    (tmp_path / LINEAR.name).write_text(changed, "utf-8")
    with mock.patch.object(counts, "THEOREMS", tmp_path):
        found = errors(tmp_path / LINEAR.name).values()
    assert all(
        "test_rotary.py is gone" in error or ("has no count" in error and counts.COMMAND in error)
        for error in found
    )
    assert sum("has no count" in error for error in found) == 1
