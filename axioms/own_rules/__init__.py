"""A propagation rule of one's own, and what holds for it."""

from axioms.decide.signs import sign
from axioms.own_rules.rules import rule

__all__ = ["rule", "sign"]
