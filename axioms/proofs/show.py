"""One theorem as a page: statements, verdicts, how they were decided, and the rule's derivation."""

import ast
import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import sympy as sp

from axioms.algebra.decisions import DIFFER_AT, IDENTICAL, Decision
from axioms.derivations.derive import EPS, Derivation
from axioms.derivations.operations import of_theorem
from axioms.proofs.formulas import pieces
from axioms.proofs.prove import THEOREMS, Verdict, prove

WIDTH = 80
SHOWN, LONG = 3, 240  # equations of a statement at most, and characters of one


@dataclass(frozen=True, kw_only=True)
class Page:
    """What is known about the statements of one number, or about one of them."""

    label: str  # such as 10 or 10b
    verdicts: tuple[Verdict, ...]
    derivations: dict[str, Derivation]  # by name of the rule
    decisions: dict[str, list[Decision]] = field(default_factory=dict)  # by the test of a verdict


def page(label: str) -> Page:
    """Decides the statements of theorem ``label`` now, by running their files alone.

    "10" is the whole theorem with its derivations, "10b" its second statement alone.
    Raises ValueError that names what there is if there is no such theorem or statement.
    """
    split = re.fullmatch(r"(\d+)([a-z]*)", label)
    if not split:
        raise ValueError(f"{label!r} is no theorem; pass a number, such as 10, or 10b of it")
    number, letters = int(split[1]), split[2]
    files = {path: _numbers(path) for path in sorted(THEOREMS.glob("test_*.py"))}
    chosen = [path for path, numbers in files.items() if number in numbers]
    if not chosen:
        known = _ranges(set().union(*files.values()))
        raise ValueError(f"there is no theorem {number}; the numbers are {known}")
    seen: dict[str, list[Decision]] = {}
    verdicts = tuple(v for v in prove(*chosen, decisions=seen) if v.number == number)
    if not letters:
        rules = of_theorem(number)
        return Page(label=str(number), verdicts=verdicts, derivations=rules, decisions=seen)
    only = tuple(verdict for verdict in verdicts if verdict.label == f"{number}{letters}")
    if not only:
        known = ", ".join(verdict.label for verdict in verdicts)
        raise ValueError(f"there is no statement {label}; those of theorem {number} are {known}")
    return Page(label=only[0].label, verdicts=only, derivations={}, decisions=seen)


def _ranges(numbers: Iterable[int]) -> str:
    """1, 2, 3 and 7 as "1-3 and 7"."""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    *first, last = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"{', '.join(first)} and {last}" if first else last


def _numbers(path: Path) -> set[int]:
    """The theorem numbers in a test file, read without running it."""
    decorators = (
        decorator
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
    )
    return {
        ast.literal_eval(decorator.args[0])
        for decorator in decorators
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith(".theorem")
    }


def _evidence(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """Label and text of what supports a verdict; what is empty is left out."""
    path, _, test = verdict.test.partition("::")
    parts = {
        "Method": verdict.method,
        "Witness": verdict.witness,
        "Decided": _decided(verdict),
        "Ran": verdict.ran,
        "Error": verdict.error,
        "Test": f"{test} in {path}",
    }
    return ((label, text) for label, text in parts.items() if text)


def _decided(verdict: Verdict) -> str:
    """What ``decide`` recorded: the number of identities, and every point evaluated."""
    count = verdict.identities
    identities = f"{count} identit{'y' if count == 1 else 'ies'} over symbols" if count else ""
    return "; ".join(part for part in (identities, verdict.points) if part)


def equations(page: Page, verdict: Verdict) -> list[sp.Basic]:
    """Some of what was decided of a statement, short enough to be read.

    Equalities for what was proved, and for what was refuted the sides that a point sets apart;
    not those of which one side is written as the other.
    """
    kind, relation = (DIFFER_AT, sp.Ne) if verdict.verdict == "refuted" else (IDENTICAL, sp.Eq)
    found = {
        relation(decision.left, decision.right, evaluate=False): None
        for decision in page.decisions.get(verdict.test, [])
        if decision.kind == kind and decision.verdict and decision.symbols
        if decision.left != decision.right
    }
    return [*itertools.islice((one for one in found if len(str(one)) <= LONG), SHOWN)]


# Plain text


def text(page: Page) -> str:
    """The page in at most 80 columns."""
    lines, number = [f"Theorem {page.label}"], itertools.count(1)
    for verdict in page.verdicts:
        head = f"{verdict.label} [{verdict.verdict}] {verdict.statement}"
        lines += ["", *_wrapped(head, indent=0, hang=2)]
        for label, found in _evidence(verdict):
            lines += _wrapped(f"{label}: {found}", indent=2, hang=4)
        for equation in equations(page, verdict):
            lines += _wrapped(f"({next(number)}) {_formula(equation)}", indent=4, hang=8)
    for name, derivation in page.derivations.items():
        lines += ["", f'Derivation of the rule "{derivation.operation.rule}" ({name})']
        for n, step in enumerate(derivation.steps, start=1):
            lines += _wrapped(f"{n}. {step.text}", indent=2, hang=5)
            for formula in step.formulas:
                lines += _wrapped(_formula(formula), indent=7, hang=11)
    return "\n".join(lines) + "\n"


def _formula(formula: sp.Basic) -> str:
    sign = "!=" if isinstance(formula, sp.Ne) else "="
    return f"{formula.lhs} {sign} {formula.rhs}".replace("**", "^")


def _wrapped(line: str, *, indent: int, hang: int) -> list[str]:
    return textwrap.wrap(
        line,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * hang,
        break_on_hyphens=False,
    )


# LaTeX; a document needs only the base format

HEADS = {"proved": "Theorem {label}", "refuted": "Counterexample to {label}"}


def latex(page: Page) -> str:
    """The page as a fragment that any LaTeX document can include, in ASCII."""
    lines = []
    for verdict in page.verdicts:
        head = HEADS.get(verdict.verdict, "Theorem {label}, " + escaped(verdict.verdict))
        lines += ["", rf"\paragraph{{{head.format(label=verdict.label)}.}}"]
        lines.append(typeset(verdict.statement))
        for label, found in _evidence(verdict):
            printed = typeset(found) if label in ("Method", "Witness") else escaped(found)
            lines.append(rf"\emph{{{label}:}} {printed}")
        for equation in equations(page, verdict):
            lines.append(rf"\begin{{equation}} {formula_latex(equation)} \end{{equation}}")
    for name, derivation in page.derivations.items():
        rule = escaped(f"{derivation.operation.rule} ({name})")
        lines += ["", rf"\paragraph{{Derivation of the rule {rule}.}}", r"\begin{enumerate}"]
        for step in derivation.steps:
            lines += [rf"\item {typeset(step.text)}"]
            lines += [rf"\[ {formula_latex(formula)} \]" for formula in step.formulas]
        lines += [r"\end{enumerate}"]
    return "\n".join(lines[1:]) + "\n"


def formula_latex(formula: sp.Basic) -> str:
    """A formula of a derivation as LaTeX."""
    words = {sp.Symbol(word): rf"\mathrm{{{word}}}" for word in ("sum", "rest", "slope", "scale")}
    words[sp.Symbol("scale", positive=True)] = r"\mathrm{scale}"
    words[EPS] = r"\varepsilon"
    return str(sp.latex(formula, symbol_names=words))


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


ESCAPES = r"->|[^\x00-\x7f]|[\\{}$&#%_^~<>|]"


def escaped(text: str) -> str:
    """The text as LaTeX prints it; a character without an entry becomes its code point."""

    def one(match: re.Match[str]) -> str:
        found = match.group()
        return SPECIAL.get(found) or rf"\texttt{{U+{ord(found):04X}}}"

    return re.sub(ESCAPES, one, text)


def typeset(text: str) -> str:
    """The text as LaTeX prints it, its formulas as formulas."""
    return "".join(f"${piece}$" if formula else escaped(piece) for formula, piece in pieces(text))
