"""Decides equality of formulas, and of the functions that graphs denote."""
