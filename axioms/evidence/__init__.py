"""Theorems as tests: what a verdict rests on, and how it is shown."""
