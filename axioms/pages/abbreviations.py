"""Names for parts of formulas that are too wide for a page, so that nothing is left out of it.

A relevance that several outputs send is the sum of their messages, R_{x <- j} from output j.  Any
other sum that makes a term too wide is named D_1, D_2, ...
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import sympy as sp

from lrp_axioms.axioms.pages.display import WIDTH, width
from lrp_axioms.axioms.pages.notation import Name, Notation

ROOM = WIDTH - 8  # for a term, behind the left side of a formula
GAIN = 8  # letters that a name has to save at least
RELEVANCE = re.compile(r"(?P<what>R[^_]*)_\{(?P<index>.*)\}")


@dataclass
class Abbreviations:
    """Names given to long terms on one page."""

    notation: Notation
    parts: dict[sp.Expr, sp.Symbol] = field(default_factory=dict)
    names: dict[str, Name] = field(default_factory=dict)
    widths: dict[sp.Expr, float] = field(default_factory=dict)

    def named(self) -> Notation:
        """The notation with all names that were given."""
        return Notation({**self.notation.names, **self.names})

    def short(self, relation: sp.Basic) -> sp.Basic:
        """Shortens a relation: names replace the parts that make its terms too wide."""
        return relation.func(*map(self._side, relation.args), evaluate=False)

    def definitions(self, first: int = 0) -> Iterator[sp.Eq]:
        """Defines each name from number ``first`` on, in order; wide parts get names themselves."""
        while first < len(self.parts):
            whole, symbol = [*self.parts.items()][first]
            yield sp.Eq(symbol, self._side(whole), evaluate=False)
            first += 1

    def by_messages(self, relation: sp.Basic) -> list[sp.Basic]:
        """A relevance and the message from each output, if it is too wide for one row."""
        left, right = relation.args
        wide = self._is_relevance(left) and self._width(right) > ROOM
        found = self._terms_by_output(right) if wide else {}
        if len(found) < 2:
            return [relation]
        messages = {sp.Symbol(f"entry {left} from {x}"): term for x, term in found.items()}
        for symbol, output in zip(messages, found, strict=True):
            self.names[str(symbol)] = _message(self.notation.of(left), self.notation.of(output))
        total = sp.Eq(left, sp.Add(*messages, evaluate=False), evaluate=False)
        return [total, *(sp.Eq(x, y, evaluate=False) for x, y in messages.items())]

    def _terms_by_output(self, side: sp.Expr) -> Mapping[sp.Symbol, sp.Expr]:
        """The terms by the one relevance that each is proportional to; none if some are not."""
        found: dict[sp.Symbol, sp.Expr] = {}
        for term in sp.Add.make_args(side):
            outputs = [x for x in term.free_symbols if self._is_relevance(x)]
            if len(outputs) != 1 or (term / outputs[0]).has(outputs[0]):
                return {}
            found[outputs[0]] = found.get(outputs[0], sp.S.Zero) + term
        return {x: found[x] for x in sorted(found, key=lambda x: self.notation.of(x).text)}

    def _is_relevance(self, part: sp.Expr) -> bool:
        """Whether it is R with an index."""
        return bool(part.is_Symbol and RELEVANCE.fullmatch(self.notation.of(part).latex))

    def _width(self, part: sp.Expr) -> float:
        if part not in self.widths:
            self.widths[part] = width(self.named().latex(part))
        return self.widths[part]

    def _side(self, side: sp.Expr) -> sp.Expr:
        terms = [self._term(term) for term in side.as_ordered_terms()]
        return sp.Add(*terms, evaluate=False) if len(terms) > 1 else terms[0]

    def _term(self, term: sp.Expr) -> sp.Expr:
        if self._width(term) > ROOM:
            term = term.xreplace(self.parts)
        while self._width(term) > ROOM:
            inner = {x for x in sp.preorder_traversal(term) if x.is_Add and x != term}
            sums = [x for x in inner if self._width(x) > GAIN]
            if not sums:
                break
            rows = [
                x for x in sums if not any(self._width(y) > ROOM for y in x.args)
            ]  # need no other name
            whole = max(rows or sums, key=lambda x: (self._width(x), str(x)))
            term = term.xreplace({whole: self._name(whole)})
        return term

    def _name(self, whole: sp.Expr) -> sp.Symbol:
        if whole in self.parts:
            return self.parts[whole]
        taken = {name.text[:1] for name in self.notation.names.values()}
        letter = next(letter for letter in "DTUMNP" if letter not in taken)
        number = len(self.parts) + 1
        symbol = sp.Symbol(f"part {number}", real=True)
        self.names[str(symbol)] = Name(text=f"{letter}{number}", latex=f"{letter}_{{{number}}}")
        self.parts[whole] = symbol
        return symbol


def _message(to: Name, output: Name) -> Name:
    """The name of a message, such as R_{x <- 1}, from R_x and R_1."""
    text = re.sub(r"^R(\(\d+\))?_?", "", output.text)
    index = RELEVANCE.sub(r"\g<index>", output.latex)
    return Name(text=f"{to.text}<-{text}", latex=rf"{to.latex[:-1]}\leftarrow {index}}}")
