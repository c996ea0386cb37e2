"""Propagation rules, a record for each, and their symbolic sweep over a graph."""
