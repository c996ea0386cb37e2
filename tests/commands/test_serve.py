"""The page of ``lrp-axioms serve``: its answers, its guards, and clicks in a browser."""

import json
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import torch
import uvicorn
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from benchmarks.app import command, server, work
from benchmarks.sources import models
from numeric import explain, explain_generation
from tests.support.browser import chromium

ROOT = Path(__file__).parents[2]
TOKEN = "a-token"
TEXT = "not a bad film"
HOSTILE = (
    '<img src=x onerror="document.title=1"></script><script>document.title=1</script> \u202e&amp;'
)


class Served:
    """A server of one model on a free port, in a thread."""

    def __init__(self, name):
        self.name = name
        listening = command.listen(0)
        self.port = listening.getsockname()[1]
        app = server.application(models.load(name), TOKEN, self.port)
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        self.thread = threading.Thread(target=self.server.run, args=([listening],), daemon=True)
        self.thread.start()

    def end(self):
        self.server.should_exit = True
        self.thread.join(60)

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path, data=None, **headers):
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(self.address + path, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read(), error.headers

    def post(self, path, data):
        return self.ask(path, data, **{"x-token": TOKEN})


@pytest.fixture(scope="module", params=["embedded", "embedded-english"])
def served(request):
    found = Served(request.param)
    yield found
    found.end()


@pytest.fixture(scope="module")
def classifier():
    found = Served("embedded")
    yield found
    found.end()


def question(*methods, **more):
    return {"text": TEXT, "methods": list(methods), "unit": "token"} | more


def test_all_methods_have_the_numbers_of_python(classifier):
    status, body, _ = classifier.post("/explain", question("attnlrp", "loo", "attention-rollout"))
    assert status == 200
    found, loaded = json.loads(body), models.load()
    logits = loaded.model(**loaded.tokenizer([TEXT], return_tensors="pt")).logits[0]
    assert found["probability"] == pytest.approx(logits.softmax(0)[1].item())
    for row in found["methods"]:
        a = explain(loaded.model, loaded.tokenizer, TEXT, method=row["name"])
        assert row["relevance"] == pytest.approx(a.relevance[0].tolist())
        assert row["residual"] == pytest.approx(a.residual.item(), abs=1e-5)
    one, loo, rollout = (torch.tensor(row["relevance"]) for row in found["methods"])
    r = torch.corrcoef(torch.stack([one, loo]))[0, 1].item()
    assert found["methods"][0]["agreement"] == pytest.approx(r, abs=1e-5)
    assert found["top"] == pytest.approx(max(one.abs().max(), loo.abs().max()).item())
    assert found["methods"][2]["shares"]
    assert rollout.sum().item() == pytest.approx(1, abs=1e-5)


def test_words_and_a_chosen_class_are_explained(classifier):
    text = "unforgettably tedious"
    ask = question("cp-lrp", text=text, unit="word", target="positive")
    found = json.loads(classifier.post("/explain", ask)[1])
    loaded = models.load()
    a = explain(loaded.model, loaded.tokenizer, text, method="cp-lrp", target="positive")
    words = a.by("word", loaded.tokenizer)
    (row,) = found["methods"]
    assert row["tokens"] == list(words.tokens[0])
    assert row["relevance"] == pytest.approx(words.relevance[0].tolist())
    assert found["said"] == "positive"


def test_the_lines_of_python_give_the_same_numbers(served):
    ask = question("cp-lrp")
    found = json.loads(served.post("/explain", ask)[1])
    status, lines, _ = served.post("/python", ask)
    assert (status, lines.count(b"\n")) == (200, 4)
    names = {}
    exec(lines.decode(), names)
    assert names["found"].relevance[0].tolist() == pytest.approx(found["methods"][0]["relevance"])


def test_files_are_the_ones_that_the_command_writes(served):
    ask = question("attnlrp")
    assert served.post("/file/png", ask)[1].startswith(b"\x89PNG")
    data = json.loads(served.post("/file/json", ask)[1])
    assert (
        data["relevance"] == json.loads(served.post("/explain", ask)[1])["methods"][0]["relevance"]
    )
    assert served.post("/file/html", ask)[1].startswith(b"<!doctype html>")
    status, said, _ = served.post("/file/exe", ask)
    assert (status, b"pass one of html, png, json" in said) == (400, True)


def test_an_audit_and_a_written_text_are_pages_of_their_own(served):
    asked = {"token": TOKEN, "text": "Anna put the key in the", "method": "cp-lrp", "count": 3}
    path = urllib.parse.urlencode(asked)
    status, page, _ = served.ask(f"/audit?{path}")
    assert status == 200
    assert b"The flow of relevance" in page
    status, page, _ = served.ask(f"/written?{path}")
    lm = models.load("embedded-english")
    if status == 400:
        assert b"embedded writes no text; serve a language model" in page
        return
    found = explain_generation(lm.model, lm.tokenizer, asked["text"], max_new_tokens=3)
    assert all(token.strip() in page.decode() for token in found.written)
    assert served.ask(f"/written?{path}0")[0] == 200  # 30 tokens
    assert b"write 1 to 64 tokens" in served.ask(f"/written?{path}00")[1]


BAD = {
    "no token": ("/", {}, "token is missing"),
    "another token": (f"/?token={TOKEN}x", {}, "token is missing or wrong"),
    "another origin": (f"/?token={TOKEN}", {"Origin": "http://evil.example"}, "another page asked"),
    "no origin at all": (f"/?token={TOKEN}", {"Origin": "null"}, "another page asked"),
    "another host": (f"/?token={TOKEN}", {"Host": "evil.example"}, "for its own address alone"),
    "a file without a token": ("/audit?text=a&method=cp-lrp", {}, "token is missing"),
}


@pytest.mark.parametrize(("path", "headers", "said"), BAD.values(), ids=BAD)
def test_requests_from_elsewhere_are_refused(classifier, path, headers, said):
    status, body, answered = classifier.ask(path, **headers)
    assert status == 403
    assert said in body.decode()
    assert answered["cache-control"] == "no-store"


FAULTS = {
    "no text": (question("loo", text=" "), "no text in"),
    "no methods": (question(), "methods: choose at least one"),
    "another method": (question("magic"), "method magic: pass attnlrp"),
    "another class": (question("loo", target="great"), "no class has this name"),
    "another unit": (question("loo", unit="letter"), "unit letter: pass token, word"),
    "a long text": (question("loo", text="a " * 30_000), "at most 20000 letters"),
    "too many bytes": (question("loo", text="a " * 200_000), "more than 200000 bytes"),
    "a list": (["loo"], "no JSON object"),
    "many tokens": (question("loo", text="film " * 600), "longer than the model's"),
}


@pytest.mark.parametrize(("data", "said"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_one_message(classifier, data, said):
    status, body, _ = classifier.post("/explain", data)
    assert status == 400
    assert said in json.loads(body)["error"]


def test_a_model_of_another_kind_is_refused():
    lm = models.load()
    from dataclasses import replace

    from transformers import BertConfig, BertForTokenClassification

    small = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    tagger = replace(lm, model=BertForTokenClassification(small), name="tagger")
    with pytest.raises(ValueError, match="tagger predicts a tag, and the page shows"):
        work.check(tagger)


def test_a_quick_question_does_not_wait_for_a_slow_one(classifier, monkeypatch):
    free, entered = threading.Event(), threading.Event()
    plain = work.answer

    def slow(loaded, asked):
        if asked.methods == ("loo",):
            entered.set()
            assert free.wait(60)
        return plain(loaded, asked)

    monkeypatch.setattr(work, "answer", slow)
    waiting = threading.Thread(target=classifier.post, args=("/explain", question("loo")))
    waiting.start()
    assert entered.wait(60)
    assert classifier.post("/explain", question("attnlrp"))[0] == 200
    free.set()
    waiting.join(60)


def test_a_port_that_is_taken_is_one_error(run):
    taken = command.listen(0)
    port = taken.getsockname()[1]
    code, _, err = run("serve", "embedded", "--port", port)
    assert code == 2
    assert f"--port {port}: " in err
    assert "pass another one, or 0" in err
    taken.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [420, 1200])
def test_a_reader_asks_by_keyboard_alone(served, width, scheme):
    with chromium() as driver:
        emulated = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", emulated)
        driver.set_window_size(width, 1000)
        driver.get(f"{served.address}/?token={TOKEN}")
        text = driver.find_element(By.ID, "text")
        text.clear()
        text.send_keys(HOSTILE)
        keys = [Keys.TAB, Keys.SPACE]  # the first method is not asked
        for key in keys:
            driver.switch_to.active_element.send_keys(key)
        target = driver.find_element(By.ID, "target")
        for _ in range(30):
            if driver.switch_to.active_element == target:
                break
            driver.switch_to.active_element.send_keys(Keys.TAB)
        driver.switch_to.active_element.send_keys(Keys.ENTER)
        wait = WebDriverWait(driver, 60)
        wait.until(lambda d: d.find_elements(By.CSS_SELECTOR, "article"))
        assert len(driver.find_elements(By.CSS_SELECTOR, "article")) == 2
        assert driver.find_elements(By.CSS_SELECTOR, "img, .text script") == []
        assert driver.title == f"lrp-axioms: {served.name}"
        found = driver.execute_script("return document.documentElement.scrollWidth")
        assert found <= width
        paper = driver.find_element(By.TAG_NAME, "body").value_of_css_property("background-color")
        assert ("255, 255, 255" in paper) == (scheme == "light")
        driver.find_elements(By.CSS_SELECTOR, "article button")[3].click()
        wait.until(lambda d: "explain(model" in d.find_element(By.TAG_NAME, "pre").text)
        assert [x for x in driver.get_log("browser") if x["level"] == "SEVERE"] == []
        sent = [json.loads(x["message"])["message"] for x in driver.get_log("performance")]
        urls = {
            x["params"]["request"]["url"]
            for x in sent
            if x["method"] == "Network.requestWillBeSent"
        }
        assert all(url.startswith((served.address, "data:", "blob:")) for url in urls)


def test_the_command_prints_its_address_as_data_and_ends_on_an_interrupt():
    call = [sys.executable, "-m", "lrp_axioms", "serve", "embedded", "--port", "0", "--json"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, cwd=ROOT, text=True) as program:
        try:
            address = json.loads(program.stdout.readline())["address"]
            with urllib.request.urlopen(address, timeout=60) as answered:
                assert b"which words speak" in answered.read()
        finally:
            program.send_signal(signal.SIGINT)
        assert program.wait(60) in (0, 130, -signal.SIGINT)
