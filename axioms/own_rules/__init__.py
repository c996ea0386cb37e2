"""States and judges propagation rules of one's own."""

from axioms.decide.signs import sign
from axioms.own_rules.rules import rule

__all__ = ["rule", "sign"]
