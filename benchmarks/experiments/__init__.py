"""The measurements of the paper and others, with their tables and figures."""
