"""A page shows the decisions of a test: its formulas are read back from text and LaTeX."""

import random
import re
from functools import cache, reduce
from operator import add as plus
from operator import mul

import pytest
import sympy as sp

from axioms.composites import ATTNLRP
from axioms.decide.decisions import IDENTICAL, Decision
from axioms.decide.identity import generic, identical
from axioms.graph import leaf
from axioms.pages import arguments
from axioms.pages.arguments import Line, argument
from axioms.pages.display import displayed
from axioms.pages.latex import latex
from axioms.pages.notation import notation
from axioms.pages.origins import Origin, Origins, Run, _letter, _sweep
from axioms.pages.show import line_of, page, text
from axioms.rules.linear import add

shown_page = cache(page)
in_text = cache(lambda label: " ".join(text(shown_page(label)).split()))
in_latex = cache(lambda label: latex(shown_page(label)))
ARGUMENTS = [(label, n) for label, count in (("6", 7), ("10", 6)) for n in range(count)]
of_pages = pytest.mark.parametrize(("label", "n"), ARGUMENTS)
WORDS = {
    r"\displaystyle": "", r"\quad": "", r"\left": "", r"\right": "", r"\neq": "!=",
    r"\,": "*", r"\frac": "@",
}  # fmt: skip
BRACES = {r"@ ?{([^{}]*)}{([^{}]*)}": r"((\1)/(\2))", r"\^{([^{}]*)}": r"^(\1)"}


def read(shown, names):
    """Sides and signs of a relation in text or LaTeX, by the ``names`` of its symbols."""
    for word, meant in WORDS.items():
        shown = shown.replace(word, meant)
    order = sorted(names, key=len, reverse=True)
    tokens = [rf"(?<!\w){re.escape(name)}(?!\w)" for name in order]
    given = {name: f"at[{k}]" for k, name in enumerate(order)}
    shown = re.sub(
        "|".join([*tokens, r"\d+"]), lambda x: given.get(x[0], f"Integer({x[0]})"), shown
    )
    while (plain := reduce(lambda x, p: re.sub(p, BRACES[p], x), BRACES, shown)) != shown:
        shown = plain
    parts = re.split("(!?=)", shown.replace("{", "(").replace("}", ")").replace("^", "**"))
    known = {"at": [names[name] for name in order], "Integer": sp.Integer}
    return [sp.sympify(eval(part.strip(), known)) for part in parts[::2]], parts[1::2]


def check(line, written):
    """Text and LaTeX of a line have both its sides, the values between them, and its sign."""
    symbols = line.relation.free_symbols
    plain = {written.of(x).text: x for x in symbols}
    printed = {written.of(x).latex: x for x in symbols}
    assert len(plain) == len(printed) == len(symbols)
    left, right = line.relation.args
    for sides, signs in (
        read(line_of(line, written), plain),
        read(" ".join(displayed(written, line.relation, values=line.values)), printed),
    ):
        assert identical(sides[0], left)
        assert identical(sides[-1], right)
        sign = "!=" if isinstance(line.relation, sp.Ne) else "="
        k = signs.index(sign)
        assert set(signs[:k] + signs[k + 1 :]) <= {"="}
        assert (tuple(sides[k : k + 2]) == line.values) or not line.values


X, E = generic("x", 2, 3), generic("e", 1, 2, positive=True)


@pytest.mark.parametrize("seed", range(30))
def test_a_formula_is_read_back_as_it_was(seed):
    chance, symbols = random.Random(seed), [*X, *E]

    def formula(depth):
        if not depth:
            return chance.choice([*symbols, sp.Integer(chance.randint(-3, 3))])
        parts = [formula(depth - 1) for _ in range(chance.randint(2, 4))]
        found = reduce(chance.choice((plus, mul)), parts)
        power = chance.choice((1, 1, 2, -1)) if found else 1
        return found**power

    sides = formula(chance.randint(1, 3)), formula(3)
    relation = chance.choice((sp.Eq, sp.Ne))(*sides, evaluate=False)
    values = (sp.Integer(3), sp.Rational(-1, 2)) if isinstance(relation, sp.Ne) else ()
    check(Line(relation=relation, values=values), notation(symbols))


@of_pages
def test_a_page_shows_the_lines_of_its_argument(label, n):
    shown = shown_page(label)
    assert len(shown.verdicts) == [label for label, _ in ARGUMENTS].count(label)
    argument = shown.argument(shown.verdicts[n])
    assert argument.lines
    for line in (*argument.lines, *argument.formulas):
        check(line, argument.notation)
        plain = line_of(line, argument.notation)
        assert plain + " as epsilon -> 0" * line.limit in in_text(label)
        last = displayed(argument.notation, line.relation, values=line.values)[-1]
        assert last + r"\quad (\varepsilon\to 0)" * line.limit in in_latex(label)


@of_pages
def test_a_line_is_what_was_decided_once_its_names_are_formulas(label, n):
    shown = shown_page(label)
    argument = shown.argument(shown.verdicts[n])
    lines = [*argument.lines, *argument.formulas]
    given = {line.relation.lhs: line.relation.rhs for line in reversed(lines) if not line.values}
    for line in argument.lines:
        for side, decided in zip(line.relation.args, line.decided, strict=True):
            assert identical(side.subs(given).subs(given), decided)
        values = [side.subs(line.point) for side in line.decided]
        assert values == list(line.values) or not line.values
        assert bool(line.values) == (shown.verdicts[n].verdict == "refuted")


R, EPS = sp.Symbol("r", real=True), sp.Symbol("epsilon", positive=True)


class Decided:
    """Decided equalities about the relevance of sums, as formulas and by name."""

    def __init__(self):
        self.plain, self.named, self.origins = [], [], Origins()

    def added(self, xs):
        """The relevance of each term of a sum, as a formula and as its name."""
        given = {"operands": [sp.Matrix([[x]]) for x in xs], "relevance": sp.Matrix([[R]])}
        found = add(**given, eps=EPS)
        named = self.origins.instead("linear.add", given, found)
        return [(part[0], name[0]) for part, name in zip(found, named, strict=True)]

    def equal(self, left, right, *, signs=(), verdict=True):
        for found, a, b in zip((self.plain, self.named), left, right, strict=True):
            at = {"signs": signs, "verdict": verdict}
            found.append(Decision(kind=IDENTICAL, left=a, right=b, **at))

    @property
    def argument(self):
        run = Run(decisions=self.plain, named=self.named, origins=self.origins)
        return argument([run], refuted=False)


def test_an_argument_has_a_line_once_and_what_is_assumed_in_its_lines():
    x, y, q = sp.Symbol("x", positive=True), sp.Symbol("y", real=True), sp.symbols("q:50")
    made, sides = Decided(), [(x * (y + 1), x * y + x), (x**2 - 1, (x - 1) * (x + 1))]
    for left, right in [*sides, *sides, (sp.Add(*q), sp.Add(*q[1:]) + q[0] * x / x)]:
        made.equal([left] * 2, [right] * 2)
    made.equal([sp.Add(*q) * x] * 2, [sp.Add(*(x * each for each in q))] * 2)  # too long
    made.equal([x * y] * 2, [x] * 2, verdict=False)
    assert [line.decided for line in made.argument.lines] == sides
    assert made.argument.assumed == {"positive": [x], "real": [y]}


@pytest.mark.parametrize("cases", [0, 1, 2])
def test_an_argument_counts_the_cases_of_signs_and_has_the_lines_of_one(cases):
    x, y = sp.symbols("x y", real=True)
    made = Decided()
    for n in range(cases or 1):
        signs = (((1, -1)[n],),) if cases else ()
        made.equal([(x + n + 1) * y] * 2, [x * y + (n + 1) * y] * 2, signs=signs)
        made.equal([(x - n - 2) * y] * 2, [x * y - (n + 2) * y] * 2, signs=signs)
    assert made.argument.cases == cases
    assert [line.decided[0] for line in made.argument.lines] == [(x + 1) * y, (x - 2) * y]
    assert ("cases of signs" in made.argument.decides(2)) == (cases > 1)


def test_relevance_in_two_networks_has_two_names_though_its_formula_is_one():
    made, xs = Decided(), sp.symbols("x:3", positive=True)
    (first, *_), (again, *_) = made.added(xs), made.added(xs)
    made.equal(first, again)
    (line,) = made.argument.lines
    names = {made.argument.notation.of(side).text for side in line.relation.args}
    assert names == {"R(1)_x1", "R(2)_x1"}


@pytest.mark.parametrize("more", [0, 1, 3])
def test_formulas_beyond_those_of_a_page_are_counted_and_undefined_ones_left_out(more, monkeypatch):
    monkeypatch.setattr(arguments, "MANY", 3)
    made, (x, *xs) = Decided(), sp.symbols(f"x:{4 + more}", positive=True)
    parts = made.added(xs)
    total = sum(xs)
    made.equal(list(map(sum, zip(*parts, strict=True))), [R * total / (total + EPS)] * 2)
    assert (len(made.argument.formulas), made.argument.more) == (3, more)
    made = Decided()
    ((plain, named), _) = made.added([x, -x])  # r x / epsilon
    made.equal([plain, named.subs(EPS, 0)], [R * x] * 2)
    assert (len(made.argument.lines), made.argument.formulas) == (1, [])


def test_arguments_take_the_places_of_symbols_all_at_once():
    x, y = sp.symbols("x y")
    own = {"what": "R", "of": "x", "place": (), "network": 0}
    origin = Origin(**own, symbols=(x, y), formula=x - 2 * y)
    assert origin.at((y, x)) == y - 2 * x
    assert origin.at((x, x + y)) == x - 2 * (x + y)


def test_a_network_names_its_short_leaves_and_no_letter_of_several():
    x, y = sp.symbols("x00 y01")
    assert (_letter(sp.Matrix([[x, y]])), _letter(sp.Matrix([[x, x]]))) == ("", "")
    assert _letter(generic("x", 1, 2)) == "x"
    a, long = sp.Symbol("a"), sp.Add(*sp.symbols("c:20"))
    network = leaf("u") + leaf("v")
    shown = _sweep(network, {"u": sp.Matrix([[a, a]]), "v": sp.Matrix([[long, a]])}, ATTNLRP)
    assert shown.startswith("y = u + v, by ")
    assert shown.endswith(", where u = (a, a)")
