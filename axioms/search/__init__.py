"""Searches a template for every propagation rule that obeys some axioms."""
