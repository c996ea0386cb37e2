"""Three local rules that conserve; each gives up other axioms (theorem 67).

All three treat sums and linear layers by Eq. 1, hold the attention weights constant, and give all
relevance of a matrix product to its first factor.  They differ in how the factors of a product
share relevance.  A norm and a softmax are treated as graphs of simpler operations.
"""

from collections.abc import Callable, Sequence

import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import CP_LRP, Composite
from lrp_axioms.axioms.decide.denotation import as_rational, canonical, named
from lrp_axioms.axioms.decide.identity import is_rational_function
from lrp_axioms.axioms.decide.records import noted
from lrp_axioms.axioms.graph import Node, leaf, parameter
from lrp_axioms.axioms.rewrites.rewrites import REWRITES
from lrp_axioms.axioms.rules.products import bilinear_epsilon
from lrp_axioms.axioms.rules.propagate import explain
from lrp_axioms.axioms.rules.rule import MessageFunction, Options
from lrp_axioms.axioms.scoreboard.rule_sets import RuleSet

Parts = Callable[[Sequence[sp.Expr]], list[sp.Expr]]  # shares of the factors of a product, of 1

CONSERVING = Composite("conserving", {**CP_LRP.rules, kinds.SCORES: kinds.BILINEAR_EPSILON})
"""CP-LRP, with halves for scores that no softmax follows; ``_sharing`` replaces other rules."""


@noted
def to_the_first(factors: Sequence[sp.Expr]) -> list[sp.Expr]:
    """All of R to the first factor."""
    return [sp.S.One, *[sp.S.Zero] * (len(factors) - 1)]


@noted
def by_logarithms(factors: Sequence[sp.Expr]) -> list[sp.Expr]:
    """R log|x| / log|z| to every factor x of z; ZeroDivisionError where x = 0 or |z| = 1."""
    logs = [logarithm(x) for x in factors]
    total = sp.Add(*logs)
    if total == 0:
        raise ZeroDivisionError("log|z| is 0 at |z| = 1, where it can share nothing out")
    first, *others = (canonical(part / total) for part in logs)
    if len(others) == 1 and any(not is_rational_function(x) for x in factors):
        # with a root inside, a name for the share keeps the algebra small
        first = named("share", as_rational(first)) if first.free_symbols else first
        return [first, 1 - first]
    return [first, *others]


@noted
def equally(factors: Sequence[sp.Expr]) -> list[sp.Expr]:
    """R/n to each of n factors."""
    return [sp.Rational(1, len(factors))] * len(factors)


def logarithm(value: sp.Expr) -> sp.Expr:
    """log|value| as a sum over primes and irreducible polynomials, with a symbol for each log."""
    if value == 0:
        raise ZeroDivisionError("0 has no logarithm")
    if not value.free_symbols:
        return sp.expand_log(sp.log(abs(value)), force=True, factor=True)
    above, below = map(_logarithm_of_factors, sp.fraction(canonical(as_rational(value))))
    return above - below


def _logarithm_of_factors(polynomial: sp.Expr) -> sp.Expr:
    number, factors = sp.factor_list(polynomial)
    logs = (n * min(named("log", f), named("log", -f), key=str) for f, n in factors)
    return sp.Add(logarithm(number), *logs)


def _product(parts: Parts) -> MessageFunction:
    """A product, entry by entry."""

    def messages(node: Node, xs: Sequence[Matrix], r: Matrix, options: Options) -> Sequence[Matrix]:
        shared = [parts(factors) for factors in zip(*xs, strict=True)]
        return [
            Matrix(*r.shape, [part[k] * e for part, e in zip(shared, r, strict=True)])
            for k in range(len(xs))
        ]

    return messages


def _first_matrix(
    node: Node, xs: Sequence[Matrix], r: Matrix, options: Options
) -> Sequence[Matrix]:
    """Gives all of R to the first of two matrices, as if the second were a layer's weight."""
    whole, _ = bilinear_epsilon(xs[0], xs[1], 2 * r, **options)
    return [whole, sp.zeros(*xs[1].shape)]


def _swept_parts(rewrite: str, instead: dict[str, MessageFunction]) -> MessageFunction:
    """Messages of one operation, swept by the same rules through its graph of simpler ones."""

    def messages(node: Node, xs: Sequence[Matrix], r: Matrix, options: Options) -> Sequence[Matrix]:
        names = [f"operand {n}" for n in range(len(xs))]
        x, *parameters = names
        alone = Node(
            node.op, (leaf(x), *map(parameter, parameters)), attributes=dict(node.attributes)
        )
        (graph,) = REWRITES[rewrite](alone)
        point = dict(zip(names, xs, strict=True))
        return [
            explain(graph, point, CONSERVING, eps=options["eps"], relevance=r, instead=instead)[x]
        ]

    return messages


def _sharing(name: str, parts: Parts) -> RuleSet:
    instead = {kinds.PRODUCT: _product(parts), kinds.BILINEAR: _first_matrix}
    whole = {
        kinds.SOFTMAX: _swept_parts("decompose softmax", instead),
        kinds.LAYER_NORM: _swept_parts("decompose LayerNorm", instead),
    }
    return RuleSet(name=name, composite=CONSERVING, instead=instead | whole)


FIRST = _sharing("first factor takes all", to_the_first)
BY_LOGARITHMS = _sharing("shares by logarithms", by_logarithms)
EQUAL = _sharing("equal shares", equally)
AXIOM_RULES = (FIRST, BY_LOGARITHMS, EQUAL)
"""Each obeys a set of axioms that cannot grow; see ``axiom_sets``."""
