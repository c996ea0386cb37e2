"""LRP against activation patching: what coefficients predict of activations that are replaced."""
