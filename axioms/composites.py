"""Composites: a propagation rule for each operation, methods as composites, causes of absorption.

A composite says nothing of how a method names its tokens or layers.  Kinds without a rule in the
paper are left out, so that its composite refuses a model that has them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lrp_axioms.axioms import graph, kinds
from lrp_axioms.axioms.kinds import RULES

# Causes of absorbed relevance in a ledger, symbolic or numeric.
BIAS = "bias"  # of a linear layer, LayerNorm's beta, a fixed term of a sum
STABILISER = "stabiliser"  # epsilon in the denominator of Eqs. 1, 3 and 4
TAYLOR = "Taylor term"  # relevance that Eq. 5 does not conserve at a softmax
CONSTANT = "constant"  # a rule that holds its operands constant
DEGREE = "degree"  # a plain gradient counts an output once per factor, and by its slopes


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One relevance-carrying operation of a model, as error messages name it."""

    kind: str  # of axioms.kinds, or the class name of a module whose kind is unknown
    module: str = ""  # path inside the model, such as bert.encoder.layer.0.attention.self
    layer: int | None = None  # counted from 0; None outside the layer stack


class UnassignedOperation(LookupError):
    """A relevance-carrying operation that no entry of the composite handles."""


@dataclass(frozen=True)
class Composite:
    """One propagation rule per kind of operation; there is no default rule.

    ``layers[l]`` overrides ``rules`` inside layer ``l`` (counted from 0) and ``modules[path]``
    overrides both for the module at that path.
    Raises ValueError that lists every kind or rule outside ``axioms.kinds.RULES``.
    """

    name: str
    rules: Mapping[str, str]
    layers: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    modules: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tables = [("rules", self.rules)]
        tables += [(f"layers[{layer}]", table) for layer, table in self.layers.items()]
        tables += [(f"modules[{path!r}]", table) for path, table in self.modules.items()]
        wrong = [
            f"{place}[{kind!r}] = {rule!r}"
            for place, table in tables
            for kind, rule in table.items()
            if rule not in RULES.get(kind, ())
        ]
        if wrong:
            legal = "".join(f"\n  {kind}: {', '.join(rules)}" for kind, rules in RULES.items())
            raise ValueError(
                f"composite {self.name!r} names rules that do not exist: {'; '.join(wrong)}"
                f"\nThe rules by kind of operation are:{legal}"
            )

    def rule(self, kind: str, *, layer: int | None = None, module: str = "") -> str | None:
        """The rule of one operation, or None if there is none; the closest override wins."""
        of_layer = {} if layer is None else self.layers.get(layer, {})
        for table in (self.modules.get(module, {}), of_layer, self.rules):
            if kind in table:
                return table[kind]
        return None

    def assign(
        self, operations: Iterable[Operation], *, known: Collection[tuple[str, str]] | None = None
    ) -> list[str]:
        """Rule of every operation, or one error that names all operations without a rule.

        ``known``: the (kind, rule) that an implementation has; every other rule is as good as none.
        """
        operations = list(operations)
        rules = [self.rule(op.kind, layer=op.layer, module=op.module) for op in operations]
        orphans = [
            (op, rule)
            for op, rule in zip(operations, rules, strict=True)
            if rule is None or (known is not None and (op.kind, rule) not in known)
        ]
        if orphans:
            raise UnassignedOperation(self._explain(orphans, known, total=len(operations)))
        return [rule for rule in rules if rule is not None]  # which is all of them

    def _explain(
        self,
        orphans: Sequence[tuple[Operation, str | None]],
        known: Collection[tuple[str, str]] | None,
        total: int,
    ) -> str:
        head = (
            f"composite {self.name!r} has no rule for {len(orphans)} of {total} "
            "relevance-carrying operations:"
        )
        body = "".join(
            f"\n  {op.kind:<12} {op.module or '(root)'}"
            + (f": {rule!r} is not implemented here" if rule else "")
            for op, rule in orphans
        )
        tail = f"\nIt has rules for: {', '.join(sorted(self.rules))}."
        missing = sorted({op.kind for op, _ in orphans})
        here = {
            kind: [r for r in RULES.get(kind, ()) if known is None or (kind, r) in known]
            for kind in missing
        }
        legal = [f"{kind} ({', '.join(rules)})" for kind, rules in here.items() if rules]
        absent = [kind for kind in missing if kind in RULES and not here[kind]]
        alien = [kind for kind in missing if kind not in RULES]
        if legal:
            tail += f"\nAdd an entry for: {'; '.join(legal)}."
        if absent:
            tail += f"\nNo rule is implemented here for {', '.join(absent)}."
        if alien:
            tail += f"\nNo layer of this project knows {', '.join(alien)}."
        return head + body + tail


def assigned(
    order: list[graph.Node], composite: Composite, known: Collection[tuple[str, str]] | None = None
) -> dict[graph.Node, str]:
    """Rule of every node that depends on an input, or one error that lists the nodes without.

    ``known`` as in ``Composite.assign``.
    """
    carrying = graph.live(order)
    ruled = [x for x in order if x in carrying and x.op not in (graph.INPUT, *graph.MOVES)]
    operations = [
        Operation(
            kind=node.op,
            module=node.origin.module if node.origin else node.name,
            layer=node.attributes.get("layer"),
        )
        for node in ruled
    ]
    return dict(zip(ruled, composite.assign(operations, known=known), strict=True))


ATTNLRP = Composite(
    "attnlrp",
    {
        kinds.LINEAR: kinds.EPSILON,
        kinds.ADD: kinds.EPSILON,
        kinds.SCORES: kinds.BILINEAR_EPSILON,
        kinds.SOFTMAX: kinds.TAYLOR,
        kinds.READOUT: kinds.BILINEAR_EPSILON,
        kinds.BILINEAR: kinds.BILINEAR_EPSILON,
        kinds.PRODUCT: kinds.EQUAL_SPLIT,
        kinds.LAYER_NORM: kinds.HELD_DEVIATION,
        kinds.RMS_NORM: kinds.HELD_DEVIATION,
        kinds.ACTIVATION: kinds.IDENTITY,
    },
)
"""AttnLRP (Achtibat et al., 2024): Eqs. 1, 3, 4 and 5."""

BYPASS = {
    kinds.SCORES: kinds.CONSTANT,
    kinds.SOFTMAX: kinds.CONSTANT,
    kinds.READOUT: kinds.VALUE_ONLY,
}
"""The attention step as in CP-LRP (Ali et al., 2022): no relevance passes the softmax."""

CP_LRP = Composite("cp-lrp", {**ATTNLRP.rules, **BYPASS})
"""AttnLRP with the value-only attention step in every layer."""

GRADIENT_X_INPUT = Composite("gradient-x-input", dict.fromkeys(RULES, kinds.GRADIENT))
"""No rule at all: the plain gradient, as a composite, to mix and to compare with."""

RELP = Composite("relp", CP_LRP.rules)
"""RelP (Jafari et al., 2025, arXiv 2508.21258): its coefficients are R/x of these rules.

Attention weights, deviations of norms and the ratios of activations are held, and a gate takes
half.  Theorem 73.
"""

LIBRAGRAD = Composite("libragrad", RELP.rules)
"""LibraGrad (Mehri et al., 2024, arXiv 2411.16760): its gradients are R/x by these rules.

It detaches attention weights, deviations and ratios of activations, and halves a gate's gradient.
Its input x gradient is CP-LRP; FullGrad adds the relevance that biases absorb.  Theorem 73.
"""

GIM = Composite(
    "gim",
    {
        **GRADIENT_X_INPUT.rules,
        kinds.SCORES: kinds.BILINEAR_EPSILON,
        kinds.READOUT: kinds.BILINEAR_EPSILON,
        kinds.LAYER_NORM: kinds.HELD_DEVIATION,
        kinds.RMS_NORM: kinds.HELD_DEVIATION,
    },
)
"""GIM (Edin et al., 2025, arXiv 2505.17630) at temperature 1: held norms, and a quarter of the
gradient to queries and keys, half to values.

The authors' package leaves gates and activations as they are, and so does this.  Its softmax of
temperature 2 in the backward pass is no rule of ``kinds``: the method "gim" of ``numeric`` has it.
"""

MAMBA_LRP = Composite(
    "mamba-lrp",
    {
        kinds.LINEAR: kinds.EPSILON,
        kinds.ADD: kinds.EPSILON,
        kinds.READOUT: kinds.VALUE_ONLY,
        kinds.PRODUCT: kinds.EQUAL_SPLIT,
        kinds.ACTIVATION: kinds.IDENTITY,
        kinds.RMS_NORM: kinds.HELD_DEVIATION,
    },
)
"""MambaLRP (Jafari et al., 2024, arXiv 2406.07592, Sec. 4): SiLU, selective SSM and gate.

A readout is a product by selected values: A h, B x and C h, with A, B and C held.
Theorem 72.
"""

DEPASS = Composite(
    "depass",
    {
        kinds.LINEAR: kinds.EPSILON,
        kinds.ADD: kinds.EPSILON,
        **BYPASS,
        kinds.ACTIVATION: kinds.IDENTITY,
        kinds.LAYER_NORM: ATTNLRP.rules[kinds.LAYER_NORM],
        kinds.RMS_NORM: ATTNLRP.rules[kinds.RMS_NORM],
    },
)
"""DePass (Hong et al., 2025, arXiv 2510.18462), where a neuron is shared by contribution
and biases are a component of their own.  It has no rule for products.  Theorem 73.
"""


IDENTITY_SOFTMAX = Composite("identity-softmax", {**ATTNLRP.rules, kinds.SOFTMAX: kinds.IDENTITY})
"""AttnLRP with R_Z = R_A at the softmax in the place of Eq. 5.

Relevance passes a softmax so in the code of Chefer et al., 2021 (arXiv 2012.09838).  Theorem 77.
"""


def bypass_softmax(layers: Iterable[int], within: Composite = ATTNLRP) -> Composite:
    """AttnLRP with CP-LRP's attention step in ``layers`` (from 0): one cell of Table A3.

    ``within``: the composite of all other layers.
    Raises TypeError if ``layers`` is a single number.
    """
    if isinstance(layers, int):
        raise TypeError(f"layers={layers!r}: pass all layers in a list, such as [{layers!r}]")
    chosen = sorted(set(layers))
    name = f"{within.name}, value-only in {chosen}"
    return replace(within, name=name, layers=dict.fromkeys(chosen, BYPASS))
