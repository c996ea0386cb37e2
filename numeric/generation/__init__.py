"""Explains generated texts: the relevance of earlier tokens for each written token."""
