"""The catalogue of theorems: statements, verdicts and formulas, decided while the site is built."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path

from latex2mathml.converter import convert

from axioms.derivations.operations import of_theorem
from axioms.proofs.formulas import pieces
from axioms.proofs.meanings import MEANINGS
from axioms.proofs.prove import ROOT, Verdict, prove
from axioms.proofs.show import formula_latex

INTRODUCTION = """# Theorems

{count} statements about the rules of LRP: {counts}. All of them were decided by exact computation
when this page was made. A statement is *proved* by an identity of rational functions of generic
symbols, and *refuted* by an exact counterexample. `lrp-axioms prove` decides them again, and
`lrp-axioms prove --show 10 --latex` prints one theorem for a paper. [PROOFS.md](PROOFS.md) says
more.
"""


@cache
def decided() -> list[Verdict]:
    """The verdict of every statement, once per process: `mkdocs serve` builds many times."""
    return prove()


def page(verdicts: Sequence[Verdict]) -> str:
    """Markdown with a section per file of theorems, and a heading per theorem."""
    of = {name: sum(v.verdict == name for v in verdicts) for name in ("proved", "refuted")}
    counts = ", ".join(f"{count} are {name}" for name, count in of.items())
    lines = [INTRODUCTION.format(count=len(verdicts), counts=counts)]
    file_of = {verdict.number: verdict.test.partition("::")[0] for verdict in reversed(verdicts)}
    by_file = sorted(verdicts, key=lambda v: (first(file_of, file_of[v.number]), v.number))
    for file, theorems in groupby(by_file, key=lambda v: file_of[v.number]):
        lines += [f"## {title(ROOT / file)}", ""]
        for number, statements in groupby(theorems, key=lambda v: v.number):
            lines += [f"### Theorem {number}", "", typeset(MEANINGS[number]), ""]
            lines += [*map(statement, statements), *map(derivation, of_theorem(number).items()), ""]
    return "\n".join(lines)


def first(file_of, file: str) -> int:
    """The least number of a theorem in a file."""
    return min(number for number, its_file in file_of.items() if its_file == file)


def title(file: Path) -> str:
    """What a file of theorems is about: the first line of its text."""
    return ast.get_docstring(ast.parse(file.read_text("utf-8"))).splitlines()[0].rstrip(".")


def statement(verdict: Verdict) -> str:
    """One statement with its verdict, and what supports it, as HTML."""
    evidence = "".join(
        f"<div><em>{label}:</em> {typeset(text)}</div>"
        for label, text in (("Witness", verdict.witness), ("Method", verdict.method))
        if text
    )
    return (
        f'<div class="statement {verdict.verdict}"><p><strong>{verdict.label}</strong> '
        f'<span class="verdict">{verdict.verdict}</span> {typeset(verdict.statement)}</p>'
        f'<div class="evidence">{evidence}</div></div>\n'
    )


def derivation(named) -> str:
    """How a rule follows from its operation, closed until it is asked for, as HTML."""
    name, found = named
    rule = escape(f"{found.operation.rule} ({name})")
    steps = "".join(f"<li>{typeset(step.text)}{displayed(step)}</li>" for step in found.steps)
    summary = f"Derivation of the rule {rule}"
    return f'<details class="derivation"><summary>{summary}</summary><ol>{steps}</ol></details>\n'


def displayed(step) -> str:
    formulas = (convert(formula_latex(formula), display="block") for formula in step.formulas)
    return "".join(f'<div class="formula">{formula}</div>' for formula in formulas)


def typeset(text: str) -> str:
    """The text as HTML, its formulas as MathML."""
    return "".join(_typeset(text))


def _typeset(text: str) -> Iterator[str]:
    for formula, piece in pieces(text):
        yield convert(piece) if formula else escape(piece.replace("->", "→"), quote=False)
