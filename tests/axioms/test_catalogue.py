"""The catalogue of theorems has every statement once, by theme, and is the page in docs."""

import re
from dataclasses import replace

import pytest

from axioms.evidence import statements
from tests.support.theorems import FILES, stated
from website.catalogue import PAGE, THEMES, marked, page, sections

VERDICTS = stated()


def test_the_page_is_what_the_command_writes():
    """``python -m website.catalogue`` writes it again."""
    assert PAGE.read_text("utf-8") == page(VERDICTS)


def test_every_theorem_has_one_theme_and_no_theme_is_empty():
    found = sections(VERDICTS)
    assert [*found] == [*THEMES]
    numbers = [number for section in found.values() for number in section.theorems]
    assert sorted(numbers) == sorted(statements.table("MEANINGS"))
    assert not [name for name, one in found.items() if set(one.see_also) & set(one.theorems)]


NEW = """
THEMES = {999: ["Position", "Norms"]}
MEANINGS = {999: "A rotation."}
@pytest.mark.theorem(999, "Rotary positions turn.", "refuted")
def test_turns(): ...
"""


def test_a_new_theorem_is_one_file(monkeypatch, tmp_path):
    path = tmp_path / "test_new.py"
    path.write_text(NEW, "utf-8")
    monkeypatch.setattr(statements, "files", lambda: [*FILES, path])
    (claim,) = statements.claims(path)
    new = replace(VERDICTS[0], label="999", number=claim.number, statement=claim.statement)
    norms, section = (
        page([*VERDICTS, new]).partition(f"## {name}\n")[2].partition("\n## ")[0]
        for name in ("Norms", "Position")
    )
    assert "[999](#theorem-999) of other sections." in norms
    assert "### Theorem 999\n\nA rotation.\n\n- **999** refuted: Rotary positions turn." in section
    assert "`lrp-axioms prove --show 999`" in section


@pytest.mark.parametrize(("old", "new", "said"), [
    ('999: ["Position", "Norms"]', "", "theorem 999 has the theme ''; .* Position, "),
    ("Norms", "norms", "theorem 999 has the theme 'norms'; .* Position, "),
    ("999", "1", r"test_new\.py: THEMES of theorem 1 is in two files"),
])  # fmt: skip
def test_a_file_with_no_theme_or_another_one_is_refused(old, new, said, monkeypatch, tmp_path):
    path = tmp_path / "test_new.py"
    path.write_text(NEW.replace(old, new), "utf-8")
    monkeypatch.setattr(statements, "files", lambda: [*FILES, path])
    with pytest.raises(ValueError, match=said):
        page([*VERDICTS, replace(VERDICTS[0], number=999)])


def test_what_is_not_established_is_not_listed():
    failed = [replace(one, verdict="not established") for one in VERDICTS[:2]]
    with pytest.raises(ValueError, match="not established: 1a, 1b;"):
        page([*failed, *VERDICTS[2:]])


def test_links_lead_to_headings_and_formulas_are_not_markdown():
    shown = page(VERDICTS)
    headings = re.findall(r"^#+ (.+)$", shown, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-") for one in headings}
    assert set(re.findall(r"\(#([^)]+)\)", shown)) <= anchors
    assert marked("|x_1| < [y]*, _ <b>") == r"|x_1| < \[y]\*, \_ \<b>"
