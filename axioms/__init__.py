"""Layer 1: what is true of propagation rules (standard library and SymPy)."""
