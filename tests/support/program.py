"""Shared by tests of the command line: proofs to run, and readers of written files."""

import io
import json
import unicodedata
from html.parser import HTMLParser

from rich.console import Console

HEAD = """
import pytest
from sympy import Symbol
from axioms.decide.identity import differ_at, identical
from axioms.rules.products import equal_split

R = Symbol("R")
"""
HOLDS = """
@pytest.mark.theorem(2, "One is one.", "proved")
def test_one():
    assert identical(sum(equal_split(2, R)), R)
"""
REFUTES = """
@pytest.mark.theorem(1, "One [b]is[/b] two.", "refuted")
def test_two(record_property):
    assert differ_at(equal_split(2, R)[0], R, {R: 2})
    record_property("witness", "1 and 2")
"""
FAILS = """
@pytest.mark.theorem(3, "Two is three.", "proved")
def test_three():
    assert 2 == 3
"""


def obeyed(text):
    """The characters of a text that a terminal obeys instead of printing them."""
    obeyed = lambda x: unicodedata.category(x) in ("Cc", "Cf", "Zl", "Zp")
    return "".join(x for x in text if obeyed(x) and x not in "\n\t\u200c\u200d")


def printed(parts, width):
    """The text of parts that are printed on a terminal of this width, without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(*parts, sep="\n")
    return console.file.getvalue()


class Page(HTMLParser):
    """The links, headings and text of a page, which is given as HTML or as its file."""

    def __init__(self, page):
        super().__init__()
        self.loads, self.ids, self.tags, self.words = [], set(), [], ""
        self.feed(page if isinstance(page, str) else page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.ids.add(attrs.get("id"))
        self.loads += [
            attrs[key] for key in ("src", "href", "srcset", "data", "action") if attrs.get(key)
        ]

    def handle_data(self, data):
        self.words += data


def strict_json(path):
    def refuse(literal):
        raise ValueError(f"{path.name} has {literal}")

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
