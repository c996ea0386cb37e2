"""Prints rules and answers of the search in words."""

import sympy as sp

from lrp_axioms.axioms.kinds import ADD, PRODUCT
from lrp_axioms.axioms.search.confirm import Rule
from lrp_axioms.axioms.search.solve import ALL, MORE, UNDECIDED, Found
from lrp_axioms.axioms.search.templates import Template

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
    """Pairs of shares, each with the signs of x and y where it holds."""
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


def family(found: Found) -> str:
    """A family of rules in one line."""
    return f"x gets a*R, y gets b*R, for any numbers a and b with {' and '.join(numbers(found))}"


def answer(found: Found, seconds: float) -> str:
    """The decision of z3 in a sentence; ``seconds`` is the time that it had."""
    count, obeys = len(found.rules), "rule of the template obeys the axioms"
    if found.numbers:
        return f"The rules: {family(found)}. z3 proves that no other {obeys}."
    if found.ends == UNDECIDED:
        rules = "more rules" if count else "rules"
        return (
            f"Undecided after {seconds:g} s: the template may have {rules} that obey the axioms. "
            "Pass a larger --limit."
        )
    if found.ends == MORE:
        return "z3 found these rules first; the template has more that obey the axioms."
    if count == 0:
        return f"z3 proves that no {obeys}, even at positive inputs alone."
    return f"z3 proves that no {f'{obeys} but these {count}' if count > 1 else f'other {obeys}'}."


def scope(template: Template) -> str:
    """The template and the inputs that the answer is about."""
    return (
        f"Template: {OPERATIONS[template.operation]} has relevance R, x gets R*P1/Q and y gets "
        f"R*P2/Q. P1, P2 and Q are homogeneous polynomials of degree {template.degree} in x, y, "
        "|x| and |y|, with real coefficients. For each sign of x and y, Q is a polynomial other "
        "than 0; where Q has the value 0, x and y get no shares. Axioms must hold at almost all "
        "real inputs that they speak of: conservation speaks of factors of all signs, and symmetry "
        "of two or three equal factors. Rules of other forms are not decided."
    )


def in_table(found: Found) -> str:
    """The answer as a cell of a table in Markdown."""
    rules = ["; ".join(lines(rule)) for rule in found.rules] or ["none"]
    if found.numbers:
        rules = [family(found)]
    elif found.ends != ALL:
        rules.append(found.ends)
    return "<br>".join(rules).replace("*", "\\*")
