"""Shares of prompts with intervals, and scores of maps in random order."""

import math

import numpy as np


def share(values) -> tuple[float, float, float]:
    """Returns a share of prompts and the ends of its 95 % Wilson interval."""
    from scipy.stats import binomtest  # which takes its time to load, and other tables do without

    found = binomtest(int(np.sum(values)), len(values)).proportion_ci(method="wilson")
    return float(np.mean(values)), float(found.low), float(found.high)


def random_rank(causes: int, tokens: int) -> float:
    """Returns the mean reciprocal rank of the first cause among ``tokens`` in random order."""
    orders = math.comb(tokens, causes)
    first = range(1, tokens - causes + 2)
    return sum(math.comb(tokens - n, causes - 1) / n for n in first) / orders
