"""The commands of the program, and what they show."""
