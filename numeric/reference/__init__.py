"""NumPy float64: the slow, literal text of the rules; it imports neither PyTorch nor the others."""
