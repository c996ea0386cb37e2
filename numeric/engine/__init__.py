"""PyTorch: the fast implementation of the rules, which imports nothing of ``lrp_axioms.numeric.reference``."""
