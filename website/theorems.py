"""docs/THEOREMS.md with formulas, witnesses and derivations, decided while the site is built."""

from collections.abc import Sequence
from functools import cache
from html import escape

from latex2mathml.converter import convert

from axioms.derivations.operations import derivations
from axioms.evidence.prove import Verdict, prove
from axioms.evidence.rocq import kernel
from axioms.evidence.statements import table
from axioms.pages.formulas import pieces
from axioms.pages.show import derived
from website import catalogue

SEARCH = """<p class="find" hidden><label>Find statements with these words
<input type="search" id="find"></label> <span id="count" role="status"></span></p>
"""
"""A field for the script docs/theorems.js, without which nothing is hidden."""


@cache
def decided() -> list[Verdict]:
    """The verdict of every statement, once per process: `mkdocs serve` builds many times."""
    return prove()


def page(verdicts: Sequence[Verdict]) -> str:
    """The catalogue as Markdown, with formulas, witnesses and derivations.

    Raises ValueError that names every statement that is not established.
    """
    meanings, rules = table("MEANINGS"), table("DERIVATIONS")
    lines = [catalogue.introduction(verdicts), SEARCH]
    for name, section in catalogue.sections(verdicts).items():
        lines += [*catalogue.heading(name, section), ""]
        lines += ['<details class="theme" markdown="1">']
        lines += [f"<summary>{catalogue.listed(section)}</summary>", ""]
        for number, statements in section.theorems.items():
            lines += [f"### Theorem {number}", "", typeset(meanings[number]), ""]
            lines += map(statement, statements)
            lines += map(derivation, derivations(rules.get(number, ())).items())
            lines += [f"`lrp-axioms prove --show {number}`", ""]
        lines += ["</details>", ""]
    return "\n".join(lines)


def statement(verdict: Verdict) -> str:
    """Returns one statement with its verdict and evidence, as HTML."""
    evidence = "".join(
        f"<div><em>{label}:</em> {typeset(text)}</div>"
        for label, text in (
            ("Scope", verdict.scope),
            ("Given", verdict.given),
            ("Witness", verdict.witness),
            ("Method", verdict.method),
            ("Rocq", kernel(verdict.statement)),
        )
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
    names = derived(found)
    steps = "".join(
        f"<li>{typeset(names.words(step.text))}{displayed(step, names)}</li>"
        for step in found.steps
    )
    summary = f"Derivation of the rule {rule}"
    return f'<details class="derivation"><summary>{summary}</summary><ol>{steps}</ol></details>\n'


def displayed(step, names) -> str:
    formulas = (convert(names.latex(formula), display="block") for formula in step.formulas)
    return "".join(f'<div class="formula">{formula}</div>' for formula in formulas)


def typeset(text: str) -> str:
    """The text as HTML, its formulas as MathML."""
    html = lambda piece: escape(piece.replace("->", "→"), quote=False)
    return "".join(convert(piece) if formula else html(piece) for formula, piece in pieces(text))
