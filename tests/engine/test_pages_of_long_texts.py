"""Pages of long texts stay short, and say where each token stands."""

import re

import pytest
import torch

from numeric.results import render
from numeric.results.result import Attribution


def of_words(count, texts=1):
    """Random relevance of texts of words that repeat."""
    drawn = torch.randn(texts, count, generator=torch.Generator().manual_seed(0))
    relevance = drawn**3
    logit = relevance.sum(dim=1)
    tokens = (tuple(f"word{n % 9}" for n in range(count)),) * texts
    zero = torch.zeros(texts)
    target = torch.zeros(texts, dtype=torch.int64)
    return Attribution(relevance, target, logit, zero, "attnlrp", {}, {}, tokens=tokens)


@pytest.mark.parametrize(("count", "texts"), [(450, 2), (900, 1), (450, 9), (8, 60), (5000, 1)])
def test_reviews_are_shorter_than_six_thousand_pixels(browser, count, texts, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(of_words(count, texts).html(), "utf-8")
    browser.set_window_size(1200, 900)
    browser.get(path.as_uri())
    assert browser.execute_script("return document.documentElement.scrollHeight") < 6_000
    folds = browser.find_elements("css selector", "summary")
    assert sum(x.text.endswith("more maps") for x in folds) == (texts > 2)
    for fold in reversed(folds):  # the last ones lie in others
        browser.execute_script("arguments[0].click()", fold)
    height = browser.execute_script("return document.documentElement.scrollHeight")
    assert height > 20 * count  # every token has a line
    assert len(browser.find_elements("css selector", "h2")) == (texts > 1) * texts
    browser.set_window_size(420, 900)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 420


def test_the_table_is_sorted_and_has_positions():
    found = of_words(30)
    lines = re.findall(
        r'<tr><td class="number">(\d+)</td><td>(word\d)</td>\s*<td class="number">([^<]+)</td>',
        found.html(),
    )
    values = [float(value) for *_, value in lines]
    assert len(lines) == 30
    assert [abs(x) for x in values] == sorted(map(abs, values), reverse=True)
    for position, token, value in lines:
        assert token == found.tokens[0][int(position)]
        assert value == f"{found.relevance[0, int(position)]:+z.4f}"


def test_tokens_with_little_against_are_not_underlined():
    assert render.underlined([-1.0, 2.0, -0.09, -0.11, 0.0]) == [True, False, False, True, False]
    assert render.underlined([]) == []
    assert render.underlined([0.0, -0.0]) == [False, False]
    values = of_words(900).relevance[0]
    page = of_words(900).html()
    few = (values < -0.05 * values.abs().max()).sum()
    assert page.count('class="token against"') == few < (values < 0).sum() / 2
    assert "Underlines begin at 5 % of the largest." in page
