"""Rules and answers of the search as a person reads them."""

import sympy as sp

from axioms.kinds import ADD, PRODUCT
from axioms.search.confirm import Rule
from axioms.search.solve import ALL, MORE, UNDECIDED, Found
from axioms.search.templates import Template

OPERATIONS = {PRODUCT: "x·y", ADD: "x + y"}
NAMED = {
    ("1", "0"): "the first takes all",
    ("0", "1"): "the last takes all",
    ("1/2", "1/2"): "equal shares",
    ("1", "1"): "both get all",
    ("0", "0"): "nothing is passed on",
    ("x/(x + y)", "y/(x + y)"): "as Eq. 1 shares a sum",
}


def by_shares(rule: Rule) -> dict[tuple[sp.Expr, sp.Expr], list[str]]:
    """The signs of x and y where each pair of shares holds."""
    found: dict[tuple[sp.Expr, sp.Expr], list[str]] = {}
    for (x, y), shares in rule.items():
        where = f"x {'>' if x > 0 else '<'} 0, y {'>' if y > 0 else '<'} 0"
        found.setdefault(shares, []).append(where)
    return found


def lines(rule: Rule) -> list[str]:
    """One line for each pair of shares."""
    parts, relevance, said = by_shares(rule), sp.Symbol("R"), []
    for (x, y), signs in parts.items():
        name = NAMED.get((str(x), str(y)), "")
        after = f" where {' or '.join(signs)}" if len(parts) > 1 else f": {name}" * bool(name)
        said.append(f"x gets {relevance * x}, y gets {relevance * y}{after}")
    return said


def numbers(found: Found) -> list[str]:
    """The conditions on the numbers a and b of a family of rules."""
    return [f"{rest} = {-number}" for number, rest in (x.as_coeff_Add() for x in found.numbers)]


def answer(found: Found, seconds: float) -> str:
    """The decision of z3 in a sentence; how many seconds it had is said where there is none."""
    count = len(found.rules)
    if found.numbers:
        return (
            "The rules of the template: x gets a*R, y gets b*R, for any numbers with "
            f"{' and '.join(numbers(found))}. z3 proves that there is no other rule."
        )
    if found.ends == UNDECIDED:
        more = "more rules" if count else "any rules"
        return (
            f"undecided within {seconds:g} seconds: whether there are {more}; --limit gives z3 "
            "more time"
        )
    if found.ends == MORE:
        return "There are more rules; these are the first that z3 finds."
    if count == 0:
        return "No rule of the template obeys them, even at positive inputs alone: z3 proves it."
    which = "this rule" if count == 1 else f"these {count} rules"
    return f"z3 proves that no rule of the template obeys them but {which}."


def scope(template: Template) -> str:
    """All that the answer is about."""
    return (
        f"Template: of the relevance R of {OPERATIONS[template.operation]}, x gets R*P1/Q and y "
        f"gets R*P2/Q. P1, P2 and Q are homogeneous polynomials of degree {template.degree} in x, "
        "y, |x| and |y|. In no quadrant is Q the polynomial 0, and where Q is 0 a rule has no "
        "shares. Axioms are asked at almost all real inputs that they speak of. Nothing is decided "
        "of rules of any other form."
    )


def in_table(found: Found) -> str:
    """The answer in a cell of a table."""
    rules = ["; ".join(lines(rule)) for rule in found.rules] or ["none"]
    if found.numbers:
        rules = [f"x gets a*R, y gets b*R, for any numbers with {' and '.join(numbers(found))}"]
    elif found.ends != ALL:
        rules.append(found.ends)
    return "<br>".join(rules).replace("*", "\\*")
