"""Every architecture of Transformers at tiny size, and the measured quality of its explanations."""
