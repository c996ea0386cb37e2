"""The auditor's page in a browser: a reader opens, reads and filters it."""

import re
import shutil
from collections import Counter

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

from numeric.auditing.audit import audit
from numeric.auditing.data import Subject, plain
from numeric.auditing.page import page
from numeric.auditing.rounding import signed
from tests.support.audits import eager
from tests.support.browser import chromium, requests

CSS = By.CSS_SELECTOR
TOKENS = ("[CLS]", "<script>document.title = 'gone'</script>", "&", '"quotes"', "</p>", "[SEP]")


@pytest.mark.parametrize(
    ("variable", "value", "outcome"),
    [
        ("LRP_AXIOMS_BROWSER", "required", pytest.fail.Exception),
        ("CI", "true", pytest.fail.Exception),
        ("LRP_AXIOMS_BROWSER", "", pytest.skip.Exception),
    ],
)
def test_a_missing_browser_fails_by_name_where_it_is_required(
    monkeypatch, variable, value, outcome
):
    for name in ("CI", "LRP_AXIOMS_BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(outcome, match="chromium and chromedriver not installed"), chromium():
        raise AssertionError("there is no browser to use")


@pytest.fixture(scope="module")
def found():
    return audit(*eager())


@pytest.fixture(scope="module")
def address(found, tmp_path_factory):
    subject = Subject(model="tiny", input=" ".join(TOKENS), tokens=TOKENS, label="a <b>class</b>")
    path = tmp_path_factory.mktemp("page") / "audit.html"
    path.write_text(page(plain(found, subject)), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def opened(browser, address):
    """The page, fresh; the logs of pages before it are dropped."""
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(address)
    return browser


def visible(browser, selector):
    return [x for x in browser.find_elements(CSS, selector) if x.is_displayed()]


def test_the_page_asks_for_nothing_but_itself_and_logs_no_error(opened, address):
    assert requests(opened) == [address]
    assert opened.get_log("browser") == []
    assert opened.title.startswith("Audit of tiny")


def test_a_page_that_loads_something_or_fails_would_be_noticed(browser, tmp_path):
    wrong = tmp_path / "wrong.html"
    wrong.write_text("<img src='http://localhost:9/x.png'><script>nothing()</script>")
    browser.get_log("performance")
    browser.get(wrong.as_uri())
    assert "http://localhost:9/x.png" in requests(browser)
    assert any("nothing is not defined" in entry["message"] for entry in browser.get_log("browser"))


def test_tokens_are_shown_as_they_are(opened):
    shown = [x.text for x in opened.find_elements(CSS, "#tokens .token")]
    assert tuple(shown) == TOKENS
    assert "a <b>class</b>" in opened.find_element(CSS, "h1").text


def test_a_layer_opens_on_click_and_its_numbers_are_those_of_the_audit(opened, found):
    assert visible(opened, "tr.operation") == []
    stage = opened.find_element(CSS, '.stage[data-stage="layer 1"]')
    stage.find_element(CSS, "summary").click()
    rows = stage.find_elements(CSS, "tr.operation")
    lines = [x for x in found.ledger.lines if x.node.attributes["depth"] == 1]
    assert len(rows) == len(lines) > 10
    for row, line in zip(rows, lines, strict=True):
        assert row.find_element(CSS, ".arrived").text == signed(line.arrived)
        absorbed = sum(line.absorbed.values()) + line.numerical
        assert row.find_element(CSS, ".passed").text == signed(line.arrived - absorbed)
        assert line.node.origin.module in row.text
    softmax = next(n for n, line in enumerate(lines) if line.kind == "softmax")
    cell = rows[softmax].find_element(CSS, '[data-cause="Taylor term"]').text
    assert float(cell) == pytest.approx(lines[softmax].absorbed["Taylor term"], abs=1e-4)


def test_every_refuted_verdict_opens_its_witness(opened, found):
    refuted = [verdict for verdict in found.verdicts if verdict.verdict == "refuted"]
    shown = opened.find_elements(CSS, '.verdict[data-verdict="refuted"]')
    assert len(shown) == len(refuted) > 1
    for details, verdict in zip(shown, refuted, strict=True):
        witness = details.find_element(CSS, ".witness")
        assert not witness.is_displayed()
        details.find_element(CSS, "summary").click()
        assert witness.is_displayed()
        assert " ".join(verdict.witness.split()) in " ".join(witness.text.split())


def test_filters_leave_only_what_was_asked_for(opened, found):
    kinds = Counter(line.kind for line in found.ledger.lines)
    total = sum(kinds.values())
    choose = Select(opened.find_element(CSS, "#kind"))
    count = opened.find_element(CSS, "#count")
    assert count.text == f"{total} of {total} operations"
    for kind in ("softmax", "layer_norm"):
        choose.select_by_visible_text(kind)
        assert count.text == f"{kinds[kind]} of {total} operations"
        rows = visible(opened, "tr.operation")
        assert len(rows) == kinds[kind]
        assert all(f"{kind} by" in row.text for row in rows)
    Select(opened.find_element(CSS, "#cause")).select_by_visible_text("Taylor term")
    assert count.text == f"0 of {total} operations"
    assert visible(opened, ".stage") == []
    choose.select_by_index(0)
    rows = visible(opened, "tr.operation")
    assert len(rows) == kinds["softmax"]
    assert all(row.find_element(CSS, '[data-cause="Taylor term"]').text for row in rows)


def test_a_worst_offender_leads_to_its_row(opened, found):
    link = opened.find_element(CSS, "#worst a")
    line = found.worst(1)[0]
    assert line.node.origin.module in link.text
    link.click()
    target = opened.find_element(CSS, "tr:target")
    assert target.is_displayed()
    assert f"{line.kind} by {line.rule}" in target.text


def test_causes_in_the_page_add_up_to_the_residual(opened, found):
    cells = [x.text for x in opened.find_elements(CSS, "#causes tbody .number")]
    assert cells[-1] == signed(found.residual)
    assert sum(map(units, cells[:-1])) == units(cells[-1])


def units(text):
    return round(float(text) * 10_000)


def test_every_table_has_headers_and_every_drawing_a_description(opened):
    for table in opened.find_elements(CSS, "table"):
        assert table.find_elements(CSS, "thead th[scope=col]")
        assert table.find_element(CSS, "caption").get_attribute("textContent").strip()
    assert not opened.find_element(CSS, ".hint").is_displayed()  # all of it fits this screen
    drawing = opened.find_element(CSS, "#flow")
    assert drawing.get_attribute("role") == "img"
    assert "layer 1: arrives" in opened.find_element(CSS, "#flow-text").get_attribute("textContent")


def test_without_scripts_layers_open_and_no_dead_filter_is_shown(address):
    with chromium() as driver:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        driver.get(address)
        assert not driver.find_element(CSS, "#filters").is_displayed()
        driver.find_element(CSS, ".stage summary").click()
        assert visible(driver, "tr.operation")


@pytest.mark.parametrize(("scheme", "darker"), [("light", "letters"), ("dark", "paper")])
def test_it_can_be_read_on_a_light_and_a_dark_narrow_screen(browser, address, scheme, darker):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    screen = dict(width=420, height=900, deviceScaleFactor=1, mobile=False)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        browser.get(address)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 420
        assert browser.find_element(CSS, ".hint").is_displayed()
        for place, paint in (("body", "color"), ("#flow text", "fill"), (".token", "color")):
            letters = browser.find_element(CSS, place).value_of_css_property(paint)
            paper = browser.find_element(CSS, "body").value_of_css_property("background-color")
            light = {"letters": brightness(letters), "paper": brightness(paper)}
            assert min(light, key=light.get) == darker
            assert abs(light["letters"] - light["paper"]) > 128
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def brightness(colour):
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
