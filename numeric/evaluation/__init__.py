"""How attributions are compared: with each other, and with what the model does."""
