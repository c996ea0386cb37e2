"""A browser for the tests of pages."""

import json
import os
import shutil
from contextlib import contextmanager

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service


def requests(browser):
    """Addresses that pages asked for since the log was read."""
    sent = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    wanted = [x["params"] for x in sent if x["method"] == "Network.requestWillBeSent"]
    return [params["request"]["url"] for params in wanted]


@contextmanager
def chromium():
    """A headless browser that logs its console and every request."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in programs.items() if path is None]
    if missing:
        said = f"{' and '.join(missing)} not installed: apt-get install chromium chromium-driver"
        if os.environ.get("LRP_AXIOMS_BROWSER") == "required" or os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{argument}")
    options.add_argument("--window-size=1100,900")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(programs["chromedriver"]))
    try:
        yield driver
    finally:
        driver.quit()
