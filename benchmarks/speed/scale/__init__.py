"""Experiments of docs/SCALE.md, each a program: memory, kills, overhead, and Ray Data beside us."""
