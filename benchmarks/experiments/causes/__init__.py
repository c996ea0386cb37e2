"""A small language with known causes of every answer, a model of it, and methods scored on it."""
