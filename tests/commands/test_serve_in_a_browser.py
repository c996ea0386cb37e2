"""Clicks on the page of ``lrp-axioms serve``, in light and dark, wide and narrow."""

import re
import threading

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from benchmarks.app import work
from tests.support.browser import requests
from tests.support.served import TOKEN, Served

HOSTILE = (
    '<img src=x onerror="document.title=1"></script><script>document.title=1</script> \u202e&amp;'
)

AGREED = ".agreement, article svg > title"


def waiting(browser):
    """Waits for at most a minute, and looks every 20th of a second."""
    return WebDriverWait(browser, 60, 0.05, [StaleElementReferenceException])


def opened(browser, served, *, scheme="light", width=1200):
    for log in ("browser", "performance"):  # of the test before
        browser.get_log(log)
    emulated = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", emulated)
    browser.set_window_size(width, 1000)
    browser.get(f"{served.address}/?token={TOKEN}")
    return waiting(browser)


def tab_to(browser, element):
    for _ in range(40):
        if browser.switch_to.active_element == element:
            return
        browser.switch_to.active_element.send_keys(Keys.TAB)
    raise AssertionError("the keyboard does not reach it")


def check_clean(browser, served):
    assert browser.title == f"lrp-axioms: {served.name}"
    assert [x for x in browser.get_log("browser") if x["level"] == "SEVERE"] == []
    own = served.address, "data:", "blob:"
    assert all(url.startswith(own) for url in requests(browser))


@pytest.fixture
def halfway(monkeypatch):
    """An event that Leave-One-Out of 60 words waits for once it has left out 30 tokens."""
    goes_on, plain = threading.Event(), work._passed

    def passed(tell, maps, known, *told):
        plain(tell, maps, known, *told)
        if len(known) == 30:
            assert goes_on.wait(60)

    monkeypatch.setattr(work, "COPIES", 1)
    monkeypatch.setattr(work, "_passed", passed)
    yield goes_on
    goes_on.set()


@pytest.mark.parametrize(("width", "scheme"), [(420, "light"), (1200, "dark")])
def test_a_reader_asks_by_keyboard_alone(browser, served, width, scheme):
    wait = opened(browser, served, scheme=scheme, width=width)
    text = browser.find_element(By.ID, "text")
    text.clear()
    text.send_keys(HOSTILE)
    for key in [Keys.TAB, Keys.SPACE]:  # the first method is not asked
        browser.switch_to.active_element.send_keys(key)
    tab_to(browser, browser.find_element(By.ID, "target"))
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait.until(lambda d: len(d.find_elements(By.CSS_SELECTOR, "article")) == 2)
    wait.until(lambda d: not d.find_element(By.ID, "stop").is_displayed())
    assert browser.find_elements(By.CSS_SELECTOR, "img, .text script") == []
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width
    paper = browser.find_element(By.TAG_NAME, "body").value_of_css_property("background-color")
    assert ("255, 255, 255" in paper) == (scheme == "light")
    python = browser.find_element(By.XPATH, "//article//button[text()='Python']")
    tab_to(browser, python)
    python.send_keys(Keys.SPACE)
    wait.until(lambda d: "explain(model" in d.find_element(By.TAG_NAME, "pre").text)
    check_clean(browser, served)


@pytest.mark.parametrize("width", [420, 1200])
def test_leave_one_out_comes_in_beside_a_picture_of_the_agreement(browser, served, width):
    wait = opened(browser, served, width=width)
    browser.find_element(By.CSS_SELECTOR, "[value=loo]").click()
    browser.find_element(By.CSS_SELECTOR, "form button").click()
    wait.until(lambda d: not d.find_element(By.ID, "stop").is_displayed())
    cards = browser.find_elements(By.CSS_SELECTOR, "article")
    titles = [card.find_element(By.TAG_NAME, "h2").text for card in cards]
    assert titles[-1] == "LOO"
    tokens = len(cards[0].find_elements(By.CSS_SELECTOR, ".token"))
    for card in cards[:-1]:
        assert card.find_element(By.CLASS_NAME, "agreement").text.startswith("r with Leave-")
        dots = card.find_elements(By.CSS_SELECTOR, "svg circle")
        assert len(dots) == tokens
        assert all(0 <= float(dot.get_attribute("cx")) <= 120 for dot in dots)
    assert not cards[-1].find_elements(By.TAG_NAME, "svg")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    check_clean(browser, served)


def test_statements_have_links_to_their_proofs(browser, served):
    wait = opened(browser, served)
    browser.find_element(By.CSS_SELECTOR, "form button").click()
    wait.until(lambda d: len(d.find_elements(By.CSS_SELECTOR, "article")) == 3)
    browser.find_element(By.XPATH, "//article//button[text()='Statements']").click()
    links = wait.until(lambda d: d.find_elements(By.CSS_SELECTOR, "li a"))
    verdicts = {x.text for x in browser.find_elements(By.CLASS_NAME, "verdict")}
    assert "proved" in verdicts
    browser.get(links[-1].get_attribute("href"))
    assert "both get one explanation" in browser.page_source
    browser.back()


def test_stop_ends_the_passes_and_the_page_can_ask_again(browser, served, halfway):
    wait = opened(browser, served)
    text = browser.find_element(By.ID, "text")
    text.clear()
    text.send_keys("the " * 60)
    browser.find_element(By.CSS_SELECTOR, "[value=loo]").click()
    browser.find_element(By.CSS_SELECTOR, "form button").click()
    stop = browser.find_element(By.ID, "stop")
    wait.until(lambda d: "tokens left out" in d.find_element(By.ID, "count-of").text)
    stop.click()
    wait.until(lambda d: not stop.is_displayed())
    assert browser.switch_to.active_element.text == "Explain"  # where Stop had the focus
    assert browser.find_element(By.ID, "error").text == ""
    assert stopped(browser) == 2 * 3
    halfway.set()
    text.clear()
    text.send_keys("the key")
    browser.find_element(By.CSS_SELECTOR, "form button").click()
    wait.until(lambda d: len(d.find_elements(By.CSS_SELECTOR, "article")) == 4)
    wait.until(lambda _: not stop.is_displayed())
    assert not browser.find_element(By.ID, "passes").is_displayed()
    assert len(agreements(browser)) == 2 * 3
    assert not any(re.search("left out|stopped", x) for x in agreements(browser))
    check_clean(browser, served)


def agreements(browser):
    """Lists the texts beside every r, and the titles of its pictures."""
    return [x.get_attribute("textContent") for x in browser.find_elements(By.CSS_SELECTOR, AGREED)]


def stopped(browser):
    """How many numbers r say that they are of a part of the tokens; fails if one does not."""
    bar = browser.find_element(By.ID, "count-of")
    assert bar.is_displayed()
    done, of = map(
        int, re.fullmatch(r".*: (\d+) of (\d+) tokens left out; stopped", bar.text).groups()
    )
    assert 0 < done < of
    for said in agreements(browser):
        assert said.endswith(f", {done} of {of} tokens left out; stopped")
    return len(agreements(browser))


@pytest.mark.parametrize("kind", ["the program", "the connection"])
@pytest.mark.usefixtures("halfway")
def test_a_program_that_has_ended_is_named_beside_a_part_of_a_number(browser, kind):
    served = Served("embedded")
    wait = opened(browser, served)
    text, error = (browser.find_element(By.ID, x) for x in ("text", "error"))
    text.clear()
    text.send_keys("the " * 60)
    browser.find_element(By.CSS_SELECTOR, "[value=loo]").click()
    browser.find_element(By.CSS_SELECTOR, "form button").click()
    wait.until(lambda _: "tokens left out" in browser.find_element(By.ID, "count-of").text)
    if kind == "the program":
        served.end()
    else:
        served.cut()
    wait.until(lambda _: "program has ended; start it again" in error.text)
    assert stopped(browser) == 2 * 3
    served.end()
    for button in ("PNG", "Statements", "Python", "Explain"):
        browser.execute_script("document.getElementById('error').textContent = ''")
        browser.find_element(By.XPATH, f"//button[text()='{button}']").click()
        wait.until(lambda _: error.text.startswith("the program has ended; start it again, and"))


def test_write_takes_the_number_that_the_page_shows(browser, served):
    wait = opened(browser, served)
    browser.find_element(By.CSS_SELECTOR, "[value=attention-rollout]").click()
    browser.find_element(By.CSS_SELECTOR, "form button").click()
    wait.until(lambda d: len(d.find_elements(By.CSS_SELECTOR, "article")) == 4)
    links = browser.find_elements(By.LINK_TEXT, "Write")
    if served.name == "embedded":
        assert links == []
        return
    count = browser.find_element(By.ID, "count")
    for number, tokens in (("2", 2), ("-1", None), ("", None), ("1.5", None), ("3", 3)):
        count.send_keys(Keys.END, Keys.BACKSPACE * 3, number)
        sums = [wrote(browser, link, tokens, number) for link in links]
        if tokens:
            assert [("residual" in x, "shares of attention" in x) for x in sums] == [
                *[(True, False)] * 3, (False, True),
            ]  # fmt: skip
    browser.find_element(By.ID, "answer").send_keys("Ben is in the garden")
    assert all(wrote(browser, link, 5, "any") for link in links)


def test_a_long_text_is_cut_once_its_box_is_ticked(browser, served):
    wait = opened(browser, served, width=420)
    text, error = (browser.find_element(By.ID, x) for x in ("text", "error"))
    browser.execute_script("arguments[0].value = 'the key '.repeat(400)", text)
    button = browser.find_element(By.CSS_SELECTOR, "form button")
    button.click()
    if served.name == "embedded":
        wait.until(lambda _: "choose to cut the text" in error.text)
    browser.find_element(By.ID, "truncate").click()
    button.click()
    wait.until(lambda d: len(d.find_elements(By.CSS_SELECTOR, "article")) == 3)
    notes = browser.find_element(By.ID, "notes").text
    assert re.search(r"only the (first|last) \d+ of 80\d tokens are explained", notes)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 420
    check_clean(browser, served)


def wrote(browser, link, tokens, number):
    """The sentence below a text of so many tokens, or the message for a wrong number."""
    page = browser.current_window_handle
    link.click()
    waiting(browser).until(lambda d: len(d.window_handles) == 2)
    browser.switch_to.window(browser.window_handles[1])
    waiting(browser).until(lambda d: d.find_element(By.TAG_NAME, "body").text)
    said = browser.find_element(By.TAG_NAME, "body").text
    if tokens:
        assert len(browser.find_elements(By.CSS_SELECTOR, "button.token")) == tokens
        said = browser.find_element(By.ID, "sum").text
    else:
        assert said == f"write '{number}': write 1 to 64 tokens"
    browser.close()
    browser.switch_to.window(page)
    return said


def test_a_fault_is_shown_once_and_goes_away(browser, served):
    wait = opened(browser, served)
    error = browser.find_element(By.ID, "error")
    browser.find_element(By.ID, "contrast").send_keys("no such name here")
    browser.find_element(By.CSS_SELECTOR, "form button").click()
    wait.until(lambda _: "contrast 'no such name here'" in error.text)
    browser.find_element(By.ID, "contrast").clear()
    browser.find_element(By.CSS_SELECTOR, "form button").click()
    wait.until(lambda d: len(d.find_elements(By.CSS_SELECTOR, "article")) == 3)
    assert error.text == ""
