"""Traces the sides of a decision to their origins: relevance and effects by name, and formulas.

A theorem's test runs once more, and rules, propagation and Leave-One-Out return a function for
each entry of their result.  A decision between such functions is a line of a proof, and their
formulas are the rest of it.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite
from lrp_axioms.axioms.decide.decisions import Decision
from lrp_axioms.axioms.evidence import evidence
from lrp_axioms.axioms.evidence.prove import test_of
from lrp_axioms.axioms.evidence.references import repeated
from lrp_axioms.axioms.graph import TRANSPOSE, Node, topological
from lrp_axioms.axioms.pages.notation import ENTRY
from lrp_axioms.axioms.rules.propagate import LeafValues
from lrp_axioms.axioms.rules.rule import EQUATIONS

OPERANDS = ("x", "w", "weight", "bias", "a", "b", "v", "z", "factors", "operands")
LONG = 120  # characters of the formula of a network

EFFECTS = {
    "effects.leave_one_out": "LOO",
    "effects.leave_key_out": "LOO",
    "effects.shapley": "Shapley",
    "effects.integrated_gradients": "IG",
    "effects.mask_relevance": "M",
}
"""Function -> the letter or word for an entry of its result."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """One entry in the result of a function of the project."""

    what: str  # R for relevance, or a word of EFFECTS
    of: str  # the operand, or an entry of it, as its symbol is called
    place: tuple[int, ...]  # of the entry, from 1; empty where ``of`` is one symbol
    network: int  # its number, in the order of the runs
    symbols: tuple[sp.Symbol, ...]
    formula: sp.Expr

    def at(self, arguments: Sequence[sp.Expr]) -> sp.Expr:
        """The formula where its symbols are these arguments."""
        return self.formula.subs(self.changed(arguments), simultaneous=True)

    def changed(self, arguments: Sequence[sp.Expr]) -> dict[sp.Symbol, sp.Expr]:
        """Symbols whose arguments differ from them, with these arguments."""
        return {x: y for x, y in zip(self.symbols, arguments, strict=True) if x != y}


@dataclass(frozen=True)
class Origins:
    """Entries of all results in one run of a test, by the names that stand for them."""

    networks: list[str] = field(default_factory=list)  # in words
    entries: dict[str, Origin] = field(default_factory=dict)

    def instead(self, name: str, given: Mapping[str, Any], found: Any) -> Any:
        """Replaces the result of a function of the project in the run."""
        function = name.rpartition(".")[2]
        if name == "propagate.propagate":
            k = self._network(_sweep(**given))
            return {n: self._matrix("R", written(n), k, matrix) for n, matrix in found.items()}
        if name in EFFECTS:
            words = "" if "f" not in given else f" of {_product(given['f'])}"
            k = self._network(EFFECTS[name] + (words or _operands_text(_operands(given))))
            if isinstance(found, Matrix):
                return self._matrix(EFFECTS[name], "", k, found)
            return {x: self._entry(EFFECTS[name], str(x), (), k, y) for x, y in found.items()}
        if function in EQUATIONS:
            operands = _operands(given)
            k = self._network(EQUATIONS[function] + _operands_text(operands))
            if isinstance(found, Matrix):
                return self._matrix("R", operands[0][0], k, found, like=operands[0][1])
            several = operands if len(found) <= len(operands) else [*_unknown(len(found))]
            return tuple(
                self._matrix("R", word, k, matrix, like=operand)
                for matrix, (word, operand) in zip(found, several, strict=False)
            )
        return found

    def _network(self, words: str) -> int:
        if words in self.networks and not words.startswith(tuple(EQUATIONS.values())):
            return self.networks.index(words)
        self.networks.append(words)
        return len(self.networks) - 1

    def _matrix(
        self, what: str, of: str, network: int, found: Matrix, like: Matrix | None = None
    ) -> Matrix:
        own = like if like is not None and like.shape == found.shape and _differ(like) else None

        def entry(i: int, j: int) -> sp.Expr:
            if own is not None:
                return self._entry(what, str(own[i, j]), (), network, found[i, j])
            place = tuple(n + 1 for n, size in zip((i, j), found.shape, strict=True) if size > 1)
            return self._entry(what, of, place, network, found[i, j])

        return Matrix(*found.shape, lambda i, j: entry(int(i), int(j)))

    def _entry(
        self, what: str, of: str, place: tuple[int, ...], network: int, formula: sp.Expr
    ) -> sp.Expr:
        formula = sp.sympify(formula)
        symbols = tuple(sorted(formula.free_symbols, key=str))
        if not symbols:
            return formula
        name = f"entry[{len(self.entries)}]"
        self.entries[name] = Origin(
            what=what, of=of, place=place, network=network, symbols=symbols, formula=formula
        )
        return sp.Function(name, real=True)(*symbols)


def _operands(given: Mapping[str, Any]) -> list[tuple[str, Matrix]]:
    """The matrices that a rule was given as operands, weights and biases, by name."""
    found: list[tuple[str, Matrix]] = []
    for name, value in given.items():
        if name not in OPERANDS:
            continue
        if isinstance(value, Matrix):
            found.append((name, value))
        elif isinstance(value, list | tuple):
            found += [(str(n), one) for n, one in enumerate(value, start=1)]
    return found


def _differ(matrix: Matrix) -> bool:
    return all(x.is_Symbol for x in matrix) and len(set(matrix)) == len(matrix)


def _operands_text(operands: Sequence[tuple[str, Matrix]]) -> str:
    """The operands in words, if they are short."""
    words = [_given(name, matrix) or _letter(matrix) for name, matrix in operands]
    found = f" for {', '.join(words)}"
    return found if words and len(found) <= LONG // 2 else ""


def _letter(matrix: Matrix) -> str:
    """The letter that all entries share, or the only entry; '' where they share no letter."""
    if len(matrix) == 1:
        return _product(matrix[0])
    bases = {ENTRY.fullmatch(str(x)) for x in matrix} if _differ(matrix) else {None}
    letters = {match["base"] if match else "" for match in bases}
    return letters.pop() if len(letters) == 1 else ""


def _base(symbol: sp.Expr) -> str:
    entry = ENTRY.fullmatch(str(symbol))
    return entry["base"].rstrip("_") if entry else str(symbol)


def _given(name: str, matrix: Matrix) -> str:
    """An operand with its entries, such as x = (c, c); empty where a letter says it."""
    if _letter(matrix):
        return ""
    rows = "; ".join(", ".join(map(str, row)) for row in matrix.tolist())
    return _product(f"{name} = ({rows})")


def _product(formula: object) -> str:
    """A formula of SymPy as the statements write it."""
    return str(formula).replace("**", "^").replace("*", " ")


def _unknown(count: int) -> Iterator[tuple[str, None]]:
    """Names of operands that a rule was not given: x, or x1, x2, ..."""
    return ((f"x{n}" if count > 1 else "x", None) for n in range(1, count + 1))


def _sweep(root: Node, point: LeafValues, composite: Composite, **options: Any) -> str:
    """A network in words: its formula, its leaves, and the rule of each kind of operation."""
    used = dict.fromkeys(node.op for node in topological(root) if node.op in composite.rules)
    rules = dict.fromkeys(composite.rules[kind].replace("-", "_") for kind in used)
    words = [EQUATIONS.get(rule, rule.replace("_", " ")) for rule in rules]
    matrices = {
        x: Matrix([[value]]) if not isinstance(value, sp.MatrixBase) else value
        for x, value in point.items()
    }
    given = [
        found
        for x, matrix in matrices.items()
        if x not in (_letter(matrix).rstrip("_"), _base(matrix[0]))
        if len(found := _given(x, matrix) or f"{x} = {_letter(matrix)}") <= LONG // 4
    ]
    by = f", by {' and '.join(words)}" if words else ""
    return f"y = {written(root)}{by}" + (f", where {', '.join(given)}" if given else "")


def written(node: Node) -> str:
    """The formula of a node, as the paper writes it; of a long one only its last operation."""
    if node.name or not node.args:
        return node.name or node.op
    parts = [written(arg) for arg in node.args]
    if node.op == kinds.ADD:
        found = " + ".join(parts)
    elif node.op in (kinds.PRODUCT, kinds.BILINEAR, kinds.READOUT, kinds.SCORES):
        last = "'" if node.op == kinds.SCORES else ""
        found = " ".join(map(_factor, parts)) + last
    elif node.op == kinds.LINEAR:
        x, w, *bias = parts
        found = " + ".join([f"{_factor(x)} {w}", *bias])
    elif node.op == TRANSPOSE:
        found = f"{_factor(parts[0])}'"
    else:
        found = f"{node.attributes.get('function', node.op)}({', '.join(parts)})"
    return found if len(found) <= LONG else f"{node.op}(...)"


def _factor(part: str) -> str:
    """Puts a formula in brackets, unless it is one word or one function."""
    outside = re.sub(r"\([^()]*\)", "", part)
    while outside != (less := re.sub(r"\([^()]*\)", "", outside)):
        outside = less
    return f"({part})" if " " in outside else part


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a theorem's test: its decisions, by formulas and by names."""

    decisions: list[Decision]
    named: list[Decision]  # the first of them
    origins: Origins


@dataclass
class Tracer:
    """A plugin of pytest that runs each theorem's test once more, by names."""

    only: int | None = None  # the number of a theorem
    runs: dict[str, list[Run]] = field(default_factory=dict)  # by test

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        result = yield
        marker = item.get_closest_marker("theorem")
        if marker and self.only in (None, marker.args[0]):
            decisions, origins = item.stash[evidence.DECISIONS], Origins()
            named = repeated(item, decisions, origins.instead)
            run = Run(decisions=decisions, named=named, origins=origins)
            self.runs.setdefault(test_of(item), []).append(run)
        return result
