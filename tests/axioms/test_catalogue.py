"""The catalogue of theorems has every statement once, by theme, and is the page in docs."""

import re
from dataclasses import replace

import pytest

from axioms.pages.meanings import MEANINGS
from axioms.pages.theorems import PAGE, THEMES, marked, page, sections
from tests.support.theorems import stated


@pytest.fixture(scope="module")
def verdicts():
    return stated()


def test_the_page_is_what_the_command_writes(verdicts):
    """``python -m axioms.pages.theorems`` writes it again."""
    assert PAGE.read_text("utf-8") == page(verdicts)


def test_every_theorem_has_one_theme_and_no_theme_is_empty(verdicts):
    found = sections(verdicts)
    assert [*found] == [*THEMES]
    numbers = [number for section in found.values() for number in section.theorems]
    assert sorted(numbers) == sorted(MEANINGS)
    assert not [name for name, one in found.items() if set(one.see_also) & set(one.theorems)]


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("Products", {1, 2, 3, 7}),
        ("Softmax and attention", {10, 18, 19, 20}),
        ("Norms", {13, 23}),
        ("Conservation", {24, 25}),
        ("Mask relevance", {54, 55}),
        ("Implementation invariance", {17, 42, 44}),
        ("Characterisation", {60, 63}),
    ],
)
def test_a_theme_has_the_theorems_that_a_reader_expects_there(verdicts, name, numbers):
    assert numbers <= set(sections(verdicts)[name].theorems)


def test_a_new_theorem_is_taken_up_under_what_it_says(verdicts, monkeypatch):
    monkeypatch.setitem(MEANINGS, 999, "A rotation of positions by angles of any size.")
    new = replace(verdicts[0], number=999, label="999", statement="Rotary positions turn.")
    shown = page([*verdicts, new])
    section = shown.partition("## Position\n")[2].partition("\n## ")[0]
    assert "### Theorem 999" in section
    assert "- **999** refuted: Rotary positions turn." in section
    assert "`lrp-axioms prove --show 999`" in section


def test_what_is_not_established_is_not_listed(verdicts):
    failed = [replace(one, verdict="not established") for one in verdicts[:2]]
    with pytest.raises(ValueError, match="not established: 1a, 1b;"):
        page([*failed, *verdicts[2:]])


def test_links_lead_to_headings_and_formulas_are_not_markdown(verdicts):
    shown = page(verdicts)
    headings = re.findall(r"^#+ (.+)$", shown, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-") for one in headings}
    assert set(re.findall(r"\(#([^)]+)\)", shown)) <= anchors
    assert marked("|x_1| < [y]*, _ <b>") == r"|x_1| < \[y]\*, \_ \<b>"
