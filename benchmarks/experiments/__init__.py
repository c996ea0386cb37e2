"""What the paper measured, and more: how it is computed, its tables and its figures."""
