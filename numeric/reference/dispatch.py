"""Assigns a function of ``rules`` to every kind of operation and rule name."""

from collections.abc import Callable
from typing import Any

import numpy as np

from axioms import kinds
from numeric.reference import rules


def unchanged(*activations_and_relevance: Any, eps: float) -> np.ndarray:
    relevance: np.ndarray = activations_and_relevance[-1]
    return relevance


RULES: dict[tuple[str, str], Callable[..., Any]] = {
    (kinds.LINEAR, kinds.EPSILON): rules.epsilon,
    (kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS): lambda x, weight, bias, r, *, eps: (
        rules.epsilon_without_bias(x, weight, r, eps=eps)
    ),
    (kinds.ADD, kinds.EPSILON): rules.add,
    (kinds.SCORES, kinds.BILINEAR_EPSILON): lambda q, k, scale, r, *, eps: rules.scores_epsilon(
        q, k, r, eps=eps, scale=scale
    ),
    (kinds.SCORES, kinds.CONSTANT): lambda q, k, scale, r, *, eps: (
        (np.zeros_like(q), np.zeros_like(k))
    ),
    (kinds.SOFTMAX, kinds.TAYLOR): lambda z, r, *, eps: rules.softmax_taylor(z, r),
    (kinds.SOFTMAX, kinds.CONSTANT): lambda z, r, *, eps: np.zeros_like(r),
    (kinds.READOUT, kinds.BILINEAR_EPSILON): rules.bilinear_epsilon,
    (kinds.READOUT, kinds.VALUE_ONLY): lambda a, v, r, *, eps: (
        (np.zeros_like(a), rules.value_only(a, v, r, eps=eps))
    ),
    (kinds.BILINEAR, kinds.BILINEAR_EPSILON): rules.bilinear_epsilon,
    (kinds.PRODUCT, kinds.EQUAL_SPLIT): lambda factors, r, *, eps: rules.equal_split(factors, r),
    (kinds.LAYER_NORM, kinds.HELD_DEVIATION): lambda x, weight, bias, small, r, *, eps: (
        rules.held_deviation(x, weight, bias, r, layer_norm_eps=small, eps=eps)
    ),
    (kinds.LAYER_NORM, kinds.IDENTITY): unchanged,
    (kinds.RMS_NORM, kinds.HELD_DEVIATION): lambda x, weight, small, r, *, eps: (
        rules.held_root_mean_square(x, weight, r, rms_norm_eps=small, eps=eps)
    ),
    (kinds.ACTIVATION, kinds.IDENTITY): unchanged,
}
"""By kind and rule: (activations..., relevance of the output, eps) -> relevance of the input(s).

All of ``axioms.kinds.RULES`` but "gradient", which is no rule on relevance.
"""
