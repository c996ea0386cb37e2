"""Writes formulas and graphs of SymPy as data, with the signs and exponentials of the checker."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import sympy as sp
from sympy.core.function import AppliedUndef

from lrp_axioms.axioms import check, kinds
from lrp_axioms.axioms.decide.decisions import Decision, assumption
from lrp_axioms.axioms.decide.denotation import as_rational, canonical, named
from lrp_axioms.axioms.evidence.references import References, Step

Data: TypeAlias = Any  # of JSON


class Uncertified(ValueError):
    """Why a decision cannot be written as data that the checker confirms."""


class Symbols(dict[str, Any]):
    """Every symbol as itself."""

    def __missing__(self, name: str) -> Any:
        return check.symbol(name)


@dataclass
class Writer:
    """Writes formulas as lists; compound expressions are written once, in ``shared``."""

    references: References
    verifies: bool = True  # checks signs and exponentials against their operands
    known: dict[sp.Symbol, Any] = field(default_factory=dict)  # signs and exponentials
    names: dict[sp.Symbol, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)  # assumptions, by name
    places: dict[str, int] = field(default_factory=dict)  # in ``shared``, by the entry there
    shared: list[Data] = field(default_factory=list)
    formulas: dict[sp.Expr, Data] = field(default_factory=dict)
    variants: dict[tuple[int, tuple[sp.Expr, ...]], int] = field(default_factory=dict)
    graphs: list[Data] = field(default_factory=list)

    @cached_property
    def free(self) -> Any:
        """A run of the checker with every symbol standing for itself."""
        return check.Run(vars(self), Symbols())

    def formula(self, e: sp.Expr) -> Data:
        if e.is_Rational:
            return str(e)
        if e.is_Symbol and e not in self.known:
            return self.name(e)
        if e not in self.formulas:
            self.formulas[e] = self._powers(e) if e.is_Symbol else self._place(self._operation(e))
        return self.formulas[e]

    def _place(self, operation: Data) -> int:
        place = self.places.setdefault(json.dumps(operation), len(self.shared))
        self.shared += [operation] * (place == len(self.shared))
        return place

    def _powers(self, symbol: sp.Symbol) -> Data:
        """A sign or an exponential as the checker has it: a product of powers of its symbols."""
        value = self.known[symbol]
        factors: list[Data] = [] if value.number == 1 else [str(value.number)]
        for (((name,), _),), n in value.powers.items():
            factor = self._exponential(name) if name.startswith("exp[") else name
            if factor == name:
                self.facts.setdefault(name, "")
            factors.append(factor if n == 1 else self._place(["^", factor, n]))
        if len(factors) > 1:
            return self._place(["*", *factors])
        return factors[0] if factors else "1"

    def _exponential(self, name: str) -> int:
        exponent: list[Data] = _exponent(name)
        if exponent == [""]:
            raise Uncertified("it has e, which is no formula of symbols")
        for symbol in [x for x, own in self.names.items() if own in exponent]:
            self.name(symbol)
        return self._place(["exp", self._place(["*", *exponent]) if exponent[1:] else exponent[0]])

    def value(self, e: sp.Expr) -> Any:
        """The value that the checker computes for a formula."""
        return self.free.value(self.formula(e))

    def name(self, symbol: sp.Symbol) -> str:
        """The name of a symbol, which no other one has, whatever is assumed of it."""
        if symbol not in self.names:
            name = re.sub(r"\W+", "_", str(symbol), flags=re.ASCII).strip("_")
            while name in self.names.values():
                name += "'"
            self.names[symbol] = name
        fact = assumption(symbol)
        self.facts[self.names[symbol]] = fact if fact in check.FACTS else ""
        return self.names[symbol]

    def _operation(self, e: sp.Expr) -> Data:
        if isinstance(e, AppliedUndef):
            graph, (what, *place) = self.references.places[e.func.__name__]
            return [what, self.graph(graph, e.args), *place]
        if e.is_Add or e.is_Mul:
            return ["+" if e.is_Add else "*", *map(self.formula, e.args)]
        if e.is_Pow and e.exp.is_Integer:
            return ["^", self.formula(e.base), int(e.exp)]
        if isinstance(e, sp.Abs):
            return ["abs", self.formula(e.args[0])]
        raise Uncertified(f"it has {e}, and the checker has no {e.func.__name__}")

    def graph(self, k: int, at: tuple[sp.Expr, ...]) -> int:
        """The place of graph ``k`` where its symbols are ``at``."""
        if (k, at) not in self.variants:
            graph = self.references.graphs[k]
            changed = {x: y for x, y in zip(graph.symbols, at, strict=True) if x != y}
            steps = [_substitute(step, changed) for step in graph.steps]
            written = [self._step(step) for step in steps]
            if written not in self.graphs:
                self.graphs.append(written)
            place = self.graphs.index(written)
            if self.verifies and any(
                check.minus(self.value(as_rational(e)), own).number
                for e, own in self._known_values(steps, place)
            ):
                raise Uncertified("a sign or an exponential is not the one of its operand")
            self.variants[k, at] = place
        return self.variants[k, at]

    def _step(self, step: Step) -> Data:
        op, rule, operands, more = step
        found: dict[str, Data] = {}
        for name in sorted(more.keys() - {"sign", "exp"}):
            given = more[name]
            if isinstance(given, sp.MatrixBase):
                given = given.applyfunc(as_rational) if op == "function" else given
                found[name] = [[self.formula(x) for x in row] for row in given.tolist()]
            else:
                found[name] = self.formula(given)
        return [op, rule, operands, found]

    def _known_values(self, steps: Sequence[Step], k: int) -> Iterator[tuple[sp.Expr, Any]]:
        """Each sign and exponential of a graph: as the test has it, and as the checker does."""
        if not any({"sign", "exp"} & more.keys() for *_, more in steps):
            return
        values = self.free.swept(k)[0]
        for (_, rule, args, more), z in zip(steps, values, strict=True):
            if "sign" in more and more["eps"] != 0:
                xs = [values[a] for a in args[:2]]
                y = check.through(*xs) if rule == kinds.EPSILON_WITHOUT_BIAS else z
                yield from zip(more["sign"], (x.sign() for row in y for x in row), strict=True)
            if "exp" not in more:
                continue
            exponentials = check.each(check.exponential, values[args[0]])
            for row, own in zip(more["exp"].tolist(), exponentials, strict=True):
                known = [n for n, e in enumerate(row) if not self._unknown(as_rational(e))]
                # a softmax is the same for every multiple of a row
                times = self.value(as_rational(row[known[0]])) * own[known[0]] ** -1 if known else 1
                yield from ((e, times * x if known else x) for e, x in zip(row, own, strict=True))

    def _unknown(self, e: sp.Expr) -> list[sp.Symbol]:
        return [x for x in e.free_symbols if x not in self.known]

    def learn(self) -> None:
        """Finds the symbols that stand for signs or exponentials in a test, graph by graph."""
        for graph in self.references.graphs:
            with suppress(ArithmeticError, LookupError, ValueError):
                self.graphs.append([self._step(step) for step in graph.steps])
                for e, own in self._known_values(graph.steps, len(self.graphs) - 1):
                    self._learn(e, own)

    def _learn(self, e: sp.Expr, own: Any) -> None:
        if isinstance(e, sp.exp):
            for term in sp.Add.make_args(sp.expand(canonical(e.args[0]))):
                multiple, rest = term.as_coeff_Mul()
                part = rest if multiple.is_Integer else term
                self.known[named("exp", part)] = check.exponential(self.value(part))
        elif len(unknown := self._unknown(e)) == 1 and (e / unknown[0]).is_constant(*unknown):
            self.known[unknown[0]] = own * self.value(e / unknown[0]) ** -1

    def point(self, decision: Decision) -> dict[str, str]:
        """The point of a decision, by name; exponents are 0 where their exponential is 1."""
        found: dict[str, str] = {}
        for x, value in decision.point.items():
            if x not in self.known:
                found |= {self.names[x]: str(value)} if x in self.names else {}
                continue
            exponents = [s for (((name,), _),) in self.known[x].powers for s in _exponent(name)]
            if exponents and value != 1:
                raise Uncertified(f"a point has an exponential of {exponents} that is {value}")
            found = dict.fromkeys(exponents, "0") | found
        return {name: value for name, value in found.items() if name in self.facts}


def _exponent(name: str) -> list[str]:
    """The factors in the exponent of an exponential; none of another symbol."""
    return name[4:-1].split("*") if name.startswith("exp[") else []


def _substitute(step: Step, changed: Mapping[sp.Symbol, sp.Expr]) -> Step:
    op, rule, operands, more = step
    changed_more = {name: x.subs(changed, simultaneous=True) for name, x in more.items()}
    return op, rule, operands, changed_more
