"""`lrp-axioms prove --show` prints a theorem that a reader, or LaTeX, can take in."""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from matplotlib.mathtext import MathTextParser

from axioms.derivations.operations import derivations
from axioms.evidence.prove import Verdict
from axioms.evidence.statements import table
from axioms.pages.display import BELOW
from axioms.pages.formulas import ATOMS, TOKEN
from axioms.pages.latex import SPECIAL, escaped, latex, typeset
from axioms.pages.show import Page, page, text
from tests.support.theorems import stated

COMMANDS = {"paragraph", "emph", "begin", "end", "item", "texttt"} | {
    "textbackslash", "textasciicircum", "textasciitilde", "ldots",
    "par", "footnotesize", "raggedright", "hfill", "rule", "penalty",
}  # fmt: skip
TRICKY = Verdict(
    number=3,
    statement=r"a_1 & b^2 are 50% of {x} \ $y$ #1, |z| < ε → ½ ≥ 漢, as eps -> 0",
    verdict="refuted",
    witness="x = {1: 2}_" + "long" * 40,
    method="",
    identities=2,
    points="x_1 = 1/2: 3 versus -4",
    ran="linear.add_by_size, propagate.propagate",
    seconds=0.1,
    test="axioms/theorems/test_x.py::test_of_a_name_that_is_too_long_for_one_line_" + "a" * 60,
    error="",
    label="3a",
)


PLAIN = replace(TRICKY, witness="x = (1, 2): 3 versus 4", test="axioms/theorems/test_x.py::test_a")


RULES = table("DERIVATIONS")
NUMBERS = sorted(RULES)


def as_page(number, *verdicts):
    return Page(
        label=str(number), verdicts=verdicts, derivations=derivations(RULES.get(number, ()))
    )


@pytest.fixture(scope="module")
def ten():
    return page("10")


VERDICTS = [
    replace(PLAIN, number=v.number, statement=v.statement, verdict=v.verdict) for v in stated()
]


def _rows(array):
    """The rows of an array as formulas of their own, which is all that the parser knows."""
    return array[1].replace(r"\displaystyle", "").replace(BELOW, r"\] \[")


def check_latex(source):
    """Raises AssertionError unless the fragment is ASCII and balanced, and its formulas parse."""
    assert source.isascii()
    source = re.sub(r"\\begin{equation}(.*?)\\end{equation}", r"\\[\1\\]", source)
    source = re.sub(r"\\begin{array}{@{}l@{}}(.*?)\\end{array}", _rows, source)
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


def flat(shown):
    return " ".join(shown.split())


def test_a_proof_says_what_relevance_is_and_a_counterexample_where_sides_differ(ten):
    shown, printed = text(ten), latex(ten)
    check_latex(printed)
    assert "R_Z11 = (R1*e2*Z11 - R2*e1*Z11)/(e1 + e2)" in shown
    assert 'Derivation of the rule "taylor" (softmax)' in shown
    lines = [line for verdict in ten.verdicts for line in ten.argument(verdict).lines]
    numbers = re.findall(r"^    \((\d+)\) ", shown, re.MULTILINE)
    assert numbers == [str(n) for n in range(1, len(lines) + 1)]
    assert printed.count(r"\begin{equation}") == len(lines)
    assert "R_z1 + R_z2 + R_z3 = 0 != 6 = R1 + R2 + R3" in shown
    assert "This is so at c = 0, R1 = 1, R2 = 2, R3 = 3." in flat(shown)
    assert r"\paragraph{Counterexample to 10c.}" in printed
    assert r"\emph{The following is false.} Eq. 5 conserves" in printed
    assert "refuted" not in printed
    assert "Assumptions: e1, e2, e3 are positive; R1, R2, R3, z1, z2, z3 are real." in flat(shown)
    assert "e_i is the exponential of logit i, exp(z_i)." in flat(shown)


@pytest.mark.parametrize("number", NUMBERS)
def test_no_line_is_longer_than_80_columns_and_the_latex_is_well_formed(number):
    page = as_page(number, TRICKY)
    shown, source = text(page), latex(page)
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count("Derivation of") >= 1
    check_latex(source)
    assert source.count(r"\item") == 5 * source.count("Derivation of")


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


UNKNOWN = {
    "999": "no theorem 999; the numbers are 1-28, 42, 44-47 and 49-",
    "22z": "no statement 22z; those of theorem 22 are 22a, 22b",
    "10 b": "'10 b' is no theorem; pass a number, such as 10, or 10b of it",
    "": "'' is no theorem",
    "-1": "'-1' is no theorem",
}


@pytest.mark.parametrize("label", UNKNOWN)
def test_an_unknown_theorem_is_refused_with_what_there_is(label):
    with pytest.raises(ValueError, match=re.escape(UNKNOWN[label])):
        page(label)


def test_one_statement_is_shown_alone():
    shown = page("10b")
    assert text(shown).startswith("Theorem 10b\n\nNotation\n")
    assert text(page("10c")).startswith("Counterexample to 10c\n")
    assert "Derivation" not in text(shown)
    assert r"\paragraph{Theorem 10b.}" in latex(shown)


@pytest.mark.parametrize(("plain", "printed"), [
    ("x1 x2", r"$x_{1}\,x_{2}$"),
    ("R/2 as epsilon -> 0", r"$R/2$ as $\varepsilon \to 0$"),
    ("all eps >= 1/4", r"all $\varepsilon \geq 1/4$"),
    ("R_out = LOO_i", r"$R_{out}=\mathrm{LOO}_{i}$"),
    ("the alpha-beta rule", r"the $\alpha$-$\beta$ rule"),
    ("f(x) = 2^d, K^-T", r"$f(x)=2^{d}$, $K^{-T}$"),
    ("2^0.5 and x**(1/2)", r"$2^{0.5}$ and x**$(1/2)$"),
    ("R_j (z_j - b_j)/(z_j + eps)", r"$R_{j}\,(z_{j}-b_{j})/(z_{j}+\varepsilon)$"),
    ("c (R - mean R), |a", r"$c\,(R-\mathrm{mean}\,R)$, $|$a"),
    ("-0.5 of 2 26/5, e**2", r"$-0.5$ of 2 $26/5$, $e^{2}$"),
    ("x = (2, 3): 6/6, or (a = 1, or b)", "$x=(2,3)$: $6/6$, or ($a=1$, or b)"),
    ("of one sign, K and a - of 2", "of one sign, K and a - of 2"),
    ("a_name_of_code steps2 2x2", r"a\_name\_of\_code steps2 2x2"),
])  # fmt: skip
def test_formulas_are_found_whole_and_words_are_left_alone(plain, printed):
    assert typeset(plain) == printed
    check_latex(printed)


def test_every_formula_of_the_table_occurs_in_a_theorem():
    words = {word for verdict in VERDICTS for word in TOKEN.findall(verdict.statement)}
    used = [pattern for pattern in ATOMS if any(re.fullmatch(pattern, x) for x in words)]
    assert used == list(ATOMS)


def test_every_formula_of_a_theorem_is_well_formed():
    for verdict in VERDICTS:
        check_latex(typeset(verdict.statement))


# The whole of it, through LaTeX


SEEN = 1  # point over the margin


def document(*fragments):
    body = "\n\n".join(fragments)
    return f"\\documentclass{{article}}\n\\begin{{document}}\n{body}\n\\end{{document}}\n"


def compile_latex(source, folder):
    """How far lines go over the margin; AssertionError with LaTeX's own words for an error."""
    (folder / "page.tex").write_text(source, encoding="ascii")
    command = ["pdflatex", "-interaction=nonstopmode", "-no-shell-escape", "page.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    errors = [line for line in done.stdout.splitlines() if line.startswith("!")]
    assert (done.returncode, errors) == (0, [])
    log = (folder / "page.log").read_text("latin-1")
    assert (folder / "page.pdf").read_bytes().startswith(b"%PDF")
    return [float(points) for points in re.findall(r"^Overfull \\hbox \(([\d.]+)pt", log, re.M)]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_all_theorems_compile_as_one_document(ten, tmp_path):
    """All statements and derivations, and two theorems with their arguments."""
    numbers = sorted({verdict.number for verdict in VERDICTS})
    pages = [as_page(n, *(v for v in VERDICTS if v.number == n)) for n in numbers]
    source = document(*map(latex, [*pages, ten, page("28")]))
    assert [points for points in compile_latex(source, tmp_path) if points > SEEN] == []
    assert max(compile_latex(document(latex(as_page(3, TRICKY))), tmp_path)) > SEEN


def test_a_statement_that_was_not_established_shows_why():
    failed = replace(TRICKY, verdict="not established", error="assert 1 == 2")
    shown = text(as_page(3, failed))
    assert "[not established]" in shown
    assert "Error: assert 1 == 2" in shown
