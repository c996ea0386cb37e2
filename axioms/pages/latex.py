"""One theorem as LaTeX: a fragment that an author pastes into any document.  Base format alone."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from lrp_axioms.axioms.derivations.derive import Derivation
from lrp_axioms.axioms.evidence.prove import Verdict
from lrp_axioms.axioms.pages import show
from lrp_axioms.axioms.pages.abbreviations import Abbreviations
from lrp_axioms.axioms.pages.arguments import Argument, Line
from lrp_axioms.axioms.pages.display import array, displayed
from lrp_axioms.axioms.pages.formulas import pieces
from lrp_axioms.axioms.pages.show import Page

FALSE = r"\emph{The following is false.}"
FORMS = "R^{(1)}_x", r"R_{x\leftarrow j}"
ROWS = 6  # of one display: it cannot be broken
END = r"\hfill\rule{1ex}{1ex}"


def latex(page: Page) -> str:
    """The page as a fragment that any LaTeX document can include, in ASCII."""
    lines, number = [r"\paragraph{Notation.}"], itertools.count(1)
    for part in show.notation_of(page, FORMS):
        rows = part.splitlines() if part.startswith("    ") else []
        lines += ["", *(rf"\par {typeset(row.strip())}" for row in rows)] if rows else []
        lines += [] if rows else [_prose(part)]
    for verdict in page.verdicts:
        lines += ["", *_statement(verdict, page.argument(verdict), number)]
    for name, derivation in page.derivations.items():
        lines += ["", *_derivation(name, derivation)]
    return "\n".join([r"\begin{sloppypar}", *lines, r"\end{sloppypar}"]) + "\n"


def _prose(text: str) -> str:
    """A sentence about some of ``FORMS``."""
    parts = re.split(f"({'|'.join(map(re.escape, FORMS))})", text)
    return "".join(f"${part}$" if part in FORMS else typeset(part) for part in parts)


def _statement(verdict: Verdict, argument: Argument, number: Iterator[int]) -> Iterator[str]:
    written = argument.notation
    refuted = verdict.verdict == "refuted"
    head = show.HEADS.get(verdict.verdict, f"Not established: {verdict.verdict},")
    yield rf"\paragraph{{{escaped(head)} {verdict.label}.}}"
    yield (f"{FALSE} " if refuted else "") + typeset(verdict.statement)
    parts = show.parts(verdict, argument, lambda x: f"${written.of(x).latex}$")
    for label, found in (parts | {"Error": verdict.error}).items():
        if found:
            shown = found if label == "Assumptions" else typeset(found)
            yield rf"\par\emph{{{label}.}} {shown}"
    for line in argument.lines:
        shown = array(displayed(written, line.relation, _after(line), values=line.values))
        yield rf"\begin{{equation}} {shown} \end{{equation}}"
    yield typeset(show.points_of(argument))
    if argument.formulas:
        yield "Here"
    formulas = (displayed(written, line.relation, _after(line)) for line in argument.formulas)
    yield from (rf"\[ {array(rows)} \]" for rows in _join(formulas))
    evidence = breakable(show.checked(verdict, argument))
    yield rf"\par{{\footnotesize\raggedright Checked by {evidence}{END}\par}}"


def _join(formulas: Iterable[Sequence[str]]) -> Iterator[list[str]]:
    """The rows of several formulas together, in displays of about ``ROWS``."""
    rows: list[str] = []
    for formula in formulas:
        if rows and len(rows) + len(formula) > ROWS:
            yield rows
            rows = []
        rows += formula
    if rows:
        yield rows


def _after(line: Line) -> str:
    return r"\quad (\varepsilon\to 0)" if line.limit else ""


def _derivation(name: str, derivation: Derivation) -> Iterator[str]:
    written = show.derived(derivation)
    rule = escaped(f"{derivation.operation.rule} ({name})")
    yield rf"\paragraph{{Derivation of the rule {rule}.}}"
    yield r"\begin{enumerate}"
    for step in derivation.steps:
        yield rf"\item {typeset(written.words(step.text))}"
        parts = Abbreviations(written)
        formulas = [parts.short(formula) for formula in step.formulas]
        formulas += parts.definitions()
        for formula in formulas:
            yield rf"\[ {array(displayed(parts.named(), formula))} \]"
    yield r"\end{enumerate}"


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


def breakable(text: str) -> str:
    """Names of code, which may be broken after each underscore and point."""
    return re.sub(r"(\\_|[./])(?=\w)", r"\1\\penalty0 ", escaped(text))


def typeset(text: str) -> str:
    """The text as LaTeX prints it, its formulas as formulas."""
    return "".join(f"${piece}$" if formula else escaped(piece) for formula, piece in pieces(text))
