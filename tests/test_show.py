"""`lrp-axioms prove --show` prints a theorem that a reader, or LaTeX, can take in."""

import re
from dataclasses import replace

import pytest
from matplotlib.mathtext import MathTextParser

from axioms.derivations import OPERATIONS, of_theorem
from axioms.prove import Verdict
from axioms.roots import ROOTS
from axioms.show import SPECIAL, Page, escaped, latex, page, text

COMMANDS = {"paragraph", "emph", "begin", "end", "item", "texttt"} | {
    "textbackslash", "textasciicircum", "textasciitilde", "ldots",
}  # fmt: skip
TRICKY = Verdict(
    number=3,
    statement=r"a_1 & b^2 are 50% of {x} \ $y$ #1, |z| < ε → ½ ≥ 漢, as eps -> 0",
    verdict="refuted",
    witness="x = {1: 2}_" + "long" * 40,
    method="",
    seconds=0.1,
    test="axioms/theorems/test_x.py::test_of_a_name_that_is_too_long_for_one_line_" + "a" * 60,
    error="",
)


def as_page(number, *verdicts):
    return Page(number=number, verdicts=verdicts, derivations=of_theorem(number))


NUMBERS = sorted({n for _, numbers in (OPERATIONS | ROOTS).values() for n in numbers})


@pytest.fixture(scope="module")
def ten():
    return page(10)


def check_latex(source):
    """Raises AssertionError unless the fragment is ASCII and balanced, and its formulas parse."""
    assert source.isascii()
    for formula in re.findall(r"\\\[(.*?)\\\]|\$(.*?)(?<!\\)\$", re.sub(r"\\\$", "", source)):
        MathTextParser("path").parse(f"${''.join(formula).strip()}$")
    prose = re.sub(r"\\\[.*?\\\]|(?<!\\)\$.*?(?<!\\)\$", "", source)
    commands = re.findall(r"\\([a-zA-Z]+)", prose)
    assert set(commands) <= COMMANDS
    assert commands.count("begin") == commands.count("end")
    bare = re.sub(r"\\([a-zA-Z]+|[{}$&#%_])", "", prose)
    assert not re.search(r"[\\$&#%_^~<>|]", bare)
    depth = 0
    for brace in re.findall(r"[{}]", bare):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0


def test_a_theorem_is_shown_with_its_statements_derivation_and_evidence(ten):
    shown = text(ten)
    flat = " ".join(shown.split())
    assert len(ten.verdicts) >= 6
    for verdict in ten.verdicts:
        assert f"[{verdict.verdict}] {verdict.statement}" in flat
        evidence = (verdict.method, verdict.witness)
        assert all(" ".join(part.split()) in flat for part in evidence)
    assert "R_z00 = (R00*e01*z00 - R01*e00*z00)/(e00 + e01)" in shown
    assert 'Derivation of the rule "taylor" (softmax)' in shown


def test_only_the_statements_of_that_number_are_shown(ten):
    assert {verdict.number for verdict in ten.verdicts} == {10}
    assert [verdict.error for verdict in ten.verdicts] == [""] * len(ten.verdicts)


@pytest.mark.parametrize("number", NUMBERS)
def test_no_line_is_longer_than_80_columns(number):
    shown = text(as_page(number, TRICKY))
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count("Derivation of") >= 1


@pytest.mark.parametrize("number", NUMBERS)
def test_the_latex_of_every_derivation_is_well_formed(number):
    source = latex(as_page(number, TRICKY))
    check_latex(source)
    assert source.count(r"\item") == 5 * source.count("Derivation of")


def test_the_latex_of_a_theorem_is_well_formed(ten):
    check_latex(latex(ten))


def test_every_text_that_latex_reads_otherwise_is_escaped():
    for special in SPECIAL:
        check_latex(escaped(f"a{special}b"))
        assert escaped(special) != special
    assert escaped("漢") == r"\texttt{U+6F22}"


BROKEN = {
    "a bare underscore": "a_1",
    "a bare percent sign": "50% of it",
    "an open brace": r"\emph{x",
    "a closing brace": "x}",
    "an unknown command": r"\unknown{x}",
    "an open list": r"\begin{enumerate} \item x",
    "a letter that LaTeX does not know": "ε",
    "a formula with an open group": r"\[ \frac{1}{2 \]",
    "a formula with an unknown command": r"\[ \nosuchthing \]",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_latex_is_rejected(name):
    with pytest.raises((AssertionError, ValueError)):
        check_latex(BROKEN[name])


def test_an_unknown_number_lists_the_numbers():
    with pytest.raises(ValueError, match=r"no theorem 999; the numbers are 1, 2, .*10"):
        page(999)


def test_a_statement_that_was_not_established_shows_why():
    failed = replace(TRICKY, verdict="not established", error="assert 1 == 2")
    shown = text(as_page(3, failed))
    assert "[not established]" in shown
    assert "Error: assert 1 == 2" in shown
