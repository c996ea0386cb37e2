"""NumPy float64: the literal implementation of the rules.

It imports neither PyTorch nor the other implementations.
"""
