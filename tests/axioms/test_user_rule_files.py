"""A file of a user's own rules gives verdicts, or an error that names the line."""

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from axioms.own_rules.files import load
from axioms.own_rules.properties import CONSERVES
from axioms.own_rules.rules import RuleError
from axioms.own_rules.verdicts import decisions, judge
from axioms.verdict import IN_LIMIT, PROVED, REFUTED, UNDECIDED
from benchmarks.cli import app
from benchmarks.commands.judging import judge_rules

EXAMPLE = Path(__file__).parents[2] / "docs" / "my_rules.py"
HEAD = (  # one line
    "from axioms.own_rules import rule; from random import randint; "
    "import sympy; from sympy import Max, Piecewise, Symbol; "
    "alpha, count = Symbol('alpha'), iter(range(1, 10**6))\n"
)
PRODUCT = '@rule("product")\ndef mine(x, y, z, R, eps):\n    return '
BAD = {
    "an unknown kind": ('@rule("conv")\ndef f(x):\n    return x\n', ":2: ", "the kinds are"),
    "other arguments": (
        '@rule("product")\ndef f(x, y):\n    return x, y\n',
        ":2: f(x, y)",
        "write def f(x, y, z, R, eps)",
    ),
    "arguments in another order": (
        '@rule("product")\ndef f(R, x, y, z, eps):\n    return R, R\n',
        ":2: f(R, x, y, z, eps)",
        "write def f(x, y, z, R, eps)",
    ),
    "a generator": (
        PRODUCT + "(R for _ in 'xy')",
        ":2: mine returned <gen",
        "a list or tuple of 2",
    ),
    "a function of floats": (
        PRODUCT + "__import__('math').exp(x), R",
        ":4: mine raised TypeError",
        "math and NumPy take floats",
    ),
    "a function of arrays": (
        PRODUCT + "__import__('numpy').sqrt(x), R",
        ":4: mine raised TypeError",
        "math and NumPy take floats",
    ),
    "a print": (PRODUCT + "R * len([print(x)]), R", ":4: mine raised TypeError", "do not print"),
    "one message too few": (PRODUCT + "(R,)", ":2: mine returned 1 message", "return 2 messages"),
    "no tuple": (PRODUCT + "R / 2", ":2: mine returned R/2", "list or tuple of 2 messages"),
    "nothing": (PRODUCT + "None", ":2: mine returned None", "tuple of 2 messages"),
    "a text": (PRODUCT + "'R', R", ":2: mine returned 'R'", "an expression or a number"),
    "a relation": (PRODUCT + "x > y, R", ":2: mine returned", "an expression or a number"),
    "an object": (PRODUCT + "object(), R", ":2: mine returned", "an expression or a number"),
    "a nested list": (PRODUCT + "[R], R", ":2: mine returned [R]", "an expression or a number"),
    "a float": (PRODUCT + "0.5 * R, R / 2", ":2: mine returned 0.5*R", "write Rational(1, 2)"),
    "a root": (PRODUCT + "x ** (R / R / 2), R", ":2: mine returned", "no rational function"),
    "an error": (PRODUCT + "1 / 0, R", ":4: mine raised ZeroDivisionError", "mend the line"),
    "a name of SymPy": (PRODUCT + "Rational(1, 2) * R, R", ":4: ", "`from sympy import Rational`"),
    "a name of ours": (PRODUCT + "sign(x) * R, R", ":4: ", "`from axioms.own_rules import sign`"),
    "a sign that is 0": (PRODUCT + "sympy.sign(x) * R, R", ":2: mine returned", "sign(0) is 0"),
    "a set": (
        PRODUCT + "Piecewise((R, sympy.Contains(x, sympy.S.Integers)), (0, True)), 0",
        ":2: mine",
        "use +",
    ),
    "a name of nobody": (PRODUCT + "Rr, R", ":4: ", "rule and sign are in axioms.own_rules"),
    "a name outside rules": ("half = Rational(1, 2)\n", ":2: NameError", "`from sympy import"),
    "another TypeError": (PRODUCT + "R + [], R", ":4: mine raised TypeError", "mend the line"),
    "a branch": (PRODUCT + "(R, 0) if x > 0 else (0, R)", ":4: mine raised TypeError", "sign(x)"),
    **{
        f"a comparison, {what}": (PRODUCT + f"(R, R) if {what} else (0, R)", ":4: ", step)
        for what, step in {
            "z == 0": "truth value of z == 0; the operands are symbols, so branch by sign(x)",
            "x != 77": "truth value of x != 77",
            "77 in [x]": "truth value of x == 77",
            "sympy.Integer(77) == x": "truth value of 77 == x",
            "x": "truth value of x;",
            "{77: 1}.get(x)": "truth value of x as a key",
            "eps == 0": "truth value of epsilon == 0",
            "(x - 77).is_zero": "truth value of (x - 77).is_zero",
            "x.equals(77)": "truth value of (x).equals",
            "x.is_positive": "truth value of (x).is_positive",
            "x.is_Symbol": "truth value of (x).is_Symbol",
            "x.is_number and x > 10**6": "truth value of (x).is_number",
            "eps.is_number and eps > 1": "truth value of (epsilon).is_number",
            "max(x, 0) == x": "truth value",
            "[float(x) for _ in 'x'] == 1": "Cannot convert expression to float",
            "str(x) == '77'": "do not print or format",
            "f'{x}' == '77'": "do not print or format",
            "x.name != 'x'": "truth value of (x).name",
            "x.free_symbols": "truth value of (x).free_symbols",
            "sympy.ask(sympy.Q.zero(x - 77))": "truth value of Q.zero of x - 77",
            "(x > 10**6) == True": "truth value of x > 1000000",
        }.items()
    },
    **{
        f"another formula, {what}": (PRODUCT + what, ":2: mine returns", "one formula")
        for what in (
            "(R, R) if isinstance(x, type(eps)) else (0, R)",
            "(R * next(count), 0)",
            "(R * randint(1, 10**9), 0)",
        )
    },
    "a comparison that the rule itself catches": (
        '@rule("product")\ndef f(x, y, z, R, eps):\n'
        "    try:\n        k = float(x)\n    except TypeError:\n        k = 0\n    return R - k, k",
        ":2: f: cannot determine truth value of x as a number",
        "one formula",
    ),
    "a maximum of nothing": (
        '@rule("linear")\ndef f(x, w, b, z, R, eps):\n'
        "    up = [Max(p * q, 0) for p, q in zip(x, w)]\n"
        "    return [u * R / sum(up) if sum(up) != 0 else 0 for u in up]",
        ":5: f raised",
        "truth value of Max(0, w0*x0) != 0",
    ),
    "a symbol of its own": (PRODUCT + "alpha * R, R", ":2: mine returned R*alpha", "a number for"),
    "a complex number": (PRODUCT + "1j * R, R", ":2: mine returned", "relevance is real"),
    "a complex root": (
        PRODUCT + "R * (-R / R) ** (R / R / 3), R",
        ":2: mine returned",
        "relevance is real",
    ),
    "nothing defined": (PRODUCT + "R / 0, R", ":2: mine returned [zoo", "is undefined at"),
    "a rule without end": (PRODUCT + "mine(x, y, z, R, eps)", ":4: mine raised Rec", "mend the"),
    "an exit": ("import sys\nsys.exit(0)\n", ":3: SystemExit: 0", "by itself"),
    "an exit in a rule": (PRODUCT + "exit(0)", ":4: mine raised SystemExit", "mend the line"),
    "0/0 everywhere, in other words for symbols": (
        PRODUCT + "R * (z - x * y) / (z - x * y), 0",
        ":2: mine returned [nan",
        "every point tried; look for a divisor that is always 0",
    ),
    "0/0 everywhere": (
        '@rule("softmax")\ndef f(z, a, R, eps):\n'
        "    return [r * (sum(a) - 1) / (sum(a) ** 2 - 1) for r in R]",
        ":2: f returned [nan, nan, nan] and",
        "every point tried; look for a divisor that is always 0",
    ),
    "groups for a sum": (
        '@rule("bilinear")\ndef f(a, v, o, R, eps):\n    return [R, R, R]\n',
        ":2: f returned 3 messages",
        "return 2 groups of messages, one per factor",
    ),
    "a wrong group": (
        '@rule("bilinear")\ndef f(a, v, o, R, eps):\n    return [R], v\n',
        ":2: f returned 1 message;",
        "return 2 messages",
    ),
    "no rule": ("x = 1\n", "holds no rule", "from axioms.own_rules import rule"),
    "a typing error": ("def f(:\n", ":2: ", "mend the line"),
    "an import that fails": ("\nimport no_such_module\n", ":3: ModuleNotFoundError", "by itself"),
}


def judge_all(path):
    return {own.name: decisions(own)[CONSERVES]() for own in load(path)}


@pytest.mark.parametrize("name", BAD)
def test_a_malformed_rule_is_an_error_with_its_line_and_the_next_step(name, tmp_path):
    source, place, step = BAD[name]
    path = tmp_path / "rules_of_mine.py"
    path.write_text(HEAD + source)
    with pytest.raises(RuleError) as error:
        judge_all(path)
    assert str(error.value).startswith(str(path))
    assert place in str(error.value)
    assert step in str(error.value)


def test_arguments_may_have_other_names_and_messages_be_an_array(tmp_path):
    path = tmp_path / "named.py"
    path.write_text(
        "import numpy as np\n"
        f"{HEAD}@rule('linear')\ndef f(inputs, weights, b, out, R, eps):\n"
        "    each = np.abs(np.array(inputs) * np.array(weights))\n"
        "    return R * each / each.sum()\n"
    )
    assert judge_all(path)["f"].status == PROVED


@pytest.mark.parametrize("name", ["sympy.mine.py", "axioms.mine.py"])
def test_no_name_of_a_file_lets_it_compare_symbols(name, tmp_path):
    path = tmp_path / name
    path.write_text(HEAD + PRODUCT + "(R, R) if z == 77 else (0, R)")
    with pytest.raises(RuleError, match="truth value of z == 77"):
        judge_all(path)


def test_the_command_prints_the_verdicts_of_a_file(tmp_path):
    """Of the example's first rule alone."""
    path = tmp_path / "first_rule.py"
    path.write_text(EXAMPLE.read_text().split("def by_factor")[0].rpartition("@rule")[0])
    result = CliRunner().invoke(app, ["prove", str(path), "--full"])
    assert result.exit_code == 0
    (own,) = load(path)
    found = judge(own)
    (judged_rule,) = judge_rules(path, 60)
    assert judged_rule.verdicts == found
    assert judged_rule.text() in result.output
    assert "[refuted] the same if you re-associate products, at the witness" in result.output
    assert "[proved] conserves relevance, for all operands" in result.output
    short = " ".join(CliRunner().invoke(app, ["prove", str(path)]).output.split())
    assert f"{[x.status for x in found].count(REFUTED)} refuted" in short
    assert "refuted: the same if you re-associate products, fold batch norm, multiply by" in short


def test_the_command_gives_the_verdicts_as_data(tmp_path):
    path = tmp_path / "two.py"
    rules = {"mine": "R / 2, R / 2", "bad": "None", "other": "R, R"}
    path.write_text(HEAD + "\n".join(PRODUCT.replace("mine", x) + y for x, y in rules.items()))
    result = CliRunner().invoke(app, ["prove", str(path), "--json"])
    assert result.exit_code == 2
    assert "bad returned None" in json.loads(result.stderr)["error"]["message"]
    one, other = json.loads(result.stdout)["rules"]
    assert (one["name"], one["kind"], one["place"]) == ("mine", "product", f"{path}:2")
    assert one["verdicts"][0] == {
        "claim": "conserves relevance",
        "status": "proved",
        "scope": "for all operands",
        "witness": "",
        "reason": "",
    }
    assert other["verdicts"][0]["status"] == "refuted"
    assert other["verdicts"][0]["witness"] == "x = 1, y = 1, R = 1: 2 versus 1"


def test_the_rules_of_the_example_conserve_but_for_what_they_say():
    verdicts = {name: found.status for name, found in judge_all(EXAMPLE).items()}
    assert verdicts == {
        "half_each": PROVED,
        "by_factor": PROVED,
        "whole_each": REFUTED,
        "by_magnitude": PROVED,
        "epsilon": REFUTED,
        "alike": PROVED,
        "one_third": IN_LIMIT,
        "undivided": REFUTED,
        "values_alone": IN_LIMIT,
        "diagonal": REFUTED,
    }
    assert all(own.function.__doc__ for own in load(EXAMPLE))


@pytest.mark.parametrize(
    ("name", "refuted"),
    [
        ("by_factor", "the same for x y and (c x) (y / c), c > 0"),
        ("by_magnitude", "re-associate sums"),
        ("one_third", "the same for A V and its transpose"),
        ("diagonal", "the same for logits and logits + c"),
    ],
)
def test_the_rules_of_the_example_fail_as_they_say(name, refuted):
    (own,) = (own for own in load(EXAMPLE) if own.name == name)
    assert decisions(own)[refuted]().status == REFUTED


def test_an_exit_in_the_file_is_a_message_and_status_2(tmp_path):
    path = tmp_path / "exits.py"
    path.write_text("import sys\nsys.exit(0)\n")
    result = CliRunner().invoke(app, ["prove", str(path)])
    assert result.exit_code == 2
    assert "exits.py:2:SystemExit:0" in "".join(result.stderr.split())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(:", ":1: invalid syntax; mend the line"),
        ("x = 1", ": holds no rule; "),
        ("@rule('product')\ndef f(x): ...", ":1: NameError: name 'rule' is not defined; "),
    ],
)
def test_a_file_that_cannot_be_run_is_one_error(source, message, tmp_path):
    path = tmp_path / "bad.py"
    path.write_text(source)
    with pytest.raises(ValueError, match="bad") as error:
        list(judge_rules(path, 60))
    assert str(error.value).startswith(f"{path}{message}")
    assert "\n" not in str(error.value)


ENDLESS = "sum(iter(int, 1))"  # a loop in C, which no signal interrupts


@pytest.mark.parametrize(
    ("source", "place"),
    [(f"{ENDLESS}\n", "endless.py: "), (PRODUCT + f"{ENDLESS}, R\n", "endless.py:2: mine: ")],
)
def test_a_file_or_a_rule_without_end_is_ended_with_a_message(source, place, tmp_path, monkeypatch):
    started, popen = [], subprocess.Popen

    def noted(*command, **options):
        started.append(popen(*command, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    path = tmp_path / "endless.py"
    path.write_text(HEAD + source)
    result = CliRunner().invoke(app, ["prove", str(path), "--limit", "5"])
    assert result.exit_code == 2
    assert f"{place}no verdict after 5 seconds; look for a loop without end" in result.stderr
    assert started
    assert all(process.poll() is not None for process in started)


def test_what_is_too_large_to_judge_is_an_error_with_the_rule(tmp_path):
    path = tmp_path / "large.py"
    returned = "R * reduce(lambda z, _: 1 / (1 + z * x), range(400), z), R"
    path.write_text(f"from functools import reduce\n{HEAD}{PRODUCT}{returned}\n")
    with pytest.raises(ValueError, match=r"large\.py:3: mine: .*returns too much to judge"):
        list(judge_rules(path, 60))


def test_a_verdict_that_cannot_be_said_is_undecided_and_the_others_are_told(tmp_path):
    """The digits of its witness are more than Python writes."""
    path = tmp_path / "large.py"
    path.write_text(f"{HEAD}{PRODUCT}R * 2**20000, R\n")
    (found,) = judge_rules(path, 60)
    by_claim = {each.claim: each for each in found.verdicts}
    assert by_claim[CONSERVES].status == UNDECIDED
    assert by_claim[CONSERVES].reason.startswith("deciding it failed with ValueError: Exceeds")
    assert list(by_claim)[:2] == [CONSERVES, "is linear in relevance"]
    assert len(by_claim) == len(decisions(load(path)[0]))


@pytest.mark.parametrize(
    "start", [b"\xef\xbb\xbf", "# coding: latin-1\nname = 'é'\n".encode("latin-1")]
)
def test_a_file_is_read_in_its_own_encoding(start, tmp_path):
    path = tmp_path / "encoded.py"
    path.write_bytes(start + (HEAD + PRODUCT + "R / 2, R / 2").encode())
    assert [own.name for own in load(path)] == ["mine"]


def test_a_file_that_ends_its_process_is_an_error(tmp_path):
    path = tmp_path / "exits.py"
    path.write_text("import os\nos._exit(0)\n")
    with pytest.raises(ValueError, match=r"exits\.py: ended the process"):
        list(judge_rules(path, 60))


def test_errors_are_told_together_once_all_other_rules_have_their_verdicts(tmp_path):
    bad = (PRODUCT + "'R', R", PRODUCT + "__import__('os')._exit(0)", PRODUCT + f"{ENDLESS}, R")
    good = PRODUCT + "R / 2, R / 2"
    path = tmp_path / "several.py"
    rules = [x.replace("mine", f"rule_{n}") for n, x in enumerate((good, *bad, good))]
    path.write_text(HEAD + "\n\n".join(rules))
    verdicts = judge_rules(path, 5)
    assert next(verdicts).heading.startswith('rule_0, a rule for "product"')
    assert next(verdicts).heading.startswith('rule_4, a rule for "product"')
    with pytest.raises(ValueError, match="rule_1 returned 'R'") as error:
        next(verdicts)
    ended, endless = str(error.value).splitlines()[1:]
    assert "rule_2: ended the process" in ended
    assert "rule_3: no verdict after 5 seconds" in endless


LATE = f"""@rule("softmax")
def late(z, a, R, eps):
    return [k * r * (1 if len(z) < 7 else {ENDLESS}) for k, r in enumerate(R)]
"""


def test_a_verdict_that_takes_too_long_is_undecided_and_the_others_go_on(tmp_path):
    path, begun = tmp_path / "late.py", []
    path.write_text(HEAD + LATE)
    (found,) = judge_rules(path, 5, lambda *now: begun.append(now))
    by_claim = {each.claim: each for each in found.verdicts}
    late = by_claim["is linear in relevance"]
    assert late.status == UNDECIDED
    assert late.reason == "5 seconds were not enough; --limit gives each verdict more"
    assert by_claim["the same for logits in another order"].status == REFUTED
    assert [name for *_, name in begun] == [f"late: {name}" for name in decisions(load(path)[0])]
    assert [(n, total) for n, total, _ in begun] == [(n, len(begun)) for n in range(len(begun))]


def test_the_help_says_that_the_file_is_executed():
    shown = CliRunner().invoke(app, ["prove", "--help"]).output
    assert "itisexecuted" in "".join(filter(str.isalnum, shown))  # however it is wrapped


def test_the_command_shows_one_theorem_as_text_and_as_latex():
    shown = CliRunner().invoke(app, ["prove", "--show", "10"])
    assert shown.exit_code == 0
    assert shown.output.startswith("Theorem 10\n")
    source = CliRunner().invoke(app, ["prove", "--show", "10", "--latex"])
    assert source.exit_code == 0
    assert r"\paragraph{Theorem 10" in source.output
    assert r"\frac{" in source.output
