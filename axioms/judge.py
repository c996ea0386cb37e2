"""Verdicts on a user's rule: what it conserves, and which rewrites it does not notice.

A claim says that two tuples of expressions are equal.  It is proved if they are identical, for
every case of the signs, and refuted by a point of exact numbers.
"""

import inspect
import itertools
import random
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

import sympy as sp

from axioms import kinds
from axioms.claims import CONSERVES, SAME, called
from axioms.decide import identical, is_rational_function
from axioms.user_rules import Rule

EXACT, LIMIT, REFUTED, UNDECIDED = "proved", "proved as eps -> 0", "refuted", "undecided"
EPS = sp.Symbol("eps", positive=True)
FINITE = sp.Rational(1, 4)
CASES = 6  # signs are split into at most 2**CASES cases


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One claim about one rule."""

    claim: str
    verdict: str  # EXACT, LIMIT, REFUTED or UNDECIDED
    detail: str  # the witness, or what absorbs relevance


def judge(rule: Rule) -> list[Finding]:
    """Everything that is decided about a rule: conservation first, then each rewrite."""
    conserved = _decide("conserves relevance", CONSERVES[rule.kind], rule)
    return [
        _with_absorbed(conserved, rule),
        *(_decide(f"the same for {text}", claim, rule) for text, claim in SAME[rule.kind].items()),
    ]


def _symbols(claim) -> list[sp.Symbol]:
    names = list(inspect.signature(claim).parameters)[1:]
    return [
        sp.Symbol(name, **({"positive": True} if name[0] in "ce" else {"real": True}))
        for name in names
    ]


def _sides(claim, rule, eps, values) -> tuple[list, list]:
    left, right = claim(called(rule, eps), *values)
    return list(left), list(right)


def _decide(text, claim, rule) -> Finding:
    symbols = _symbols(claim)
    if _holds(claim, rule, EPS, symbols):
        return Finding(claim=text, verdict=EXACT, detail="")
    at_finite = _witness(claim, rule, FINITE, symbols)
    if _holds(claim, rule, sp.Integer(0), symbols):
        return Finding(claim=text, verdict=LIMIT, detail=at_finite and f"but not at {at_finite}")
    witness = _witness(claim, rule, sp.Integer(0), symbols) or at_finite
    if witness:
        return Finding(claim=text, verdict=REFUTED, detail=witness)
    return Finding(claim=text, verdict=UNDECIDED, detail="no proof, and no witness was found")


def _holds(claim, rule, eps, values) -> bool:
    left, right = _sides(claim, rule, eps, values)
    return all(_equal(a, b) for a, b in zip(left, right, strict=True))


def _equal(a, b) -> bool:
    """Whether a - b is 0 in every case of the signs in it; False where it has no value."""
    gap = sp.sympify(a - b)
    if not is_rational_function(gap):
        return False
    if identical(gap, 0):
        return True
    signs = [s for s in gap.free_symbols if str(s).startswith("sign(")]
    if not 0 < len(signs) <= CASES:
        return False
    cases = itertools.product((1, -1), repeat=len(signs))
    gaps = (gap.subs(dict(zip(signs, case, strict=True))) for case in cases)
    return all(is_rational_function(one) and identical(one, 0) for one in gaps)


def _witness(claim, rule, eps, symbols) -> str:
    """A point of exact numbers where the two sides differ, as text; '' if none was found."""
    for values in _points(symbols):
        left, right = _sides(claim, rule, eps, values)
        if all(side.is_Rational for side in map(sp.sympify, left + right)) and left != right:
            at = ", ".join(f"{x} = {value}" for x, value in zip(symbols, values, strict=True))
            return f"{at}, eps = {eps}: {_listed(left)} versus {_listed(right)}"
    return ""


def _points(symbols) -> Iterator[list]:
    """2, 3, 4, ... with R = 24 first, then small integers of either sign.

    Where exponentials occur, all logits are 0 or a shift of it, so that they are rational.
    """
    draw = random.Random(0)
    softmax = any(str(x) == "e0" for x in symbols)
    for trial in range(60):
        small = itertools.count(2)
        values = []
        for x in symbols:
            name = str(x)
            if softmax and name[0] in "zce":
                value = 0 if name[0] == "z" else 1
            elif trial == 0:
                value = 24 if name == "R" else next(small)
            else:
                value = draw.choice((1, 2, 3) if x.is_positive else (-3, -2, -1, 1, 2, 3))
            values.append(sp.Integer(value))
        yield values


def _listed(values) -> str:
    return f"({', '.join(map(str, values))})"


def _with_absorbed(finding, rule) -> Finding:
    """Names what takes the relevance that does not arrive: bias, stabiliser, or nothing known."""
    if finding.verdict == EXACT:
        return finding
    claim = CONSERVES[rule.kind]
    symbols = _symbols(claim)
    (total,), (arrived,) = _sides(claim, rule, EPS, symbols)
    lost = sp.factor(sp.cancel(arrived - total)) if is_rational_function(total) else total
    found = {}
    no_bias = [sp.Integer(0) if str(x) == "b" else x for x in symbols]
    if rule.kind == kinds.LINEAR:
        found["the bias"] = (EPS, no_bias)
    found["the stabiliser"] = (sp.Integer(0), symbols)
    if rule.kind == kinds.LINEAR:
        found["bias and stabiliser"] = (sp.Integer(0), no_bias)
    for absorber, (eps, values) in found.items():
        if _holds(claim, rule, eps, values):
            detail = f"{absorber} absorb{'' if ' and ' in absorber else 's'} {lost}"
            return Finding(claim=finding.claim, verdict=finding.verdict, detail=detail)
    detail = f"{lost} is lost; {finding.detail}"
    return Finding(claim=finding.claim, verdict=finding.verdict, detail=detail)


def text(rule: Rule, findings: list[Finding]) -> str:
    """The findings about one rule in at most 80 columns."""
    lines = [f'{rule.name}, a rule for "{rule.kind}"', f"  at {rule.place}"]
    for finding in findings:
        head = f"  [{finding.verdict}] {finding.claim}"
        lines += textwrap.wrap(head, 80, subsequent_indent=" " * 4)
        lines += textwrap.wrap(
            finding.detail, 80, initial_indent=" " * 4, subsequent_indent=" " * 4
        )
    return "\n".join(lines) + "\n"
