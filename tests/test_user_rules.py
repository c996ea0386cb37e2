"""A user's own rules get the verdicts that are known for them, or an error that names the line."""

from pathlib import Path

import pytest
import sympy as sp
from typer.testing import CliRunner

from axioms import kinds
from axioms.claims import CONSERVES, SAME
from axioms.judge import EXACT, LIMIT, REFUTED, UNDECIDED, judge, text
from axioms.user_rules import ARGUMENTS, RuleError, load, rule, sign
from benchmarks.cli import app

EXAMPLE = Path(__file__).parents[1] / "docs" / "my_rules.py"


def verdicts(own):
    return {finding.claim: finding.verdict for finding in judge(own)}


def at(own, claim):
    return next(finding for finding in judge(own) if claim in finding.claim)


@rule("linear")
def without_bias(x, w, b, z, R, eps):
    u = z - b
    return [xi * wi * R / (u + eps * sign(u)) for xi, wi in zip(x, w, strict=True)]


@rule("linear")
def unstabilised(x, w, b, z, R, eps):
    return [xi * wi * R / z for xi, wi in zip(x, w, strict=True)]


@rule("softmax")
def eq5(z, a, R, eps):
    return [zi * (r - ai * sum(R)) for zi, ai, r in zip(z, a, R, strict=True)]


@rule("softmax")
def passed_on(z, a, R, eps):
    return R


@rule("bilinear")
def eq3(a, v, o, R, eps):
    each = [x * y * R / (2 * o + eps * sign(o)) for x, y in zip(a, v, strict=True)]
    return each, each


@rule("activation")
def identity(x, y, slope, R, eps):
    return R


@rule("activation")
def gradient(x, y, slope, R, eps):
    return x * slope * R / y


@rule("add")
def shares(x, y, z, R, eps):
    part = R / (z + eps * sign(z))
    return x * part, y * part


KNOWN = {
    without_bias: [LIMIT, EXACT, LIMIT, REFUTED, EXACT, LIMIT],
    unstabilised: [REFUTED, EXACT, EXACT, EXACT, EXACT, EXACT],
    eq5: [REFUTED, EXACT, REFUTED],
    passed_on: [EXACT, EXACT, EXACT],
    eq3: [LIMIT, EXACT, EXACT, REFUTED, EXACT, EXACT],
    identity: [EXACT, EXACT, EXACT, EXACT],
    gradient: [REFUTED, EXACT, REFUTED, EXACT],
    shares: [LIMIT, EXACT, LIMIT, LIMIT, LIMIT],
}


@pytest.mark.parametrize("own", KNOWN, ids=lambda own: own.name)
def test_known_rules_get_their_known_verdicts(own):
    assert list(verdicts(own).values()) == KNOWN[own]


def test_what_absorbs_relevance_is_named():
    assert at(without_bias, "conserves").detail.startswith("the stabiliser absorbs R*eps")
    assert at(unstabilised, "conserves").detail.startswith("the bias absorbs R*b/(")
    assert at(shares, "conserves").detail.startswith("the stabiliser absorbs R*eps")
    lost = at(eq5, "conserves").detail
    assert "is lost" in lost
    assert "z0 = 0" in lost
    assert "(0) versus" in lost


def test_the_witness_of_the_paper_is_found():
    own, *_ = load(EXAMPLE)
    witness = at(own, "(x y) z and x (y z)").detail
    assert witness == "x = 2, y = 3, z = 4, R = 24, eps = 0: (6, 6, 12) versus (12, 6, 6)"


def test_every_kind_has_claims_and_every_claim_is_refuted_for_some_rule():
    """Uneven, unsymmetric and unscaled rules: no claim holds for all of them."""
    assert set(CONSERVES) == set(SAME) == set(ARGUMENTS)

    def weighted(*values):
        return [(n + 1) * value**2 for n, value in enumerate(values)]

    uneven = {
        kinds.PRODUCT: lambda x, y, z, R, eps: weighted(x * R, y),
        kinds.ADD: lambda x, y, z, R, eps: weighted(x * R, y),
        kinds.LINEAR: lambda x, w, b, z, R, eps: weighted(*[xi * R + b + w[0] for xi in x]),
        kinds.BILINEAR: lambda a, v, o, R, eps: (weighted(*[x * R for x in a]), weighted(*v)),
        kinds.SOFTMAX: lambda z, a, R, eps: weighted(*[x + r for x, r in zip(z, R, strict=True)]),
        kinds.ACTIVATION: lambda x, y, slope, R, eps: x**2 * R + slope * y,
    }
    for kind, function in uneven.items():
        own = rule(kind)(function)
        found = verdicts(own)
        assert set(found.values()) == {REFUTED}, found


def test_what_is_neither_proved_nor_refuted_is_undecided():
    @rule("softmax")
    def only_at_equal_logits(z, a, R, eps):
        return [r + (z[0] - z[1]) for r in R]

    assert at(only_at_equal_logits, "conserves").verdict == UNDECIDED


def test_signs_are_split_into_cases():
    @rule("add")
    def by_magnitude_of_either(x, y, z, R, eps):
        return R * sign(x) ** 2, sp.sign(y) * abs(y) * R - y * R

    assert at(by_magnitude_of_either, "conserves").verdict == EXACT
    x, y = sp.symbols("x y", real=True)
    assert sign(2 * x) == sign(x)
    assert sign(-x) != sign(x)
    assert sign(x * y) == sign(y * x)
    assert [sign(value) for value in (0, -3, sp.Rational(1, 2))] == [1, -1, 1]


def test_a_rule_without_a_limit_is_refuted_at_finite_eps():
    @rule("product")
    def no_limit(x, y, z, R, eps):
        return R / eps, R / 2

    finding = at(no_limit, "conserves")
    assert finding.verdict == REFUTED
    assert "eps = 1/4" in finding.detail


def test_maxima_are_decided():
    @rule("add")
    def positive_part(x, y, z, R, eps):
        up = sp.Max(x, 0)
        return R * up / (up + abs(y)), R * abs(y) / (up + abs(y))

    assert at(positive_part, "conserves").verdict == EXACT
    assert at(positive_part, "y + x").verdict == REFUTED


HEAD = "from axioms.user_rules import rule\n"
PRODUCT = '@rule("product")\ndef mine(x, y, z, R, eps):\n    return '
BAD = {
    "an unknown kind": ('@rule("conv")\ndef f(x):\n    return x\n', ":2: ", "the kinds are"),
    "other arguments": (
        '@rule("product")\ndef f(x, y):\n    return x, y\n',
        ":2: f(x, y)",
        "write def f(x, y, z, R, eps)",
    ),
    "one message too few": (PRODUCT + "(R,)", ":2: mine returned 1 messages", "return 2 messages"),
    "no tuple": (PRODUCT + "R / 2", ":2: mine returned R/2", "return 2 messages"),
    "nothing": (PRODUCT + "None", ":2: mine returned None", "return 2 messages"),
    "a text": (PRODUCT + "'R', R", ":2: mine returned 'R'", "an expression or a number"),
    "a relation": (PRODUCT + "x > y, R", ":2: mine returned", "an expression or a number"),
    "an object": (PRODUCT + "object(), R", ":2: mine returned", "an expression or a number"),
    "a nested list": (PRODUCT + "[R], R", ":2: mine returned [R]", "an expression or a number"),
    "a float": (PRODUCT + "0.5 * R, R / 2", ":2: mine returned 0.5*R", "write Rational(1, 2)"),
    "a root": (PRODUCT + "x ** (R / R / 2), R", ":2: mine returned", "no rational function"),
    "an error": (PRODUCT + "1 / 0, R", ":4: mine raised ZeroDivisionError", "sign(x)"),
    "a branch": (PRODUCT + "(R, 0) if x > 0 else (0, R)", ":4: mine raised TypeError", "sign(x)"),
    "groups for a sum": (
        '@rule("bilinear")\ndef f(a, v, o, R, eps):\n    return [R, R, R]\n',
        ":2: f returned 3 messages",
        "return 2 groups of messages, one per factor",
    ),
    "a wrong group": (
        '@rule("bilinear")\ndef f(a, v, o, R, eps):\n    return [R], v\n',
        ":2: f returned 1 messages",
        "return 2 messages",
    ),
    "no rule": ("x = 1\n", "holds no rule", "from axioms.user_rules import rule"),
    "a typing error": ("def f(:\n", ":2: ", "mend the line"),
    "an import that fails": ("\nimport no_such_module\n", ":3: ModuleNotFoundError", "by itself"),
}


def judge_all(path):
    return [judge(own) for own in load(path)]


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


def test_the_command_prints_the_verdicts_of_the_example():
    result = CliRunner().invoke(app, ["prove", str(EXAMPLE)])
    assert result.exit_code == 0
    for own in load(EXAMPLE):
        assert text(own, judge(own)) in result.output
    assert "[refuted] the same for (x y) z and x (y z)" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_file.py"], "no_such_file.py: there is no such file"),
        ([str(EXAMPLE), "--show", "1"], "pass one only"),
        (["--latex"], "--show N"),
        (["--show", "999"], "the numbers are 1, 2, 3"),
    ],
)
def test_what_cannot_be_shown_is_one_error_with_the_next_step(arguments, message):
    result = CliRunner().invoke(app, ["prove", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_the_command_shows_one_theorem_as_text_and_as_latex():
    shown = CliRunner().invoke(app, ["prove", "--show", "10"])
    assert shown.exit_code == 0
    assert shown.output.startswith("Theorem 10\n")
    source = CliRunner().invoke(app, ["prove", "--show", "10", "--latex"])
    assert source.exit_code == 0
    assert source.output.startswith(r"\paragraph{Theorem 10, proved.}")
    assert r"\frac{" in source.output
