"""PyTorch: the fast implementation of the rules, without the NumPy reference."""
