"""Layer 2: what is computed (NumPy, PyTorch, Transformers)."""
