"""One theorem as a page: notation, statements, why they hold or fail, and the rule's derivation."""

import itertools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import sympy as sp

from lrp_axioms.axioms.derivations.derive import Derivation
from lrp_axioms.axioms.derivations.operations import derivations
from lrp_axioms.axioms.evidence import statements
from lrp_axioms.axioms.evidence.prove import Verdict, prove
from lrp_axioms.axioms.evidence.rocq import kernel
from lrp_axioms.axioms.pages.arguments import Argument, Line, argument
from lrp_axioms.axioms.pages.notation import ENTRY, Notation, notation
from lrp_axioms.axioms.pages.origins import Tracer

WIDTH = 80
FEW = 3  # entries of a matrix that are all named
HEADS = {"proved": "Theorem", "refuted": "Counterexample to"}


@dataclass(frozen=True, kw_only=True)
class Page:
    """The statements of one theorem, or one of them, with verdicts and decisions."""

    label: str  # such as 10 or 10b
    verdicts: tuple[Verdict, ...]
    derivations: dict[str, Derivation]  # by name of the rule
    arguments: Mapping[str, Argument] = field(default_factory=dict)  # by the test of a verdict

    def argument(self, verdict: Verdict) -> Argument:
        """The argument for a verdict; empty where its test did not run."""
        return self.arguments.get(verdict.test, Argument())


def page(label: str) -> Page:
    """Decides the statements of theorem ``label`` now, by running their files alone.

    "10" is the whole theorem with its derivations, "10b" its second statement alone.
    Raises ValueError that lists the known labels if there is no such theorem or statement.
    """
    split = re.fullmatch(r"(\d{1,9})([a-z]*)", label)
    if not split:
        raise ValueError(f"{label!r} is no theorem; pass a number, such as 10, or 10b of it")
    number, letters = int(split[1]), split[2]
    files = {path: {x.number for x in statements.claims(path)} for path in statements.files()}
    chosen = [path for path, numbers in files.items() if number in numbers]
    if not chosen:
        known = _ranges(set().union(*files.values()))
        raise ValueError(f"there is no theorem {number}; the numbers are {known}")
    tracer = Tracer(only=number)
    verdicts = [v for v in prove(*chosen, plugins=[tracer]) if v.number == number]
    shown = tuple(v for v in verdicts if not letters or v.label == f"{number}{letters}")
    if not shown:
        known = ", ".join(verdict.label for verdict in verdicts)
        raise ValueError(f"there is no statement {label}; those of theorem {number} are {known}")
    rules = () if letters else statements.table("DERIVATIONS").get(number, ())
    found = {
        v.test: argument(tracer.runs.get(v.test, []), refuted=v.verdict == "refuted") for v in shown
    }
    return Page(
        label=f"{number}{letters}",
        verdicts=shown,
        derivations=derivations(rules),
        arguments=found,
    )


def _ranges(numbers: Iterable[int]) -> str:
    """Writes the numbers 1, 2, 3 and 7 as "1-3 and 7"."""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    *first, last = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"{', '.join(first)} and {last}" if first else last


MEANS = {
    "R": "R_x is the relevance that x receives, and R what arrives at an output, or R_j at output "
    "j.",
    "LOO": "LOO is Leave-One-Out.",
    "IG": "IG is Integrated Gradients from zero.",
    "Shapley": "Shapley is the Shapley value, absent inputs being zero.",
    "M": "M is mask relevance.",
}
"""Explains the notation for an entry, by the beginning of its name."""


FORMS = "R(1)_x", "R_x<-j"
"""The spelling of the relevance of x in network 1, and of the message from output j."""


def notation_of(page: Page, forms: tuple[str, str] = FORMS) -> list[str]:
    """Paragraphs of a page's theorem files, then explanations of its symbols in these ``forms``."""
    numbered, message = forms
    names = {
        name.text.removeprefix("lim ")
        for argument in page.arguments.values()
        for word, name in argument.notation.names.items()
        if word.startswith("entry")
    }
    heads = {re.split(r"[_(]", name)[0] for name in names}
    found = [text for key, text in MEANS.items() if key in heads]
    if any("<-" in name for name in names):
        found.append(f"{message} is the part of R_x that comes from output j.")
    if any("(" in name for name in names):
        found.append(f"{numbered} is that of network (1).")
    assumed = [x for y in page.arguments.values() for z in y.assumed.values() for x in z]
    if any(re.fullmatch(r"e\d+", str(x)) for x in assumed):
        found.append("e_i is the exponential of logit i, exp(z_i).")
    equations = "Equations are those of the paper When LRP Diverges from Leave-One-Out in "
    equations += "Transformers; epsilon is their stabiliser, and s_j, where it occurs, a sign. "
    equations += "A statement without epsilon is about epsilon -> 0. No denominator is 0."
    files = dict.fromkeys(verdict.test.partition("::")[0] for verdict in page.verdicts)
    paths = [path for file in files if (path := statements.ROOT / file).is_file()]
    settings = [part for path in paths for part in statements.setting(path)]
    return [*settings, " ".join([*found, equations])]


def assumptions(argument: Argument, write: Callable[[sp.Symbol], str]) -> str:
    """Assumptions and their symbols, written by ``write``; of many entries two are shown."""
    groups = []
    for fact, symbols in argument.assumed.items():
        bases: dict[str, list[str]] = {}
        for symbol in symbols:
            entry = ENTRY.fullmatch(str(symbol))
            bases.setdefault(entry["base"] if entry else str(symbol), []).append(write(symbol))
        few = (x if len(x) <= FEW else [x[0], "...", x[-1]] for x in bases.values())
        is_are = "is" if len(symbols) == 1 else "are"
        what = "arbitrary" if fact == "complex" else fact
        groups.append(f"{', '.join(itertools.chain(*few))} {is_are} {what}")
    return "; ".join(groups) + "." if groups else ""


def _sentence(text: str) -> str:
    """Ends a text with a full stop, and gives it a capital if it begins with a word."""
    word = re.match(r"[a-z]{2,}\b", text)
    return f"{text[0].upper() if word else text[:1]}{text[1:]}."


def checked(verdict: Verdict, argument: Argument) -> str:
    """Names the test that decides a statement, and the functions that ran."""
    path, _, test = verdict.test.partition("::")
    ran = f"; it ran {verdict.ran}" if verdict.ran else ""
    more = f", and has {argument.more} more such formulas" if argument.more else ""
    return f"{test} in {path}{ran}{more}. {kernel(verdict.statement)}".rstrip()


def points_of(argument: Argument) -> str:
    """Names the points where lines differ in a sentence: one point for all lines, or one each."""
    points = [line.point for line in argument.lines if line.point]
    values = {x: value for point in points for x, value in point.items()}
    if any(values[x] != value for point in points for x, value in point.items()):
        found = "; and ".join(_where(point, argument.notation) for point in points)
    else:
        found = _where(values, argument.notation)
    return f"This is so at {found}." if found else ""


def _where(point: Mapping[sp.Symbol, sp.Expr], written: Notation) -> str:
    return ", ".join(f"{written.of(x).text} = {value}" for x, value in point.items())


def parts(
    verdict: Verdict, argument: Argument, write: Callable[[sp.Symbol], str]
) -> dict[str, str]:
    """Paragraphs between a statement and its numbered lines, by label."""
    found = argument.notation.words("; ".join(argument.networks))
    refuted = verdict.verdict == "refuted"
    proof = _sentence(verdict.witness if refuted else verdict.method or "multiply out both sides")
    proof += "" if refuted else f" {argument.decides(verdict.identities)}"
    return {
        "Scope": verdict.scope and _sentence(verdict.scope),
        "Given": verdict.given and _sentence(verdict.given),
        "Assumptions": assumptions(argument, write),
        "Network" if "y = " in found else "Rule": f"{found}." if found else "",
        "Witness" if refuted else "Proof": "" if verdict.error else proof,
    }


def line_of(line: Line, written: Notation) -> str:
    """Writes an equality, or a difference such as R_x = 6 != 12 = LOO_x."""
    if not line.values:
        return written.text(line.relation)
    sides = zip(line.relation.args, line.values, strict=True)
    one, other = (list(dict.fromkeys(map(written.text, pair))) for pair in sides)
    return f"{' = '.join(one)} != {' = '.join(reversed(other))}"


def text(page: Page) -> str:
    """The page in at most 80 columns."""
    kinds = {verdict.verdict for verdict in page.verdicts}
    head = HEADS.get(kinds.pop(), "Theorem") if len(kinds) == 1 else "Theorem"
    lines, number = [f"{head} {page.label}", "", "Notation"], itertools.count(1)
    for part in notation_of(page):
        kept = part.startswith("    ")
        lines += part.splitlines() if kept else _wrap(part, indent=2, hang=2)
    for verdict in page.verdicts:
        lines += ["", f"{HEADS.get(verdict.verdict, 'Statement')} {verdict.label}"]
        lines += _statement(verdict, page.argument(verdict), number)
    for name, derivation in page.derivations.items():
        lines += ["", f'Derivation of the rule "{derivation.operation.rule}" ({name})']
        written = derived(derivation)
        for n, step in enumerate(derivation.steps, start=1):
            lines += _wrap(f"{n}. {written.words(step.text)}", indent=2, hang=5)
            for formula in step.formulas:
                lines += _wrap(written.text(formula), indent=7, hang=11)
    return "\n".join(lines) + "\n"


def _statement(verdict: Verdict, argument: Argument, number: Iterator[int]) -> Iterator[str]:
    written = argument.notation
    yield from _wrap(f"[{verdict.verdict}] {verdict.statement}", indent=2, hang=4)
    for label, found in parts(verdict, argument, lambda x: written.of(x).text).items():
        yield from _wrap(f"{label}: {found}", indent=2, hang=4) if found else ()
    for line in argument.lines:
        shown = f"({next(number)}) {line_of(line, written)}{_limit(line)}"
        yield from _wrap(shown, indent=4, hang=8)
    yield from _wrap(points_of(argument), indent=2, hang=4)
    for n, line in enumerate(argument.formulas):
        found = written.text(line.relation) + _limit(line)
        yield from _wrap(f"{'and' if n else 'where'} {found}", indent=4, hang=8)
    yield from _wrap(f"Checked by {checked(verdict, argument)}", indent=2, hang=4)
    yield from _wrap(f"Error: {verdict.error}", indent=2, hang=4) if verdict.error else ()


def _limit(line: Line) -> str:
    return " as epsilon -> 0" if line.limit else ""


def derived(derivation: Derivation) -> Notation:
    """The names of the symbols of a derivation, with matrices as the paper writes them."""
    formulas = (formula for step in derivation.steps for formula in step.formulas)
    return notation({x for formula in formulas for x in formula.free_symbols}, capitals=True)


def _wrap(line: str, *, indent: int, hang: int) -> list[str]:
    return textwrap.wrap(
        line,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * hang,
        break_on_hyphens=False,
    )
