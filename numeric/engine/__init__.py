"""PyTorch: the fast implementation of the rules, which imports nothing of ``numeric.reference``."""
