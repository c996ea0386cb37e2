"""The attribution methods that the scoreboard compares, each as one function of a graph."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import sympy as sp

from axioms import kinds
from axioms.canonizers import canonize
from axioms.composites import ATTNLRP, CP_LRP, Composite
from axioms.denotation import canonical, named
from axioms.graph import Node
from axioms.propagate import evaluate, explain
from axioms.rules import stabilize


@dataclass(frozen=True, kw_only=True)
class RuleSet:
    """A composite, and what else it takes to be the method that its name says.

    ``prepare`` runs before the sweep; if it looks beyond one node, lemmas about one node do not
    compose.  Without a composite the method is a functional of the function alone.
    """

    name: str
    composite: Composite | None = None
    instead: Mapping[str, Callable] = field(default_factory=dict)  # as in propagate()
    prepare: Callable[[Node], Node] | None = None

    def explain(self, root: Node, point: Mapping[str, object], *, eps, relevance=None) -> dict:
        """Relevance of every input at ``point``, which may be symbolic, as is ``eps`` then."""
        root = self.prepare(root) if self.prepare else root
        signs = None
        if eps != 0 and any(sp.sympify(value).free_symbols for value in point.values()):
            values = evaluate(root, point)  # equal values share the symbol of their sign
            signs = {node: z.applyfunc(lambda v: named("sign", v)) for node, z in values.items()}
        options = {"eps": eps, "relevance": relevance, "signs": signs, "instead": self.instead}
        return explain(root, point, self.composite, **options)


def _absolute(value):
    """|value|; of a product of symbols, the product of their absolute values."""
    if not value.free_symbols:
        return abs(value)
    number, factors = sp.factor_list(sp.numer(canonical(value)))
    below, divisors = sp.factor_list(sp.denom(canonical(value)))
    above = sp.prod(named("abs", f) ** power for f, power in factors)
    return abs(number / below) * above / sp.prod(named("abs", f) ** power for f, power in divisors)


def _positive(value):
    """max(value, 0); a positive number in front of it stays a number."""
    if not value.free_symbols:
        return sp.Max(value, 0)
    content, primitive = canonical(value).as_content_primitive()
    return content * named("positive", primitive)


def _split(parts, relevance, eps):
    """Relevance in proportion to nonnegative ``parts`` of every entry."""
    total = sum(parts[1:], parts[0])
    share = sp.Matrix(
        *total.shape, lambda j, p: relevance[j, p] / stabilize(total[j, p], eps=eps, sign=1)
    )
    return [part.multiply_elementwise(share) for part in parts]


# The rules add_by_size and z_plus of axioms.rules, for values whose sign may be undecided.


def absolute_split(node, xs, r, options):
    """A sum passes R |x| / sum |x| to each operand x."""
    return _split([x.applyfunc(_absolute) for x in xs], r, options["eps"])


def positive_split(node, xs, r, options):
    """The z+ rule on a sum: in proportion to the positive operands."""
    return _split([x.applyfunc(_positive) for x in xs], r, options["eps"])


def z_plus(node, xs, r, options):
    """The z+ rule of a linear layer: in proportion to the positive x_i w_ij and bias."""
    x, w, *bias = xs

    def part(i):  # what input i contributes to every output of every token
        return sp.Matrix(x.rows, w.cols, lambda n, j: _positive(x[n, i] * w[i, j]))

    parts = [part(i) for i in range(x.cols)]
    parts += [sp.Matrix.vstack(*[b] * x.rows).applyfunc(_positive) for b in bias]
    shares = _split(parts, r, options["eps"])
    return (sp.Matrix(x.rows, x.cols, lambda n, i: sum(shares[i][n, :])),)


PLAIN = {kinds.LINEAR: kinds.EPSILON, kinds.ADD: kinds.EPSILON, kinds.ACTIVATION: kinds.IDENTITY}

RULE_SETS: tuple[RuleSet, ...] = (
    RuleSet(name="AttnLRP", composite=ATTNLRP),
    RuleSet(
        name="AttnLRP, identity norm",
        composite=Composite("identity norm", {**ATTNLRP.rules, kinds.LAYER_NORM: kinds.IDENTITY}),
    ),
    RuleSet(name="CP-LRP", composite=CP_LRP),
    RuleSet(name="AttnLRP, abs split", composite=ATTNLRP, instead={kinds.ADD: absolute_split}),
    RuleSet(name="AttnLRP, canonized", composite=ATTNLRP, prepare=canonize),
    RuleSet(name="plain epsilon", composite=Composite("plain epsilon", PLAIN)),
    RuleSet(
        name="plain epsilon, bias outside",
        composite=Composite("bias outside", {**PLAIN, kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS}),
    ),
    RuleSet(
        name="z+",
        composite=Composite("z+", PLAIN),
        instead={kinds.LINEAR: z_plus, kinds.ADD: positive_split},
    ),
    RuleSet(name="gradient x input"),
    RuleSet(name="Integrated Gradients"),
    RuleSet(name="leave-one-out"),
)
"""In the order of the table's columns; the last three are functionals of the function alone."""
