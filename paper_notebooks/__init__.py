"""Notebooks that compare the paper's claims with measurements, and how they are built."""
