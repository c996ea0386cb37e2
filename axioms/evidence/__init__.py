"""Theorems as tests: their verdicts, and the evidence for each."""
