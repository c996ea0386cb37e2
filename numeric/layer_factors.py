"""Composites that differ in the attention step alone, as factors by layer on Q, K and V."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from torch import nn

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite, Operation
from lrp_axioms.numeric.engine import at_output, attention
from lrp_axioms.numeric.models import families
from lrp_axioms.numeric.models.places import check_overrides

Factors = tuple[tuple[float, ...], ...]
"""One layer's factors: one for each part of each projection."""


def projections(attention: nn.Module) -> list[str]:
    """Names the children that compute Q, K and V, in this order; one, if it computes all three."""
    return list(dict.fromkeys(families.projections(attention) or ()))


def groups(
    model: nn.Module,
    operations: Sequence[Operation],
    layers: Sequence[tuple[str, str]],
    composites: Sequence[Composite],
) -> list[tuple[Composite, dict[int, list[Factors]]]]:
    """Groups composites that agree outside the attention step: one of them, and all factors.

    Factors are by number of the composite, by layer and by projection.
    """
    groups: dict[frozenset[object], tuple[Composite, dict[int, list[Factors]]]] = {}
    for number, composite in enumerate(composites):
        rules = composite.assign(operations, known=at_output.RULES)
        check_overrides(composite, operations)
        steps: dict[str, dict[str, str]] = {}
        elsewhere: list[object] = [_at_softmax(composite)]
        elsewhere += [x for x in composite.rules.items() if x[0] not in attention.KINDS]
        for operation, rule in zip(operations, rules, strict=True):
            if operation.kind in attention.KINDS:
                steps.setdefault(operation.module, {})[operation.kind] = rule
            else:
                elsewhere.append((operation, rule))
        _, factors = groups.setdefault(frozenset(elsewhere), (composite, {}))
        factors[number] = [_factors(model.get_submodule(x), steps[x]) for _, x in layers]
    return list(groups.values())


def _factors(module: nn.Module, rules: Mapping[str, str]) -> Factors:
    if rules[kinds.SOFTMAX] == kinds.IDENTITY:  # which acts in the graph itself
        rules = {**rules, kinds.SOFTMAX: kinds.GRADIENT}
    shares = attention.shares(*(rules[kind] for kind in attention.KINDS))
    if len(projections(module)) == 1:
        return (shares,)
    return tuple((share,) for share in shares)


def _at_softmax(composite: Composite) -> str:
    """Returns the rule of all softmaxes that relevance passes: identity, or the plain gradient."""
    tables = (composite.rules, *composite.layers.values(), *composite.modules.values())
    found = {table.get(kinds.SOFTMAX) for table in tables} - {kinds.CONSTANT, None}
    if kinds.IDENTITY not in found:
        return kinds.GRADIENT
    if len(found) > 1:
        raise ValueError(
            f"{composite.name!r} has several rules at softmaxes that relevance passes: "
            f"{', '.join(sorted(map(str, found)))}; call attribute() for it"
        )
    return kinds.IDENTITY


def without_attention_step(composite: Composite) -> Composite:
    """Returns ``composite`` with the plain gradient in the attention step, but for identity."""
    plain = dict.fromkeys(attention.KINDS, kinds.GRADIENT) | {kinds.SOFTMAX: _at_softmax(composite)}
    within: Callable[[Mapping[str, str]], dict[str, str]] = lambda table: {
        kind: plain.get(kind, rule) for kind, rule in table.items()
    }
    return replace(
        composite,
        rules=dict(composite.rules) | plain,
        layers={layer: within(table) for layer, table in composite.layers.items()},
        modules={path: within(table) for path, table in composite.modules.items()},
    )
