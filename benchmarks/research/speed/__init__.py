"""Ratios of time and memory; see RESULTS.md."""
