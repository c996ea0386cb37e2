"""Theorems on Layer-wise Relevance Propagation, with graphs and rules in SymPy."""

if "." not in __name__:  # the short name in a checkout
    from lrp_axioms.short_names import share

    share(__name__)

from typing import TYPE_CHECKING

from lrp_axioms.axioms.verdict import Verdict

if TYPE_CHECKING:  # graphs are to be had without SymPy
    from lrp_axioms.axioms.own_rules.rules import Rule

__all__ = ["Verdict", "judge"]


def judge(rule: "Rule") -> list[Verdict]:
    """Everything that is decided about a rule of one's own, as `lrp-axioms prove FILE` does.

    Raises RuleError, a ValueError that names file and line, for a rule that cannot be judged.
    """
    from lrp_axioms.axioms.own_rules.verdicts import judge as decided

    return decided(rule)
