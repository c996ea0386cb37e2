"""Where rules come from: one first-order expansion per operation."""
