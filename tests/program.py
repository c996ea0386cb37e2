"""What tests of the command line share: proofs to run, and readers of what is written."""

import json
import re
from html.parser import HTMLParser

HEAD = "import pytest\n\n"
HOLDS = '@pytest.mark.theorem(2, "One is one.", "proved")\ndef test_one():\n    assert 1 == 1\n'
REFUTES = (
    '@pytest.mark.theorem(1, "One [b]is[/b] two.", "refuted")\n'
    "def test_two(record_property):\n"
    '    record_property("witness", "1 and 2")\n'
)
FAILS = '@pytest.mark.theorem(3, "Two is three.", "proved")\ndef test_three():\n    assert 2 == 3\n'

PRINTED = re.compile(r"[\n -~\xa0-\u200d\u2010-\u2029\u202f-\u2065\u206a-\U0010ffff]")


def obeyed(text):
    """The characters of a text that a terminal obeys instead of printing them."""
    return PRINTED.sub("", text)


class Page(HTMLParser):
    """What a page loads, its headings, and its text."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.ids, self.tags, self.words = [], set(), [], ""
        self.feed(path.read_text(encoding="utf-8"))

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
