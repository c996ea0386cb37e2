"""Layer 3: the paper's measurements, and their times."""
