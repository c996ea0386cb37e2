"""Why R/n: the axioms that leave one way to explain a product of n factors.

An attribution here is a table of shares: for every way to compute x_1 ... x_n by products of two,
what part of R each factor gets.  The axioms are linear equations between those numbers:
conservation (the shares of one graph sum to 1), symmetry (renaming the factors of a graph renames
the shares) and implementation invariance (all graphs have the same shares).

Main statements
  5  the three axioms force R/n (n <= 4), and each of them is needed
  5  they do so only for shares that are numbers: R |x_i| / sum |x_k| obeys all three
  5  but if in addition every factor's unit may change, shares that depend on x are R/n as well
"""

import itertools

import pytest
import sympy as sp
from sympy.polys.matrices import DomainMatrix

from axioms import kinds
from axioms.composites import Composite
from axioms.decide import differ_at, identical
from axioms.graph import leaf
from axioms.propagate import explain
from axioms.rewrites import bracketings

CONSERVATION, SYMMETRY, INVARIANCE = AXIOMS = (
    "conservation",
    "symmetry",
    "implementation invariance",
)
EQUAL_SPLIT = Composite("equal split", {kinds.PRODUCT: kinds.EQUAL_SPLIT})


def graphs(n):
    """Every bracketing of every ordering of n factors: (shape, order of the factors)."""
    return list(itertools.product(range(len(shapes(n))), itertools.permutations(range(n))))


def shapes(n):
    return bracketings([leaf(f"x{i}") for i in range(n)])


def swaps(n):
    """Renamings that generate all others: neighbours change names."""
    for k in range(n - 1):
        names = list(range(n))
        names[k : k + 2] = names[k + 1], names[k]
        yield names


def equations(n, axioms):
    """Rows ({(graph, factor): coefficient}, right-hand side) that say ``axioms``."""
    if CONSERVATION in axioms:
        for graph in graphs(n):
            yield {(graph, i): 1 for i in range(n)}, 1
    if SYMMETRY in axioms:
        for (shape, order), names in itertools.product(graphs(n), swaps(n)):
            renamed = shape, tuple(names[i] for i in order)
            for i in range(n):
                yield {((shape, order), i): 1, (renamed, names[i]): -1}, 0
    if INVARIANCE in axioms:
        for one, other in itertools.pairwise(graphs(n)):
            for i in range(n):
                yield {(one, i): 1, (other, i): -1}, 0


def solved(n, axioms):
    """Dimension of the tables of shares that obey ``axioms``, and one of them."""
    unknown = {share: k for k, share in enumerate(itertools.product(graphs(n), range(n)))}
    rows = list(equations(n, axioms))
    table = {}
    for k, (row, rhs) in enumerate(rows):
        table[k] = {unknown[share]: sp.QQ(value) for share, value in row.items()}
        if rhs:
            table[k][len(unknown)] = sp.QQ(rhs)
    system = DomainMatrix(table, (len(rows), len(unknown) + 1), sp.QQ)
    reduced, pivots = system.rref()
    assert len(unknown) not in pivots  # the equations do not contradict each other
    found = dict.fromkeys(unknown, sp.Integer(0))
    shares = list(unknown)
    for row, pivot in enumerate(pivots):
        found[shares[pivot]] = sp.QQ.to_sympy(reduced[row, len(unknown)].element)
    return len(unknown) - len(pivots), found


@pytest.mark.theorem(
    5,
    "Conservation, symmetry and implementation invariance leave one table of shares for a product "
    "of n <= 4 factors: R/n to each.",
    "proved",
)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_axioms_force_equal_shares_of_a_product(n, record_property):
    freedom, shares = solved(n, AXIOMS)
    assert freedom == 0
    assert set(shares.values()) == {sp.Rational(1, n)}
    record_property("method", f"n = {n}: {len(shares)} unknown shares, one exact solution")


@pytest.mark.theorem(
    5,
    "Two of the axioms conservation, symmetry and implementation invariance suffice to force R/n "
    "on a product of 3 factors.",
    "refuted",
)
@pytest.mark.parametrize("dropped", AXIOMS)
def test_each_axiom_is_needed(dropped, record_property):
    others = [axiom for axiom in AXIOMS if axiom != dropped]
    n = 3
    tables = {
        CONSERVATION: {share: 1 for share in itertools.product(graphs(n), range(n))},
        SYMMETRY: {(g, i): int(i == 0) for g, i in itertools.product(graphs(n), range(n))},
        INVARIANCE: by_brackets(n),
    }
    table = tables[dropped]
    obeyed = {
        axiom: all(
            sum(value * table[share] for share, value in row.items()) == rhs
            for row, rhs in equations(n, [axiom])
        )
        for axiom in AXIOMS
    }
    assert obeyed == {axiom: axiom != dropped for axiom in AXIOMS}
    freedom, _ = solved(n, others)
    assert freedom > 0
    shares = [table[graphs(n)[0], i] for i in range(n)]
    assert any(differ_at(share, sp.Rational(1, n), {}) for share in shares)
    record_property(
        "witness", f"without {dropped} (freedom {freedom}): {'/'.join(map(str, shares))} of R"
    )


def by_brackets(n):
    """Shares of the equal split at every product of two, from the sweep itself."""
    table = {}
    for shape, order in graphs(n):
        at = {f"x{position}": 1 for position in range(n)}
        found = explain(shapes(n)[shape], at, EQUAL_SPLIT)
        for position, i in enumerate(order):
            table[(shape, order), i] = found[f"x{position}"]
    return table


@pytest.mark.theorem(
    5,
    "Conservation, symmetry and implementation invariance force R/n also on shares that may depend "
    "on the values of the factors.",
    "refuted",
)
def test_shares_by_size_obey_the_axioms_too(record_property):
    x = sp.symbols("x1:4", positive=True)
    shares = [e / sum(x) for e in x]  # a function of x alone, so of no implementation
    assert identical(sum(shares), 1)
    for names in itertools.permutations(range(3)):
        renamed = dict(zip(x, (x[k] for k in names), strict=True))
        assert all(
            identical(shares[i].subs(renamed, simultaneous=True), shares[names[i]])
            for i in range(3)
        )
    witness = dict(zip(x, (1, 2, 3), strict=True))
    assert differ_at(shares[0], sp.Rational(1, 3), witness)
    record_property("witness", f"x = (1, 2, 3): {'/'.join(str(s.subs(witness)) for s in shares)}")


@pytest.mark.theorem(
    5,
    "Shares whose logarithm is linear in those of the factors obey the axioms and a change of any "
    "factor's unit, x_i -> t x_i, only as R/n (n = 3).",
    "proved",
)
def test_shares_that_know_no_units_are_equal(record_property):
    x, t = sp.symbols("x1:4", positive=True), sp.Symbol("t", positive=True)
    # shares c_i x_1^p_i1 x_2^p_i2 x_3^p_i3: by a unit of factor k they change by t^p_ik
    powers, scale = sp.symbols("p1:10", integer=True), sp.symbols("c1:4", positive=True)
    exponent = sp.Matrix(3, 3, powers)
    shares = [scale[i] * sp.prod(x[k] ** exponent[i, k] for k in range(3)) for i in range(3)]
    change = [
        sp.powsimp(sp.expand_power_base(shares[i].subs(x[k], t * x[k])) / shares[i])
        for i, k in itertools.product(range(3), repeat=2)
    ]
    assert change == [t**power for power in powers]  # 1 for all t: every power is 0
    free = [share.subs(dict.fromkeys(powers, 0)) for share in shares]
    assert free == list(scale)  # numbers: the linear system above decides them
    freedom, table = solved(3, AXIOMS)
    assert (freedom, set(table.values())) == (0, {sp.Rational(1, 3)})
    record_property("method", "t^p = 1 for all t leaves p = 0, then the linear system")
