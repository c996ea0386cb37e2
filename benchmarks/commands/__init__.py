"""The commands of the program and their output."""
