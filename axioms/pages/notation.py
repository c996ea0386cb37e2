"""Symbols and formulas as a reader of the paper expects them: in plain text, and in LaTeX.

Indices count from 1, and vectors have one.  ``e_i`` stands for an exponential, as the page says.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import sympy as sp
from sympy.printing.str import StrPrinter

ENTRY = re.compile(r"(?P<base>[A-Za-z]+?(?:\d_?(?=\d\d$))?)(?P<index>\d{1,2})")
PREFIXED = re.compile(r"(?P<what>[Rcv]|log|exp_minus|exp|sqrt)_(?P<of>\w+)")
APPLIED = re.compile(r"(?P<what>[a-z]+)(?: 2 of)?\[(?P<of>.*)\]")
PARTS = {"exp": "exp({})", "exp_minus": "exp(-{})", "log": "log({})", "sqrt": "sqrt({})"}
PRINTED = {
    "exp": r"\exp({})", "exp_minus": r"\exp(-{})", "log": r"\log({})", "sqrt": r"\sqrt{{{}}}",
}  # fmt: skip
GREEK = {
    "epsilon": r"\varepsilon", "alpha": r"\alpha", "beta": r"\beta", "gamma": r"\gamma",
    "Phi": r"\Phi",
}  # fmt: skip
MATRICES = "AVQKZW"
"""Letters that the paper has as capitals with both indices: A_ij, V_ip, W_ij."""


@dataclass(frozen=True, kw_only=True)
class Name:
    """How a symbol is written."""

    text: str
    latex: str


@dataclass(frozen=True)
class Notation:
    """The names of all symbols of a page or a derivation, by their names in SymPy."""

    names: Mapping[str, Name] = field(default_factory=dict)

    def of(self, symbol: sp.Symbol) -> Name:
        return self.names.get(str(symbol)) or _word(str(symbol))

    def text(self, formula: sp.Basic) -> str:
        """A formula in plain text; a relation with the sign it has."""
        if isinstance(formula, sp.Eq | sp.Ne):
            sign = "!=" if isinstance(formula, sp.Ne) else "="
            return f"{self.text(formula.lhs)} {sign} {self.text(formula.rhs)}"
        return str(_Text(self).doprint(formula)).replace("**", "^")

    def latex(self, formula: sp.Basic) -> str:
        """A formula as LaTeX."""
        names = {symbol: self.of(symbol).latex for symbol in formula.free_symbols}
        found = str(sp.latex(formula, symbol_names=names, mul_symbol=r"\,"))
        return found.replace(r"\operatorname", r"\mathrm")  # which needs no package

    def words(self, text: str) -> str:
        """Renames the symbols in a plain text by this notation."""
        return re.sub(r"\b[A-Za-z]\w*\b", lambda word: self._word(word.group()), text)

    def _word(self, word: str) -> str:
        return self.names[word].text if word in self.names else word


class _Text(StrPrinter):  # type: ignore[misc]  # SymPy has no types
    def __init__(self, notation: Notation) -> None:
        super().__init__()
        self._notation = notation

    def _print_Symbol(self, symbol: sp.Symbol) -> str:
        return self._notation.of(symbol).text


def notation(symbols: Iterable[sp.Symbol], *, capitals: bool = False) -> Notation:
    """Names for symbols that occur together; ``capitals`` writes matrices as the paper does."""
    words = sorted({str(x) for x in symbols})
    inner = [match["of"] for word in words if (match := PREFIXED.fullmatch(word))]
    entries = [match for word in {*words, *inner} if (match := ENTRY.fullmatch(word))]
    indices: dict[str, list[str]] = {}
    for match in entries:
        indices.setdefault(match["base"], []).append(match["index"])
    names = {
        match.group(): _entry(match["base"], match["index"], indices, capitals=capitals)
        for match in entries
    }
    for word in words:
        if prefixed := PREFIXED.fullmatch(word):
            names[word] = _prefix(
                prefixed["what"], names.get(prefixed["of"], _word(prefixed["of"]))
            )
        elif applied := APPLIED.fullmatch(word):
            names[word] = _application(applied["what"], Notation(names).words(applied["of"]))
    kept = {word: name for word, name in names.items() if word in words}
    clear = len({name.text for name in kept.values()} | {*words} - kept.keys()) == len(words)
    return Notation(names if clear else {})


def _entry(base: str, index: str, indices: Mapping[str, list[str]], *, capitals: bool) -> Name:
    of_base = indices[base]
    if len({len(one) for one in of_base}) > 1:  # x1 beside x00
        return Name(text=f"{base}{index}", latex=_subscript(base, index))
    rows = {one[0] for one in of_base}
    whole = capitals and base.upper() in MATRICES and len(index) == 2
    whole = whole and (base != "w" or len(rows) > 1)  # weights of a norm are a vector
    from_zero = len(index) == 2 or "0" in of_base
    shown = [n for n in range(len(index)) if whole or {one[n] for one in of_base} != {"0"}]
    counted = "".join(str(int(index[n]) + from_zero) for n in shown)
    letter = base.upper() if whole else "R" if base == "r" and "R" not in indices else base
    gap = "_" if letter[-1].isdigit() else ""
    return Name(text=f"{letter}{gap}{counted}".removesuffix("_"), latex=_subscript(letter, counted))


def _subscript(base: str, index: str) -> str:
    if several := re.fullmatch(r"([A-Za-z]+)(\d)_?", base):  # v0_11 and v011 are entries of v0
        base, index = several[1], f"{several[2]},{index}" if index else several[2]
    return _word(base).latex + (f"_{{{index}}}" if index else "")


def _prefix(what: str, of: Name) -> Name:
    if what in PARTS:
        return Name(text=PARTS[what].format(of.text), latex=PRINTED[what].format(of.latex))
    return Name(text=f"{what}_{of.text}", latex=f"{what}_{{{of.latex}}}")


def _application(what: str, of: str) -> Name:
    what = "sqrt" if what == "root" else what
    inner = of.replace("**", "^")
    return Name(text=f"{what}({inner})", latex=rf"\mathrm{{{what}}}({inner.replace('*', ' ')})")


def _word(word: str) -> Name:
    if word in GREEK or len(word) == 1:
        return Name(text=word, latex=GREEK.get(word, word))
    if entry := ENTRY.fullmatch(word):
        return Name(text=word, latex=_subscript(entry["base"], entry["index"]))
    base, _, index = word.partition("_")
    if len(base) == 1 and index.isalpha():
        return Name(text=word, latex=rf"{base}_{{\mathrm{{{index}}}}}")
    safe = word.replace("_", r"\_")
    return Name(text=word, latex=rf"\mathrm{{{safe}}}")
