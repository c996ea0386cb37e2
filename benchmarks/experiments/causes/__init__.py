"""A small language in which every answer has known causes, a model of it, and who finds them."""
