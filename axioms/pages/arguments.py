"""Argues for a statement or against it: its decisions, as lines that a reader can follow."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import sympy as sp
from sympy.core.function import AppliedUndef

from lrp_axioms.axioms.decide.decisions import DIFFER_AT, IDENTICAL, assumption
from lrp_axioms.axioms.decide.identity import value_at
from lrp_axioms.axioms.pages.abbreviations import Abbreviations
from lrp_axioms.axioms.pages.notation import Name, Notation, notation
from lrp_axioms.axioms.pages.origins import EFFECTS, Origin, Origins, Run

SHOWN, LONG, MANY = 4, 200, 24  # lines of a statement, characters of one, formulas of names


@dataclass(frozen=True, kw_only=True)
class Line:
    """One decision: an equality, or two sides that differ, with their values at a point."""

    relation: sp.Basic  # Eq or Ne
    decided: tuple[sp.Expr, ...] = ()  # both sides as they were decided, without names
    limit: bool = False  # as epsilon -> 0
    values: tuple[sp.Expr, ...] = ()
    point: Mapping[sp.Symbol, sp.Expr] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Argument:
    """The part of a statement's page below the statement itself."""

    lines: Sequence[Line] = ()
    formulas: Sequence[Line] = ()  # of entries that the lines name
    networks: Sequence[str] = ()  # in words, with their numbers
    assumed: Mapping[str, Sequence[sp.Symbol]] = field(default_factory=dict)  # by assumption
    cases: int = 0  # of signs, each of them decided
    notation: Notation = field(default_factory=Notation)
    more: int = 0  # formulas of further entries, left out of the page

    def decides(self, count: int) -> str:
        """Says how much is decided; ``count`` identities have two different formulas."""
        said = f"This decides {count} identit{'y' if count == 1 else 'ies'} over symbols"
        if count < len(self.lines):
            said += "; both sides of others come out as one formula"
        said = said if count else "Both sides of every identity come out as one formula"
        said += f", in {self.cases} cases of signs" if self.cases > 1 else ""
        if not self.lines:
            return f"{said}, each too long for a page or the same on both sides."
        return said + (", such as" if count > len(self.lines) else ":")


@dataclass
class _Names:
    """Symbols in the place of functions that stand for entries."""

    origins: Origins
    found: dict[object, sp.Symbol] = field(default_factory=dict)
    of: dict[sp.Symbol, tuple[Origin, sp.Expr, bool]] = field(default_factory=dict)

    def replaced(self, side: sp.Expr) -> sp.Expr:
        """The side with a symbol for each entry."""
        return side.replace(self._is_entry, self._symbol)

    def _is_entry(self, part: sp.Basic) -> bool:
        return isinstance(part, AppliedUndef) and part.func.__name__ in self.origins.entries

    def _symbol(self, part: sp.Expr) -> sp.Symbol:
        origin = self.origins.entries[part.func.__name__]
        formula, changed = origin.at(part.args), origin.changed(part.args)
        limit = {str(x): y for x, y in changed.items()} == {"epsilon": 0}
        key = origin.what, origin.of, origin.place, origin.network, formula
        if key not in self.found:
            symbol = sp.Symbol(f"entry{len(self.found)}", real=True)
            self.found[key] = symbol
            self.of[symbol] = origin, formula, limit
        return self.found[key]

    def named(self, *sides: sp.Expr) -> list[sp.Symbol]:
        """The symbols of entries in some sides."""
        return sorted({x for y in sides for x in y.free_symbols if x in self.of}, key=_count)

    def limit(self, *sides: sp.Expr) -> bool:
        """Whether all entries in these sides that depend on epsilon are limits."""
        found = [self.of[x] for x in self.named(*sides)]
        depends = [limit for origin, _, limit in found if "epsilon" in map(str, origin.symbols)]
        return bool(depends) and all(depends)


def _count(symbol: sp.Symbol) -> int:
    return int(str(symbol).removeprefix("entry"))


def argument(runs: Sequence[Run], *, refuted: bool) -> Argument:
    """Selects the readable lines of one run, with the formulas and networks that they name."""
    decisions = [decision for run in runs for decision in run.decisions]
    symbols = sorted({x for decision in decisions for x in decision.symbols}, key=str)
    cases = len({decision.signs for decision in decisions if decision.signs})
    kind = DIFFER_AT if refuted else IDENTICAL
    ordered = (*runs[1:2], *runs[:1], *runs[2:])  # the first of several is often too small
    for run, longest in itertools.product(ordered, (LONG, 3 * LONG)):
        names = _Names(run.origins)
        lines = list(itertools.islice(_lines(run, names, kind, longest), SHOWN))
        if len(lines) > (longest == LONG):  # one short line may be the least of several
            break
    else:
        return Argument(assumed=_assumptions(symbols), cases=cases, notation=notation(symbols))
    every = list(_formulas(lines, names))
    formulas = [line for line in every if not line.relation.has(sp.nan, sp.zoo)][:MANY]
    shown = {x for line in (*lines, *formulas) for x in line.relation.free_symbols}
    used = [x for x in symbols if x in shown]
    plain = notation(symbols) if notation(symbols).names else notation(used)
    numbers = _numbers(names, names.named(*(line.relation for line in (*lines, *formulas))), plain)
    mixed = {x for line in lines if not line.limit for x in line.relation.free_symbols}
    labels = {
        str(x): _label(origin, numbers, plain, limit=limit and x in mixed)
        for x, (origin, _, limit) in names.of.items()
    }
    names_of_parts = Abbreviations(Notation({**plain.names, **labels}))
    lines = [replace(line, relation=names_of_parts.short(line.relation)) for line in lines]
    more = len(every) - len(formulas)
    formulas = _shorten(formulas, names_of_parts)
    return Argument(
        lines=lines,
        formulas=formulas,
        networks=_networks(run.origins, numbers),
        assumed=_assumptions(used),
        cases=cases,
        notation=names_of_parts.named(),
        more=more,
    )


def _shorten(formulas: Sequence[Line], of: Abbreviations) -> list[Line]:
    """Splits formulas with many messages, and ends with definitions of the names in all lines."""
    parted = [
        replace(line, relation=part)
        for line in formulas
        for part in ([line.relation] if line.limit else of.by_messages(line.relation))
    ]
    found = [replace(line, relation=of.short(line.relation)) for line in parted]
    return [*found, *(Line(relation=part) for part in of.definitions())]


def _lines(run: Run, names: _Names, kind: str, longest: int) -> Iterator[Line]:
    """Decisions of one kind, each once, from the first case of signs that has any."""
    seen: dict[sp.Basic, None] = {}
    signs = None
    named = [*run.named, *run.decisions[len(run.named) :]]
    for by_name, plain in zip(named, run.decisions, strict=True):
        if plain.kind != kind or not plain.verdict or not plain.symbols:
            continue
        left, right = names.replaced(by_name.left), names.replaced(by_name.right)
        relation = (sp.Ne if kind == DIFFER_AT else sp.Eq)(left, right, evaluate=False)
        if left == right or relation in seen or len(str(relation)) > longest:
            continue
        if signs not in (None, plain.signs):
            continue
        signs, seen[relation] = plain.signs, None
        limit, sides = names.limit(left, right), (plain.left, plain.right)
        if kind == IDENTICAL:
            yield Line(relation=relation, decided=sides, limit=limit)
            continue
        point = {x: plain.point[x] for x in plain.symbols}
        values = (value_at(plain.left, plain.point), value_at(plain.right, plain.point))
        yield Line(relation=relation, decided=sides, limit=limit, values=values, point=point)


def _formulas(lines: Sequence[Line], names: _Names) -> Iterator[Line]:
    """Defines every named entry, unless a line does so already."""
    said = {line.relation.args for line in lines if not line.values}
    waiting, seen = names.named(*(line.relation for line in lines)), set()
    while waiting:
        symbol = waiting.pop(0)
        _, formula, limit = names.of[symbol]
        formula = names.replaced(formula)
        if symbol in seen or (symbol, formula) in said or (formula, symbol) in said:
            continue
        seen.add(symbol)
        yield Line(relation=sp.Eq(symbol, formula, evaluate=False), limit=limit)
        waiting += names.named(formula)


def _numbers(names: _Names, used: Iterable[sp.Symbol], plain: Notation) -> dict[int, int]:
    """Numbers networks from 1, or gives 0 where no two have entries of one name."""
    places: dict[str, set[int]] = {}
    networks: dict[str, dict[int, None]] = {}
    several = set()
    for symbol in used:
        origin = names.of[symbol][0]
        networks.setdefault(origin.what, {})[origin.network] = None
        those = places.setdefault(_label(origin, {}, plain).text, set())
        those.add(origin.network)
        several |= {origin.what} if len(those) > 1 else set()
    return {
        k: n * (what in several)
        for what, group in networks.items()
        for n, k in enumerate(group, start=1)
    }


def _networks(origins: Origins, numbers: Mapping[int, int]) -> list[str]:
    """Describes the networks of the lines; effects only where there are several of them."""
    words: dict[str, None] = {}
    for k, number in numbers.items():
        text = origins.networks[k]
        effect = next((what for what in EFFECTS.values() if text.startswith(what)), "")
        if number:
            words[f"{effect}({number}) {text.removeprefix(effect).strip()}"] = None
        elif not effect:
            words[text] = None
    return [*words]


def _label(
    origin: Origin, numbers: Mapping[int, int], plain: Notation, *, limit: bool = False
) -> Name:
    """The name of an entry, such as R(1)_x1: relevance of x1 in network 1."""
    of = plain.of(sp.Symbol(origin.of)) if origin.of else Name(text="", latex="")
    place = "".join(map(str, origin.place))
    if place and of.text[-1:].isdigit():  # an entry of x1
        index, below = f"{of.text},{place}", f"{of.latex},{place}"
    else:
        index, below = of.text + place, f"{of.latex}_{{{place}}}" if of.text and place else ""
    number, long = numbers.get(origin.network, 0), len(origin.what) > 1
    what = rf"\mathrm{{{origin.what}}}" if long else origin.what
    lowered = f"_{{{below or of.latex or place}}}" if index else ""
    text = f"{origin.what}({number})" if number else origin.what
    above = f"^{{({number})}}" if number else ""
    return Name(
        text="lim " * limit + (f"{text}_{index}" if index else text),
        latex=r"\lim_{\varepsilon\to 0} " * limit + f"{what}{above}{lowered}",
    )


def _assumptions(symbols: Iterable[sp.Symbol]) -> dict[str, list[sp.Symbol]]:
    found: dict[str, list[sp.Symbol]] = {}
    for symbol in symbols:
        found.setdefault(assumption(symbol) or "complex", []).append(symbol)
    return found
