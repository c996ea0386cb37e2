"""The shared vocabulary: kinds of operations, and the propagation rules each may take.

Names only: no formula lives here, so that every layer can share the words without
sharing the arithmetic.  Equations are numbered as in the paper.
"""

LINEAR = "linear"  # z = x W + b
ADD = "add"  # residual sums, and the sum of word, position and type embeddings
SCORES = "scores"  # Z = Q K^T / sqrt(d)
SOFTMAX = "softmax"  # A = softmax(Z), row by row
READOUT = "readout"  # O = A V
BILINEAR = "bilinear"  # any other matrix product of two activations
PRODUCT = "product"  # elementwise, as in gated MLPs
LAYER_NORM = "layer_norm"
RMS_NORM = "rms_norm"  # z = x w / rms(x)
ACTIVATION = "activation"  # GELU, tanh, SiLU, ReLU

EPSILON = "epsilon"  # Eq. 1; the bias is in the denominator and absorbs its share
EPSILON_WITHOUT_BIAS = "epsilon-without-bias"  # Eq. 1; the inputs share all relevance
BILINEAR_EPSILON = "bilinear-epsilon"  # Eqs. 3 and 4; half to each factor as epsilon -> 0
VALUE_ONLY = "value-only"  # CP-LRP: all of R_O to V, A held constant
TAYLOR = "taylor"  # Eq. 5
EQUAL_SPLIT = "equal-split"  # R / n to each of n factors
HELD_DEVIATION = "held-deviation"  # norms with their deviation (or rms) held, then Eq. 1
IDENTITY = "identity"  # R_in = R_out; the value of a function at 0 is a separate term of a sum
GRADIENT = "gradient"  # relevance = input x plain gradient
CONSTANT = "constant"  # relevance stops here, on purpose

RULES: dict[str, tuple[str, ...]] = {
    LINEAR: (EPSILON, EPSILON_WITHOUT_BIAS, GRADIENT),
    ADD: (EPSILON, GRADIENT),
    SCORES: (BILINEAR_EPSILON, CONSTANT, GRADIENT),
    SOFTMAX: (TAYLOR, CONSTANT, IDENTITY, GRADIENT),
    READOUT: (BILINEAR_EPSILON, VALUE_ONLY, GRADIENT),
    BILINEAR: (BILINEAR_EPSILON, GRADIENT),
    PRODUCT: (EQUAL_SPLIT, GRADIENT),
    LAYER_NORM: (HELD_DEVIATION, IDENTITY, GRADIENT),
    RMS_NORM: (HELD_DEVIATION, GRADIENT),
    ACTIVATION: (IDENTITY, GRADIENT),
}
"""The rules that every layer of this project implements, by operation kind."""
