"""Pictures have the signs that their legends name."""

import pytest

from numeric.results import pictures, render

TOKENS = ["not", "a", "bad", "film"]
RELEVANCE = [2.0, -0.05, -1.0, -0.3]  # -0.05 is below 5 % of the largest


@pytest.fixture
def drawn(monkeypatch):
    """Lists every line and text that is drawn."""
    found = []
    for name in ("line", "write"):
        own = getattr(pictures._Page, name)
        spied = lambda *given, own=own, **style: found.append(given[1:]) or own(*given, **style)
        monkeypatch.setattr(pictures._Page, name, spied)
    return found


@pytest.mark.parametrize("kind", ["texts", "arcs"])
def test_words_against_the_target_are_underlined_as_the_legend_says(drawn, kind):
    found = render.Section(TOKENS, RELEVANCE, "why?", "", render.legend("class"))
    if kind == "texts":
        pictures.texts([found], made="")
    else:
        pictures.arcs(found, [(0, 2, 1.0)], legend="", said="", made="")
    assert any("Underlines begin at 5 %" in str(x[0]) for x in drawn)
    assert len([x for x in drawn if len(x) == 2 and isinstance(x[0], tuple)]) == 2


def test_a_picture_of_layers_says_that_it_has_dots(run, tmp_path, drawn):
    png = tmp_path / "layers.png"
    assert run("explain", "embedded", "a dull film", "--layers", "--png", png)[0] == 0
    said = " ".join(str(x[0]) for x in drawn)
    assert "blue, with a dot, against it. Dots begin at 5 %" in said
    assert "nderline" not in said
