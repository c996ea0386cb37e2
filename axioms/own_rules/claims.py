"""Decides claims about one operation by z3; the rule itself computes each witness."""

from dataclasses import replace

import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.decide.answers import Answer, answer, in_limit, tried_further
from lrp_axioms.axioms.decide.equality import EQUAL, at_every_eps
from lrp_axioms.axioms.decide.signs import UNDEFINED, shown
from lrp_axioms.axioms.own_rules.properties import CONSERVES, Claim, claims
from lrp_axioms.axioms.own_rules.rules import Rule
from lrp_axioms.axioms.own_rules.settings import Setting
from lrp_axioms.axioms.own_rules.uniform import SEEN, uniform
from lrp_axioms.axioms.verdict import IN_LIMIT, PROVED, REFUTED

MORE = range(4, 11)  # further numbers of inputs to try a proved rule at
ANY = f"any number of inputs, if the formula goes on as for 1 to {SEEN[-1]}"
FEW = "1, 2 and 3 inputs"
LONGEST = 100  # characters of a formula in a reason
X, Y, SLOPE = sp.symbols("x y slope", real=True)
ACTIVATIONS = {  # classes to try conservation on if it fails for all activations
    "activations with the sign of their input, where f(x) != 0": sp.Gt(X * Y, 0),
    "activations with f(x) = x f'(x), such as ReLU, where f(x) != 0": sp.Eq(Y, X * SLOPE),
}
NO_BIAS = {sp.Symbol("b", real=True): sp.Integer(0)}


def decide(claim: Claim, rule: Rule) -> tuple[Answer, str]:
    """Decides a claim, and names the numbers of inputs that the answer is about."""
    found = answer([Setting(claim, rule, count) for count in rule.operation.counts])
    if not rule.operation.lists or found.status not in (PROVED, IN_LIMIT):
        return found, ""
    more = (Setting(claim, rule, count) for count in MORE)
    found = tried_further(found, ((part, part.random_point()) for part in more))
    own = uniform(claim, rule) if found.status != REFUTED else None
    if own is None:
        return found, FEW
    if claim.is_order:
        return found, FEW if found.divisors else ANY
    finite = found.status == PROVED
    known = at_every_eps(own) if finite else in_limit(own)
    if not own.holds(known, in_limit=not finite):
        return found, FEW
    return replace(found, divisors=known.divisors, is_almost=known.is_almost), ANY


def lost(rule: Rule) -> str:
    """Names the absorber of relevance, and the amount; '' if all relevance arrives."""
    last, claim = rule.operation.counts[-1], claims(rule.kind)[CONSERVES]
    setting = Setting(claim, rule, last)
    general = uniform(claim, rule) if rule.operation.lists else None
    ((arrived, total),) = (general or setting).pairs()
    gap = sp.factor((total - arrived).xreplace({} if general else setting.output))
    if gap == 0 or gap.has(*UNDEFINED):
        return ""
    said = shown(gap) if len(shown(gap)) <= LONGEST else "the rest"
    biases = {"bias": NO_BIAS} if rule.kind == kinds.LINEAR else {}
    for what, fixed in {"": {}, **biases}.items():
        part = Setting(claim, rule, last, fixed)
        if what and at_every_eps(part).status == EQUAL:
            return f"the bias absorbs {said}"
        if in_limit(part).status == EQUAL:
            return f"{'bias and stabiliser absorb' if what else 'the stabiliser absorbs'} {said}"
    if gap.as_coeff_Mul()[0] < 0:  # a minus stands in front
        return f"{shown(-gap)} too much arrives" if said != "the rest" else ""
    return f"{said} is lost" if said != "the rest" else ""


def kept_by(rule: Rule) -> str:
    """Names a class of activations whose relevance a rule conserves; '' if none is known."""
    setting = Setting(claims(rule.kind)[CONSERVES], rule, None)
    for name, fact in ACTIVATIONS.items():
        found = at_every_eps(replace(setting, assumed=(fact,)))
        if found.status == EQUAL:
            return f"it holds of {name}" + ", where no divisor is 0" * bool(
                found.divisors or found.is_almost
            )
    return ""
