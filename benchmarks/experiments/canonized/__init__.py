"""Canonized attention: Q, K and V share the relevance of their whole block, not of its products."""
