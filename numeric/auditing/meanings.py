"""Explains each cause of a residual in a few words, for readers of an audit."""

from lrp_axioms.axioms.composites import BIAS, CONSTANT, STABILISER, TAYLOR
from lrp_axioms.numeric.auditing.draft import FIXED, POSITION, TYPE
from lrp_axioms.numeric.auditing.ledger import NUMERICAL

OF_LEAVES = {POSITION: "position embedding", TYPE: "token type embedding", FIXED: "fixed entries"}
"""By role of a leaf that is no word: the name of the relevance that it receives."""

LOGARITHM = "log-softmax"
"""A log-probability minus the relevance of its logits."""

MEANINGS = {
    TAYLOR: "not conserved by Eq. 5 at a softmax",
    BIAS: "kept by biases of linear layers and fixed terms of sums",
    "LayerNorm beta": "kept by the shift of LayerNorm",
    STABILISER: "kept by epsilon in the denominators of Eqs. 1, 3 and 4",
    CONSTANT: "stopped at operands that a rule holds constant",
    "position embedding": "ends in positions, which are not words",
    "token type embedding": "ends in token types, which are not words",
    "fixed entries": "ends in entries that are learned or fixed, such as attention sinks",
    LOGARITHM: "a log-probability without what its logits receive: minus the entropy",
    NUMERICAL: "rounding of float64",
}
