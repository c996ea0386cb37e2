"""Experiments of docs/SCALE.md, each a program: memory, kills and throughput."""
