"""The site of the documentation builds without a warning, is whole, and needs no network."""

import os
import re
import subprocess
import sys
from inspect import cleandoc, isclass, isfunction, signature
from pathlib import Path
from types import SimpleNamespace

import pytest
from selenium.webdriver.common.by import By

import lrp_axioms
from benchmarks.experiments import figure2
from tests.support.theorems import FILES, claims
from website.pictures import COLUMNS, heat_map
from website.reference import listed, meaning

ROOT = Path(__file__).parents[2]
LOADED = r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href|srcset)=\"?(https?:|//)[^>]*>"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr  # with --quiet no warning would be counted
    return folder


def read(path):
    return path.read_text("utf-8")


def test_the_site_loads_nothing_from_the_network(site):
    assert re.search(LOADED, '<script src="https://example.org/a.js">')
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    assert not [(page.name, x[0]) for page in pages for x in re.finditer(LOADED, read(page))]
    sheets = {path.name: read(path) for path in site.rglob("*.css")}
    assert not [name for name, text in sheets.items() if re.search(r"url\(['\"]?https?:", text)]


def test_the_catalogue_has_every_statement_with_its_verdict_and_formulas(site):
    page = read(site / "THEOREMS.html")
    stated = [claim for path in FILES for claim in claims(path)]
    for verdict in ("proved", "refuted"):
        count = sum(claim.verdict == verdict for claim in stated)
        assert page.count(f'class="statement {verdict}"') == count
    assert page.count('class="statement') == len(stated)
    assert page.count('<div class="formula"><math') > 50
    assert r"\varepsilon" not in page


@pytest.mark.parametrize("page", ["THEOREMS", "MODELS"])
def test_a_long_page_shows_its_sections_first_and_opens_what_an_address_names(site, browser, page):
    address = (site / f"{page}.html").as_uri()
    browser.get(address)
    height = "return document.documentElement.scrollHeight"
    assert browser.execute_script(height) < 6000
    if page == "THEOREMS":
        browser.get("about:blank")
        browser.get(f"{address}#theorem-25")
        assert browser.find_element(By.ID, "theorem-25").is_displayed()
        assert not browser.find_element(By.ID, "theorem-10").is_displayed()
        browser.find_element(By.ID, "find").send_keys("semisum")
        assert browser.find_element(By.ID, "count").text == "0 found"
        browser.find_element(By.ID, "find").clear()
        browser.find_element(By.ID, "find").send_keys("softmax")
        count = int(browser.find_element(By.ID, "count").text.removesuffix(" found"))
        shown = browser.find_elements(By.CSS_SELECTOR, ".statement:not([hidden])")
        assert len([x for x in shown if x.is_displayed()]) == count > 10
        assert all("softmax" in x.text.lower() for x in shown)


def test_every_public_name_is_in_the_reference(site):
    page = read(site / "reference" / "numeric.html")
    missing = [
        name
        for name, home in lrp_axioms.HOME.items()
        if f'id="lrp_axioms.{home}.{name}"' not in page
    ]
    assert not missing


def test_every_parameter_of_a_public_function_has_a_meaning():
    for name in lrp_axioms.HOME:
        found = getattr(lrp_axioms, name)
        own = {f"{name}.{k}": x for k, x in vars(found).items()} if isclass(found) else {}
        for path, function in ({name: found} | own).items():
            if isfunction(function) and not path.rpartition(".")[2].startswith("_"):
                text = cleandoc(function.__doc__ or "")
                names = signature(function).parameters
                assert [x for x in names if x != "self" and not meaning(x, text)] == [], path


def test_the_meaning_of_a_parameter_is_its_field_or_its_first_sentence():
    text = "One.\n\n``a`` is first; it is big.  ``b`` is ``a``.\n\nc, d: fields\n    of two lines"
    assert meaning("a", text) == "`a` is first; it is big."
    assert meaning("b", text) == "`b` is `a`."
    assert meaning("d", text) == "fields of two lines"
    assert meaning("model", text).startswith("The model")
    assert meaning("e", text) == ""


def test_the_notebooks_are_shown_with_their_pictures(site):
    for path in sorted((ROOT / "paper_notebooks").glob("*.ipynb")):
        page = read(site / "notebooks" / f"{path.stem}.html")
        pictures = re.findall(r'<img[^>]*src="([^"]+\.png)"', page)
        assert len(pictures) == read(path).count('"image/png": ')
        assert all((site / "notebooks" / picture).is_file() for picture in pictures)


def test_fields_of_a_docstring_become_a_list_and_prose_does_not():
    assert listed("One.\n\na: first\n    or so\nb, c: both") == (
        "One.\n\n- `a`: first\n    or so\n- `b, c`: both"
    )
    assert (
        listed("One thing is: another.\nRaises E: if") == "One thing is: another.\n\nRaises E: if"
    )


@pytest.fixture(scope="module")
def axes():
    return heat_map().axes


def test_the_heat_map_of_the_readme_has_a_number_for_every_token_and_method(axes):
    logits, shares = axes
    tokens = [label.get_text() for label in logits.get_yticklabels()]
    assert tokens == ["[CLS]", "not", "a", "bad", "film", "[SEP]"]
    numbers = [float(cell.get_text()) for axes in (logits, shares) for cell in axes.texts]
    assert len(numbers) == len(COLUMNS) * len(tokens)
    rollout = numbers[-len(tokens) :]
    assert sum(rollout) == pytest.approx(1, abs=0.005 * len(tokens))


def test_a_larger_logit_of_the_heat_map_has_a_stronger_colour_in_any_column(axes):
    logits, _ = axes
    strength = 255 - logits.images[0].get_array().min(axis=2).T.ravel().astype(int)
    numbers = [abs(float(cell.get_text())) for cell in logits.texts]
    pairs = sorted(zip(numbers, strength.tolist(), strict=True))
    assert [ink for _, ink in pairs] == sorted(ink for _, ink in pairs)


def test_panels_of_figure_2_that_are_compared_have_one_scale():
    row = {"layer": 1, "Δ": 9.0}
    for start, key in enumerate(key for key in figure2.PANELS if key != "Δ"):
        row |= {f"{rule}{key}": start / 4 for rule in figure2.CURVES}
    rows = [row | {"order": order, "layer": n} for order in figure2.MARKERS for n in (1, 2)]
    *panels, delta = figure2.figure(SimpleNamespace(rows=rows)).axes
    assert len({axes.get_ylim() for axes in panels}) == 1
    assert delta.get_ylim() != panels[0].get_ylim()
