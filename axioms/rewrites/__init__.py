"""Rewrites that keep a function, and which rules do not notice them."""
