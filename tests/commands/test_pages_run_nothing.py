"""Pages run only their own scripts, even if a text with a script is not escaped."""

import re

import pytest

from benchmarks.experiments import report, theorems
from benchmarks.sources import models
from numeric import explain, explain_generation
from numeric.auditing.audit import audit
from numeric.auditing.data import Subject, plain
from numeric.auditing.page import page
from tests.support import program

META = re.compile(r"<meta http-equiv[^>]*>")
EVIL = """
<script>document.title = "gone"</script><svg onload="document.title = 'gone'"></svg>
<img src="http://localhost:9/x.png" onerror="document.title = 'gone'">
<style>h1 { visibility: hidden }</style><base href="http://localhost:9/">
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory, loaded, lm):
    few = tmp_path_factory.mktemp("theorems")
    (few / "test_few.py").write_text(program.HEAD + program.HOLDS)
    inputs = loaded.tokenizer(["a film"], return_tensors="pt")
    facts = plain(
        audit(models.load(attention="eager").model, inputs),
        Subject(model="m", input="a film", tokens=("a",) * 4, label="good"),
    )
    return {
        "audit": page(facts),
        "explain": explain(loaded.model, loaded.tokenizer, "a film").html(),
        "generate": explain_generation(
            lm.model, lm.tokenizer, "anna apple bert pen ; anna", max_new_tokens=2
        ).html(),
        "report": report.render([report._section(theorems.theorems(folder=few))]),
    }


@pytest.mark.parametrize("name", ["audit", "explain", "generate", "report"])
def test_what_is_injected_does_not_run(browser, pages, tmp_path, name):
    text = pages[name]
    evil = text.replace("</h1>", f"</h1>{EVIL}", 1)
    assert evil != text
    titles = []
    for n, written in enumerate((text, evil, META.sub("", evil))):
        (tmp_path / f"{n}.html").write_text(written, "utf-8")
        browser.get_log("browser")
        browser.get((tmp_path / f"{n}.html").as_uri())
        if n < 2:
            head = browser.find_element("css selector", "h1")
            assert head.value_of_css_property("visibility") == "visible"
            assert head.value_of_css_property("font-family").startswith("system-ui")
        if not n:
            assert browser.get_log("browser") == []
        titles.append(browser.title)
    assert titles == [titles[0], titles[0], "gone"]  # the last page has no policy
