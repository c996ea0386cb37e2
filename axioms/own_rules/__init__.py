"""States and judges propagation rules of one's own."""

from lrp_axioms.axioms.decide.signs import sign
from lrp_axioms.axioms.own_rules.rules import rule

__all__ = ["rule", "sign"]
