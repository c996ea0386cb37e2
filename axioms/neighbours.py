"""Methods of other papers that are composites: which of this project's rules each of them is.

A composite says nothing of how a method names its tokens or layers.  Kinds that a paper gives no
rule for are left out, so that these composites refuse a model that has them.
"""

from axioms import kinds
from axioms.composites import ATTNLRP, BYPASS, CP_LRP, Composite

RELP = Composite("relp", CP_LRP.rules)
"""RelP (Jafari et al., 2025, arXiv 2508.21258): its coefficients are R/x of these rules.

Attention weights, deviations of norms and the ratios of activations are held, and a gate takes
half.  Theorem 73.
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

A readout is a product by what the model selects: A h, B x and C h, with A, B and C held.
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
