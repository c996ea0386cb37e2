"""Confirms at points that a rule obeys axioms, on the graphs of its rewrites' lemmas.

The rule propagates through a graph and its rewrites; no code of the search is used.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TypeAlias

import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite
from lrp_axioms.axioms.graph import Node
from lrp_axioms.axioms.rewrites.rewrites import REWRITES
from lrp_axioms.axioms.rules.propagate import explain
from lrp_axioms.axioms.rules.rule import Options
from lrp_axioms.axioms.scoreboard.axiom_cells import (
    AXIOMS,
    CONSERVATION,
    LOCALITY,
    NAMES,
    UNITS,
    X0,
    X1,
    Claim,
    Method,
    Relevances,
    Values,
    parts,
)

Rule: TypeAlias = Mapping[tuple[int, int], tuple[sp.Expr, sp.Expr]]
"""The shares of x and y by the signs of x and y."""
X, Y = sp.symbols("x y", real=True)
EQ_1 = Composite("found", {kinds.PRODUCT: kinds.EQUAL_SPLIT, kinds.ADD: kinds.EPSILON})


class Unconfirmed(AssertionError):
    """A rule that breaks an axiom of its search."""


def confirm(operation: str, rule: Rule, axioms: Iterable[str]) -> None:
    """Raises Unconfirmed for a rule that breaks an axiom at a random point of some signs."""
    chance, method, axioms = random.Random(0), _method(operation, rule), {*axioms} - {LOCALITY}
    for signs in product((1, -1), repeat=len(NAMES)):
        sizes = [sp.Rational(chance.randint(1, 10**6), 1009) for _ in NAMES]
        at = {x: sign * size for x, sign, size in zip(NAMES, signs, sizes, strict=True)}
        for axiom in axioms:  # every rule that propagates here is local
            for of, found, asked in _claims(operation, method, axiom, at):
                if not _equal(found, asked):
                    raise Unconfirmed(f"{axiom}: {of} at {at}: {found} is not {asked}: {rule}")


def _claims(operation: str, method: Method, axiom: str, at: Values) -> Iterator[Claim]:
    root = X0 * X1 if operation == kinds.PRODUCT else X0 + X1
    if axiom == CONSERVATION:
        yield f"all of `{root}`", sp.Add(*parts(method, root, at).values()), sp.S.One
    elif axiom == UNITS:
        before = parts(method, root, at)
        for name, unit in product(before, (2, -3)):
            after = parts(method, root, {**at, name: unit * at[name]})
            yield from ((f"{x} with {name} times {unit}", after[x], before[x]) for x in before)
    elif axiom in AXIOMS:
        yield from AXIOMS[axiom](method, at, (sp.Matrix(), sp.Matrix()))
    else:
        leaves = dict(zip("abc", at.values(), strict=True))  # as the templates name them
        for template in REWRITES[axiom].templates:
            before = parts(method, template.root, leaves)
            for other in REWRITES[axiom](template.root):
                after = parts(method, other, leaves)
                yield from ((f"{x} of `{other}`", after[x], before[x]) for x in before)


def _method(operation: str, rule: Rule) -> Method:
    def messages(
        node: Node, xs: Sequence[sp.Matrix], r: sp.Matrix, options: Options
    ) -> list[sp.Matrix]:
        x, y = (value[0] for value in xs)
        shares = rule[1 if x >= 0 else -1, 1 if y >= 0 else -1]
        return [r * share.xreplace({X: x, Y: y}) for share in shares]

    def of_graph(root: Node, at: Values) -> Relevances:
        return dict(explain(root, at, EQ_1, eps=0, instead={operation: messages}))

    return Method(name="found", of_graph=of_graph, of_keys=lambda z, v: sp.zeros(1, 2))


def _equal(found: sp.Expr, asked: sp.Expr) -> bool:
    """Whether two numbers are equal, or agree to 40 digits where one is irrational."""
    gap = found - asked
    irrational = gap.is_finite and not gap.is_Rational
    return bool(gap == 0 or (irrational and abs(sp.N(gap, 50)) < sp.Float("1e-40")))
