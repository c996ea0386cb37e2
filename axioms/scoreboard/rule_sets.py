"""The attribution methods that the scoreboard compares, each as one function of a graph."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import (
    ATTNLRP,
    CP_LRP,
    DEPASS,
    GIM,
    IDENTITY_SOFTMAX,
    LIBRAGRAD,
    MAMBA_LRP,
    RELP,
    Composite,
)
from lrp_axioms.axioms.decide.denotation import as_rational, canonical, named
from lrp_axioms.axioms.decide.identity import Number
from lrp_axioms.axioms.graph import Node
from lrp_axioms.axioms.rewrites.canonizers import Canonizer, canonize
from lrp_axioms.axioms.rules.effects import by_masks
from lrp_axioms.axioms.rules.linear import add_by_size
from lrp_axioms.axioms.rules.linear import z_plus as z_plus_rule
from lrp_axioms.axioms.rules.products import equal_split
from lrp_axioms.axioms.rules.propagate import Explanation, LeafValues, evaluate, explain
from lrp_axioms.axioms.rules.rule import MessageFunction, Messages, Options

Formula: TypeAlias = Callable[[Node, LeafValues, sp.Matrix | None], Explanation]
"""A graph, its leaves and the gradient at its root -> an explanation without any rule."""


@dataclass(frozen=True, kw_only=True, eq=False)  # the same only as itself, as a key of caches
class RuleSet:
    """An attribution method: a composite with its preparation of graphs, or a formula.

    ``prepare`` runs before the sweep; if it looks beyond one node, lemmas about one node do not
    compose.  Without a composite the method is a ``formula`` of the graph, or a functional of
    the function alone.
    """

    name: str
    composite: Composite | None = None
    instead: Mapping[str, MessageFunction] = field(default_factory=dict)  # as in propagate()
    prepare: Canonizer | None = None
    formula: Formula | None = None

    @property
    def is_canonized(self) -> bool:
        """Whether it is AttnLRP of canonized graphs, the method of theorems 64 and 65."""
        return self.prepare is canonize and self.composite is ATTNLRP and not self.instead

    def explain(
        self,
        root: Node,
        point: LeafValues,
        *,
        eps: Number,
        relevance: sp.Matrix | Number | None = None,
    ) -> Explanation:
        """Relevance of every input at ``point``, which may be symbolic, as is ``eps`` then.

        Raises ValueError without a composite or a formula.
        """
        if self.formula:
            return self.formula(root, point, relevance)
        if self.composite is None:
            raise ValueError(f"{self.name!r} has no composite; pass one to explain a graph")
        root = self.prepare(root) if self.prepare else root
        signs = None
        if eps != 0 and any(sp.sympify(value).free_symbols for value in point.values()):
            values = evaluate(root, point)  # equal values share the symbol of their sign
            signs = {node: z.applyfunc(_sign) for node, z in values.items()}
        return explain(
            root,
            point,
            self.composite,
            eps=eps,
            relevance=relevance,
            signs=signs,
            instead=self.instead,
        )


def _sign(value: sp.Expr) -> sp.Symbol:
    return named("sign", as_rational(value))


def _at_least_0(function: str, argument: sp.Expr, **assumption: bool) -> sp.Symbol:
    """As ``named``, with a sign."""
    return sp.Symbol(named(function, argument).name, **assumption)


def _absolute(value: sp.Expr) -> sp.Expr:
    """|value|; of a product of symbols, the product of their absolute values, which are not 0."""
    if not value.free_symbols:
        return abs(value)

    def size(polynomial: sp.Expr) -> sp.Expr:
        number, factors = sp.factor_list(polynomial)
        sizes = (_at_least_0("abs", f, positive=True) ** power for f, power in factors)
        return abs(number) * sp.prod(sizes)

    above, below = map(size, sp.fraction(canonical(value)))
    return above / below


def _positive(value: sp.Expr) -> sp.Expr:
    """max(value, 0); a positive number in front of it stays a number."""
    if not value.free_symbols:
        return sp.Max(value, 0)
    content, primitive = canonical(value).as_content_primitive()
    return content * _at_least_0("positive", primitive, nonnegative=True)


# Rules of axioms.rules, with symbols for terms that depend on the sign of a value.


def absolute_split(node: Node, xs: Sequence[sp.Matrix], r: sp.Matrix, options: Options) -> Messages:
    """A sum passes R |x| / sum |x| to each operand x."""
    return add_by_size(xs, r, eps=options["eps"], size=_absolute)


def positive_split(node: Node, xs: Sequence[sp.Matrix], r: sp.Matrix, options: Options) -> Messages:
    """The z+ rule on a sum: in proportion to the positive operands."""
    _nonempty(xs, options)
    return add_by_size(xs, r, eps=options["eps"], size=_positive)


def _nonempty(xs: Sequence[sp.Matrix], options: Options) -> None:
    """A pool of positive parts is 0 on an open set, where eps = 0 says nothing of eps -> 0."""
    if options["eps"] == 0 and any(x.free_symbols for x in xs):
        raise ZeroDivisionError("0/0 where no operand is positive; take the limit eps -> 0")


def z_plus(node: Node, xs: Sequence[sp.Matrix], r: sp.Matrix, options: Options) -> Messages:
    """The z+ rule of a linear layer, token by token."""
    _nonempty(xs, options)
    x, w, *bias = xs

    def row(n: int) -> sp.Matrix:
        b = bias[0] if bias else None
        return z_plus_rule(x[n, :], w, r[n, :], eps=options["eps"], bias=b, part=_positive)[0]

    return (sp.Matrix.vstack(*map(row, range(x.rows))),)


def gate_held(node: Node, xs: Sequence[sp.Matrix], r: sp.Matrix, options: Options) -> Messages:
    """All of a gated unit to its signal: a factor that is an activation's output is held.

    Where all factors are, or none is, equal shares.  Arras et al., 2017 (arXiv 1706.07206).
    """
    signals = [x.op != kinds.ACTIVATION for x in node.args]
    if not any(signals):
        signals = [True] * len(xs)
    (share, *_) = equal_split(sum(signals), r)
    return tuple(share if signal else 0 * r for signal in signals)


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

MASK_RELEVANCE = RuleSet(name="mask relevance", formula=by_masks)
COMPARED = ("CP-LRP", "gradient x input", "Integrated Gradients", "leave-one-out")
ON_ATTENTION = (
    RuleSet(name="AttnLRP, identity softmax", composite=IDENTITY_SOFTMAX),
    *(x for x in RULE_SETS if x.name in COMPARED),
    MASK_RELEVANCE,
)
"""The columns of the table of attention; each lemma of AttnLRP takes minutes there."""

GATES_HELD = RuleSet(
    name="AttnLRP, gates held",
    composite=ATTNLRP,
    instead={kinds.PRODUCT: gate_held},
    prepare=lambda root: root,  # the rule looks at the kinds of factors: lemmas do not compose
)
OF_NEIGHBOURS = (
    RuleSet(name="RelP", composite=RELP),
    RuleSet(name="LibraGrad", composite=LIBRAGRAD),
    RuleSet(name="GIM", composite=GIM),
    RuleSet(name="MambaLRP", composite=MAMBA_LRP),
    RuleSet(name="DePass", composite=DEPASS),
)
_BY_NAME = {rule_set.name: rule_set for rule_set in RULE_SETS}
ON_UNITS = (
    _BY_NAME["AttnLRP"],
    GATES_HELD,
    _BY_NAME["CP-LRP"],
    *OF_NEIGHBOURS,
    *(_BY_NAME[name] for name in COMPARED[1:]),
)
"""The columns of the table of gated units, norms and recurrences."""
