"""Names of what absorbs relevance, for the symbolic ledger and the numeric one."""

BIAS = "bias"  # of a linear layer, LayerNorm's beta, a fixed term of a sum
STABILISER = "stabiliser"  # epsilon in the denominator of Eqs. 1, 3 and 4
TAYLOR = "Taylor term"  # what Eq. 5 does not conserve at a softmax
CONSTANT = "constant"  # a rule that holds its operands constant
DEGREE = "degree"  # a plain gradient counts an output once per factor, and by its slopes
