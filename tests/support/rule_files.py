"""Files with a user's own rules, as the tests write them."""

from axioms.own_rules.files import load
from axioms.own_rules.properties import CONSERVES
from axioms.own_rules.verdicts import decisions

HEAD = (  # one line
    "from axioms.own_rules import rule; from random import randint; "
    "import sympy; from sympy import Max, Piecewise, Symbol; "
    "alpha, count = Symbol('alpha'), iter(range(1, 10**6))\n"
)
PRODUCT = '@rule("product")\ndef mine(x, y, z, R, eps):\n    return '
ENDLESS = "sum(iter(int, 1))"  # a loop in C, which no signal interrupts


def written(folder, source, *, name="rules_of_mine.py"):
    path = folder / name
    path.write_text(source)
    return path


def conservation(path):
    """The verdict on conservation of every rule in a file, by the rule's name."""
    return {own.name: decisions(own)[CONSERVES]() for own in load(path)}
