"""Every rule of ``axioms.kinds`` as one record: its messages, and the causes that absorb relevance.

The gradient has no record, because it is no rule on relevance.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import BIAS, CONSTANT, STABILISER, TAYLOR
from lrp_axioms.numeric.reference import lemmas, mapped, rules
from lrp_axioms.numeric.reference.lemmas import Lemma


def not_on_maps(*given: Any, eps: float) -> list[np.ndarray]:
    """Raises LookupError: no capture makes a map of such an operation."""
    raise LookupError("this rule has no text for operations that are maps")


@dataclass(frozen=True)
class Rule:
    """One rule at one kind of operation.

    messages: (activations..., relevance of the output, eps) -> relevance of the input(s)
    absorbs: by cause, how much of every output entry is not handed on
    on_map: (f, activations, relevance, eps) -> relevance of each, if the operation is a map
    """

    kind: str
    name: str
    messages: Callable[..., Any]
    absorbs: Mapping[str, Lemma]
    on_map: Callable[..., list[np.ndarray]] = not_on_maps


def unchanged(*activations_and_relevance: Any, eps: float) -> np.ndarray:
    """Hands the relevance of the output on as it is."""
    return rules.identity(activations_and_relevance[-1])


RECORDS = (
    Rule(kinds.LINEAR, kinds.EPSILON, rules.epsilon, lemmas.EQ_1, mapped.epsilon),
    Rule(kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS,
         lambda x, weight, bias, r, *, eps: rules.epsilon_without_bias(x, weight, r, eps=eps),
         {STABILISER: lemmas.by_stabiliser_without_bias}, mapped.epsilon_without_bias),
    Rule(kinds.ADD, kinds.EPSILON, rules.add,
         {BIAS: lemmas.by_fixed_term, STABILISER: lemmas.by_stabiliser}),
    Rule(kinds.SCORES, kinds.BILINEAR_EPSILON,
         lambda q, k, scale, r, *, eps: rules.scores_epsilon(q, k, r, eps=eps, scale=scale),
         lemmas.HALVES, mapped.bilinear_epsilon),
    Rule(kinds.SCORES, kinds.CONSTANT,
         lambda q, k, scale, r, *, eps: (np.zeros_like(q), np.zeros_like(k)),
         lemmas.HELD, mapped.constant),
    Rule(kinds.SOFTMAX, kinds.TAYLOR, lambda z, r, *, eps: rules.softmax_taylor(z, r),
         {TAYLOR: lemmas.by_taylor_term}),
    Rule(kinds.SOFTMAX, kinds.CONSTANT, lambda z, r, *, eps: np.zeros_like(r), lemmas.HELD),
    Rule(kinds.SOFTMAX, kinds.IDENTITY, unchanged, {}),
    Rule(kinds.READOUT, kinds.BILINEAR_EPSILON, rules.bilinear_epsilon,
         lemmas.HALVES, mapped.bilinear_epsilon),
    Rule(kinds.READOUT, kinds.VALUE_ONLY,
         lambda a, v, r, *, eps: (np.zeros_like(a), rules.value_only(a, v, r, eps=eps)),
         {CONSTANT: lemmas.by_fixed_values, STABILISER: lemmas.by_stabiliser}, mapped.value_only),
    Rule(kinds.BILINEAR, kinds.BILINEAR_EPSILON, rules.bilinear_epsilon,
         lemmas.HALVES, mapped.bilinear_epsilon),
    Rule(kinds.PRODUCT, kinds.EQUAL_SPLIT,
         lambda factors, r, *, eps: rules.equal_split(factors, r), {}),
    Rule(kinds.LAYER_NORM, kinds.HELD_DEVIATION,
         lambda x, weight, bias, small, r, *, eps: rules.held_deviation(
             x, weight, bias, r, layer_norm_eps=small, eps=eps),
         lemmas.EQ_1),
    Rule(kinds.LAYER_NORM, kinds.IDENTITY, unchanged, {}),
    Rule(kinds.RMS_NORM, kinds.HELD_DEVIATION,
         lambda x, weight, small, r, *, eps: rules.held_root_mean_square(
             x, weight, r, rms_norm_eps=small, eps=eps),
         {STABILISER: lemmas.by_stabiliser}, mapped.held),
    Rule(kinds.ACTIVATION, kinds.IDENTITY, unchanged, {}, mapped.held),
)  # fmt: skip
RULES = {(rule.kind, rule.name): rule for rule in RECORDS}
"""By kind and rule."""
