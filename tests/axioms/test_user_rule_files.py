"""The rules in a user's file get verdicts, as text and as data, and none holds up the others."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from axioms.own_rules.files import load
from axioms.own_rules.properties import CONSERVES
from axioms.own_rules.verdicts import decisions, judge
from axioms.verdict import IN_LIMIT, PROVED, REFUTED, UNDECIDED
from benchmarks.cli import app
from benchmarks.commands import judging
from benchmarks.commands.judging import judge_rules
from benchmarks.errors import RunError
from tests.support.rule_files import ENDLESS, HEAD, PRODUCT, conservation, written

EXAMPLE = Path(__file__).parents[2] / "docs" / "my_rules.py"


def prove(*arguments):
    return CliRunner().invoke(app, ["prove", *map(str, arguments)])


def test_arguments_may_have_other_names_and_messages_be_an_array(tmp_path):
    source = (
        "import numpy as np\n"
        f"{HEAD}@rule('linear')\ndef f(inputs, weights, b, out, R, eps):\n"
        "    each = np.abs(np.array(inputs) * np.array(weights))\n"
        "    return R * each / each.sum()\n"
    )
    assert conservation(written(tmp_path, source))["f"].status == PROVED


def test_a_file_may_hold_a_dataclass_whose_annotations_are_texts(tmp_path):
    """Python looks the module of such a class up by its name."""
    source = (
        "from __future__ import annotations\nimport dataclasses, typing\n"
        f"{HEAD}@dataclasses.dataclass\nclass Share:\n    parts: int = 2\n{PRODUCT}"
        "R / Share().parts, R / 2\n"
    )
    assert conservation(written(tmp_path, source))["mine"].status == PROVED


def test_the_command_prints_the_verdicts_of_a_file(tmp_path):
    first = EXAMPLE.read_text().split("def by_factor")[0].rpartition("@rule")[0]
    path = written(tmp_path, first)
    result = prove(path, "--full")
    assert result.exit_code == 0
    (own,) = load(path)
    found = judge(own)
    (judged_rule,) = judge_rules(path, 60)
    assert judged_rule.verdicts == found
    assert judged_rule.text() in result.output
    assert "[refuted] the same if you re-associate products, at the witness" in result.output
    assert "[proved] conserves relevance, for all operands" in result.output
    short = " ".join(prove(path).output.split())
    assert f"{[x.status for x in found].count(REFUTED)} refuted" in short
    assert "refuted: the same if you re-associate products, fold batch norm, multiply by" in short


def test_the_command_gives_the_verdicts_as_data(tmp_path):
    rules = {"mine": "R / 2, R / 2", "bad": "None", "other": "R, R"}
    path = written(
        tmp_path, HEAD + "\n".join(PRODUCT.replace("mine", x) + y for x, y in rules.items())
    )
    result = prove(path, "--json")
    assert result.exit_code == 2
    assert "bad returned None" in json.loads(result.stderr)["error"]["message"]
    one, other = json.loads(result.stdout)["rules"]
    assert (one["name"], one["kind"], one["place"]) == ("mine", "product", f"{path}:2")
    said = {"claim": "conserves relevance", "status": "proved", "scope": "for all operands"}
    assert one["verdicts"][0] == said | {"witness": "", "reason": ""}
    assert other["verdicts"][0]["status"] == "refuted"
    assert other["verdicts"][0]["witness"] == "x = 1, y = 1, R = 1: 2 versus 1"


def test_the_rules_of_the_example_conserve_but_for_what_they_say():
    verdicts = {name: found.status for name, found in conservation(EXAMPLE).items()}
    assert verdicts == {
        "half_each": PROVED, "by_factor": PROVED, "whole_each": REFUTED, "by_magnitude": PROVED,
        "epsilon": REFUTED, "alike": PROVED, "one_third": IN_LIMIT, "undivided": REFUTED,
        "values_alone": IN_LIMIT, "diagonal": REFUTED,
    }  # fmt: skip
    assert all(own.function.__doc__ for own in load(EXAMPLE))


@pytest.mark.parametrize(("name", "refuted"), [
    ("by_factor", "the same for x y and (c x) (y / c), c > 0"),
    ("by_magnitude", "re-associate sums"),
    ("one_third", "the same for A V and its transpose"),
    ("diagonal", "the same for logits and logits + c"),
])  # fmt: skip
def test_the_rules_of_the_example_fail_as_they_say(name, refuted):
    (own,) = (own for own in load(EXAMPLE) if own.name == name)
    assert decisions(own)[refuted]().status == REFUTED


def test_a_verdict_too_long_to_write_is_undecided_and_the_others_are_told(tmp_path):
    path = written(tmp_path, f"{HEAD}{PRODUCT}R * 2**20000, R\n")
    (found,) = judge_rules(path, 60)
    by_claim = {each.claim: each for each in found.verdicts}
    assert by_claim[CONSERVES].status == UNDECIDED
    assert by_claim[CONSERVES].reason.startswith("deciding it failed with ValueError: Exceeds")
    assert list(by_claim)[:2] == [CONSERVES, "is linear in relevance"]
    assert len(by_claim) == len(decisions(load(path)[0]))


LATE = f"""@rule("softmax")
def late(z, a, R, eps):
    return [k * r * (1 if len(z) < 7 else {ENDLESS}) for k, r in enumerate(R)]
"""


def test_a_verdict_that_takes_too_long_is_undecided_and_the_others_go_on(tmp_path):
    path, begun = written(tmp_path, HEAD + LATE), []
    (found,) = judge_rules(path, 5, lambda *now: begun.append(now))
    by_claim = {each.claim: each for each in found.verdicts}
    late = by_claim["is linear in relevance"]
    assert late.status == UNDECIDED
    assert late.reason == "5 seconds were not enough; --limit gives each verdict more"
    assert by_claim["the same for logits in another order"].status == REFUTED
    names = [f"late: {name}" for name in decisions(load(path)[0])]
    assert begun == [(n, len(names), name) for n, name in enumerate(names)]


def test_a_verdict_that_ends_its_process_is_undecided_and_the_others_go_on(tmp_path):
    ends = LATE.replace(ENDLESS, "__import__('os')._exit(3)")
    (found,) = judge_rules(written(tmp_path, HEAD + ends), 60)
    reasons = {each.claim: each.reason for each in found.verdicts if each.status == UNDECIDED}
    said = "the process that decides it ended, with status 3"
    assert reasons["is linear in relevance"] == said
    (order,) = (x for x in found.verdicts if x.claim == "the same for logits in another order")
    assert order.status == REFUTED


def test_a_process_that_cannot_begin_is_no_fault_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "MODULE", "no_such_module")
    with pytest.raises(RunError, match="status 1, before it read the file"):
        list(judge_rules(written(tmp_path, f"{HEAD}{PRODUCT}R, 0\n"), 60))


@pytest.mark.parametrize(
    "start", [b"\xef\xbb\xbf", "# coding: latin-1\nname = 'é'\n".encode("latin-1")]
)
def test_a_file_is_read_in_its_own_encoding(start, tmp_path):
    path = tmp_path / "encoded.py"
    path.write_bytes(start + (HEAD + PRODUCT + "R / 2, R / 2").encode())
    assert [own.name for own in load(path)] == ["mine"]


def test_the_help_says_that_the_file_is_executed():
    shown = prove("--help").output
    assert "itisexecuted" in "".join(filter(str.isalnum, shown))  # however it is wrapped


def test_the_command_shows_one_theorem_as_text_and_as_latex():
    shown, source = prove("--show", "10"), prove("--show", "10", "--latex")
    assert shown.exit_code == source.exit_code == 0
    assert shown.output.startswith("Theorem 10\n")
    assert r"\paragraph{Theorem 10" in source.output
    assert r"\frac{" in source.output
