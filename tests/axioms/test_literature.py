"""The claims of sources about their rules are compared with verdicts; the page is up to date."""

import re
from dataclasses import replace
from functools import cache

import pytest

from axioms.own_rules.files import load
from axioms.verdict import IN_LIMIT, PROVED, REFUTED, UNDECIDED
from website import literature
from website.literature import CONFIRMED, OTHERWISE, PAGE, RULES, filled

published = cache(literature.published)


def test_the_page_shows_what_is_computed():
    page = PAGE.read_text("utf-8")
    said = "run `python -m website.literature`, which writes it"
    assert filled(page, published()) == page, said
    assert page.count("\n## ") == 4
    with pytest.raises(ValueError, match="no line between"):
        filled("<!-- table -->\n<!-- /table -->", published())  # the text behind it would be lost


def test_every_rule_has_a_source_and_a_published_property():
    rules = {rule.name: rule for rule in load(RULES)}
    assert {row.rule.name for row in published()} == set(rules)
    assert [x for x in rules if not re.search(r"\b(19|20)\d\d\b", rules[x].function.__doc__)] == []


def test_what_is_found_otherwise_is_what_the_page_explains():
    found = {row.rule.name: row for row in published() if row.compared != CONFIRMED}
    assert set(found) == {"alpha_2_beta_1", "alpha_1_beta_0", "z_plus"}
    assert {row.compared for row in found.values()} == {OTHERWISE}
    assert found["alpha_2_beta_1"].witness == "eps -> 0, x = 1, w = 1, b = 0, R = 1: 2 versus 1"
    assert found["alpha_1_beta_0"].witness == "eps -> 0, x = -1, w = 1, b = 0, R = 1: 0 versus 1"
    assert "R = 1: 0 versus 1" in found["z_plus"].found.witness


@pytest.mark.parametrize(("said", "status", "reason", "compared"), [
    (PROVED, PROVED, "", CONFIRMED),
    (PROVED, IN_LIMIT, "but not at eps = 1/4", OTHERWISE),
    (PROVED, REFUTED, "x = 1", OTHERWISE),
    (REFUTED, PROVED, "", OTHERWISE),
    (REFUTED, UNDECIDED, "no witness", UNDECIDED),
    ("the bias absorbs", REFUTED, "the bias absorbs R*b", CONFIRMED),
    ("the bias absorbs", REFUTED, "bias and stabiliser absorb R*b", OTHERWISE),
    ("the bias absorbs", REFUTED, "R*b is lost; x = 1", OTHERWISE),
])  # fmt: skip
def test_a_published_property_is_confirmed_only_by_the_same(said, status, reason, compared):
    row = published()[0]
    found = replace(row.found, status=status, reason=reason)
    assert replace(row, said=said, found=found).compared == compared
