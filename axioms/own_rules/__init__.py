"""A propagation rule of one's own, and what holds for it."""

from axioms.own_rules.rules import rule
from axioms.solver.signs import sign

__all__ = ["rule", "sign"]
