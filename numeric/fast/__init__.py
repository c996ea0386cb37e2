"""PyTorch: the quick text of the rules; it imports nothing of ``numeric.reference``."""
