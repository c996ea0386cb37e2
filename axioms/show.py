"""One theorem as a page: statements, verdicts, how they were decided, and the rule's derivation."""

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import sympy as sp

from axioms.derivations import of_theorem
from axioms.derive import Derivation
from axioms.prove import THEOREMS, Verdict, prove

WIDTH = 80


@dataclass(frozen=True, kw_only=True)
class Page:
    """What is known about the statements of one number."""

    number: int
    verdicts: tuple[Verdict, ...]
    derivations: dict[str, Derivation]  # by name of the rule


def page(number: int) -> Page:
    """Decides the statements of theorem ``number`` now, by running their files alone.

    Raises ValueError that lists all numbers if there is no such theorem.
    """
    files = [path for path in sorted(THEOREMS.glob("test_*.py")) if number in _numbers(path)]
    if not files:
        known = sorted({n for path in THEOREMS.glob("test_*.py") for n in _numbers(path)})
        raise ValueError(
            f"there is no theorem {number}; the numbers are {', '.join(map(str, known))}"
        )
    verdicts = tuple(verdict for verdict in prove(*files) if verdict.number == number)
    return Page(number=number, verdicts=verdicts, derivations=of_theorem(number))


def _numbers(path: Path) -> set[int]:
    """The theorem numbers in a test file, read without running it."""
    decorators = (
        decorator
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
    )
    return {
        decorator.args[0].value
        for decorator in decorators
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith(".theorem")
    }


def _evidence(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """Label and text of what supports a verdict; what is empty is left out."""
    path, _, test = verdict.test.partition("::")
    parts = {
        "Method": verdict.method,
        "Witness": verdict.witness,
        "Error": verdict.error,
        "Test": f"{test} in {path}",
    }
    return ((label, text) for label, text in parts.items() if text)


# Plain text


def text(page: Page) -> str:
    """The page in at most 80 columns."""
    lines = [f"Theorem {page.number}"]
    for verdict in page.verdicts:
        lines += ["", *_wrapped(f"[{verdict.verdict}] {verdict.statement}", indent=0, hang=2)]
        for label, found in _evidence(verdict):
            lines += _wrapped(f"{label}: {found}", indent=2, hang=4)
    for name, derivation in page.derivations.items():
        lines += ["", f'Derivation of the rule "{derivation.operation.rule}" ({name})']
        for n, step in enumerate(derivation.steps, start=1):
            lines += _wrapped(f"{n}. {step.text}", indent=2, hang=5)
            for formula in step.formulas:
                lines += _wrapped(_formula(formula), indent=7, hang=11)
    return "\n".join(lines) + "\n"


def _formula(formula) -> str:
    return f"{formula.lhs} = {formula.rhs}".replace("**", "^")


def _wrapped(line: str, *, indent: int, hang: int) -> list[str]:
    return textwrap.wrap(
        line,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * hang,
        break_on_hyphens=False,
    )


# LaTeX, of which only the base format is needed


def latex(page: Page) -> str:
    """The page as a fragment that any LaTeX document can include, in ASCII."""
    lines = []
    for verdict in page.verdicts:
        head = rf"\paragraph{{Theorem {page.number}, {escaped(verdict.verdict)}.}}"
        lines += ["", head, escaped(verdict.statement)]
        lines += [rf"\emph{{{label}:}} {escaped(found)}" for label, found in _evidence(verdict)]
    for name, derivation in page.derivations.items():
        rule = escaped(f"{derivation.operation.rule} ({name})")
        lines += ["", rf"\paragraph{{Derivation of the rule {rule}.}}", r"\begin{enumerate}"]
        for step in derivation.steps:
            lines += [rf"\item {escaped(step.text)}", *_displayed(step.formulas)]
        lines += [r"\end{enumerate}"]
    return "\n".join(lines[1:]) + "\n"


def _displayed(formulas: Iterable) -> list[str]:
    words = {sp.Symbol(word): rf"\mathrm{{{word}}}" for word in ("sum", "rest", "slope", "scale")}
    words[sp.Symbol("scale", positive=True)] = r"\mathrm{scale}"
    return [rf"\[ {sp.latex(formula, symbol_names=words)} \]" for formula in formulas]


SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "->": r"$\to$", "<": "$<$", ">": "$>$", "|": "$|$",
    "ε": r"$\varepsilon$", "α": r"$\alpha$", "β": r"$\beta$", "λ": r"$\lambda$",
    "σ": r"$\sigma$", "Σ": r"$\Sigma$", "Φ": r"$\Phi$", "φ": r"$\varphi$", "Δ": r"$\Delta$",
    "∂": r"$\partial$", "√": r"$\sqrt{\ }$", "½": r"$\frac{1}{2}$", "²": "$^{2}$", "³": "$^{3}$",
    "ᵀ": r"$^{T}$", "→": r"$\to$", "≤": r"$\leq$", "≥": r"$\geq$", "≠": r"$\neq$",
    "≈": r"$\approx$", "∞": r"$\infty$", "·": r"$\cdot$", "×": r"$\times$", "−": "$-$",
    "∘": r"$\circ$", "⊙": r"$\odot$", "…": r"\ldots{}", "–": "--", "—": "---",
}  # fmt: skip
"""Every text that LaTeX would not print as it stands."""


def escaped(text: str) -> str:
    """The text as LaTeX prints it; a character without an entry becomes its code point."""

    def one(match):
        found = match.group()
        return SPECIAL.get(found) or rf"\texttt{{U+{ord(found):04X}}}"

    return re.sub(r"->|[^\x00-\x7f]|[\\{}$&#%_^~<>|]", one, text)
