"""Every architecture of Transformers at tiny size, and what can be explained of it."""
