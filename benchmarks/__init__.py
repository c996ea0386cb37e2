"""Layer 3: what the paper measured, and how long it takes."""
