"""Compares attributions with each other and with the model's behaviour."""
