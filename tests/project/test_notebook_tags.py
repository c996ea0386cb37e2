"""No text of a kept notebook begins an HTML tag, such as <s>, which would strike out the rest."""

import re
from pathlib import Path

import nbformat
import pytest

from paper_notebooks import build
from paper_notebooks.output import without_tags

KEPT = Path(__file__).resolve().parents[2] / "paper_notebooks"


@pytest.mark.parametrize("name", build.names())
def test_no_text_of_a_notebook_begins_a_tag(name):
    cells = nbformat.read(KEPT / f"{name}.ipynb", 4).cells
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    texts += [
        output.data["text/markdown"]
        for cell in cells
        for output in cell.get("outputs", ())
        if "text/markdown" in output.get("data", ())
    ]
    assert texts
    assert not [
        x
        for text in texts
        for x in re.findall(r"`[^`]*`|\$[^$]*\$|(?<!\\)(</?[a-zA-Z][\w-]*(?=[\s/>]))", text)
        if x
    ]


def test_a_tag_is_escaped_outside_of_code():
    assert without_tags("of <s> and `<s>`, 1 < 2") == r"of \<s> and `<s>`, 1 < 2"
