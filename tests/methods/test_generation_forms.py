"""A generated and explained text is saved and loaded, and shown on pages and in terminals."""

import dataclasses
import json
import operator
import re

import pytest
import torch
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By

from numeric import explain_generation
from numeric.generation.result import Generation
from numeric.spelling import printable
from tests.census.measure import conditions
from tests.support.program import printed
from tests.support.writers import ANSWER, PROMPT, model_of, tokenizer

pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture(scope="module")
def found():
    with conditions():
        return explain_generation(model_of("bart"), tokenizer(), PROMPT, answer=ANSWER)


def test_what_is_saved_is_loaded(found, tmp_path):
    assert re.fullmatch(
        r"Generation\(attnlrp: \d+ x \d+ tokens, written '.*fed a beef'\)", repr(found)
    )
    found.save(tmp_path / "found.safetensors")
    again = Generation.load(tmp_path / "found.safetensors")
    for name, x in vars(found).items():
        same = torch.equal if isinstance(x, torch.Tensor) else operator.eq
        assert same(x, vars(again)[name])


def test_a_page_needs_nothing_else_and_says_what_it_is_given(found):
    hostile = ("</script><b>&'\"", *found.tokens[1:])
    page = dataclasses.replace(found, tokens=hostile).html()
    assert "<b>" not in page
    assert not re.search(r"https?:|src=|@import|url\(", page)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1]
    maps = json.loads(data)["maps"]
    assert maps["token"]["tokens"] == list(hostile)
    assert set(maps) == {"token", "word", "sentence"}
    shown = torch.tensor(maps["token"]["relevance"])
    torch.testing.assert_close(shown, found.relevance.to(shown), rtol=1e-3, atol=1e-12)
    assert found._repr_html_().startswith("<iframe")


@pytest.mark.parametrize("unit", ["token", "word", "sentence"])
def test_a_page_opens_on_the_unit_that_is_asked_for(found, unit):
    page = found.html(unit)
    assert re.findall(r'value="(\w+)" checked', page) == [unit]
    assert f'"opened": "{unit}"' in page
    with pytest.raises(ValueError, match="unit='line': pass one of token, word, sentence"):
        found.html("line")


def test_pointing_at_what_was_written_shows_its_causes(found, browser, tmp_path):
    texts = ("<i>", *found.tokens[1:])
    found = dataclasses.replace(found, tokens=texts)
    (tmp_path / "a.html").write_text(found.html(), "utf-8")
    browser.get((tmp_path / "a.html").as_uri())
    written = browser.find_elements(By.CSS_SELECTOR, "button.token")
    assert "".join(x.get_property("textContent") for x in written) == "".join(found.written)
    ActionChains(browser).move_to_element(written[2]).perform()
    row = found.relevance[2]
    status = browser.find_element(By.ID, "sum").text.replace("−", "-")
    for number in (found.logit[2], row.sum(), found.residual[2]):
        assert f"{number:+.3f}" in status
    against = browser.find_elements(By.CSS_SELECTOR, ".against")
    assert len(against) == (row < -0.05 * row.abs().max()).sum()
    first = browser.find_element(By.CSS_SELECTOR, "#causes tr:nth-child(2)").text.replace("−", "-")
    assert first.startswith(f"{row[row.abs().argmax()]:+.3f} ")
    written[1].click()
    ActionChains(browser).move_to_element(browser.find_element(By.TAG_NAME, "h1")).perform()
    assert f"{found.logit[1]:+.3f}" in browser.find_element(By.ID, "sum").text.replace("−", "-")
    browser.find_element(By.CSS_SELECTOR, "[value=word]").click()
    words = browser.find_elements(By.CSS_SELECTOR, "button.token")
    assert len(words) == len(found.by("word").written)
    browser.set_window_size(420, 800)
    width = browser.execute_script("return document.documentElement.scrollWidth")
    assert width <= browser.execute_script("return window.innerWidth")
    assert not [x for x in browser.get_log("browser") if x["level"] == "SEVERE"]


def test_a_file_without_a_token_before_those_written_is_refused(tmp_path):
    one, path = torch.ones(1), tmp_path / "one.safetensors"
    Generation(one[None], one, one, ("a",), 0, "Model", "loo").save(path)
    with pytest.raises(ValueError, match=r"all 1 tokens are written.*save it again"):
        Generation.load(path)


WRITTEN = ("[/INST]", "[unused1]", "[red]x", "[/]", "\x1b[31mred", "\u202eabc")


@pytest.mark.parametrize("odd", WRITTEN)
def test_no_word_is_read_as_markup_or_obeyed(found, odd):
    tokens = tuple(odd for _ in found.tokens)
    again = dataclasses.replace(found, tokens=tokens, method=odd, model=odd)
    said = printed(again.terminal(800), 800)
    assert said.count(printable(odd)[:4]) >= len(tokens) + len(again.written)
    assert printable(said) == said
    assert printable(repr(again)) == repr(again)


def test_a_heat_map_fits_the_terminal_and_a_picture_is_made(found):
    lines = printed(found.terminal(60), 60).splitlines()
    assert max(map(len, lines)) <= 60
    assert sum(line.startswith("sum") for line in lines) >= 1
    assert found.png().startswith(b"\x89PNG")


def test_a_title_of_a_text_without_spaces_has_its_beginning(found):
    before = found.tokens[: -len(found.written)]
    long = dataclasses.replace(found, tokens=(*before, *("語" * 20 for _ in found.written)))
    assert "語" * 40 in repr(long)
    assert "語" * 40 in long.html().split("<title>")[1].split("</title>")[0]
