"""Guards of ``lrp-axioms serve``: requests from elsewhere, faults of a question, the port."""

import json

import pytest
import torch

from benchmarks.app import command, work
from tests.support.served import TOKEN, question

BAD = {
    "no token": ("/", {}, "token is missing"),
    "another token": (f"/?token={TOKEN}x", {}, "token is missing or wrong"),
    "another origin": (f"/?token={TOKEN}", {"Origin": "http://evil.example"}, "another page asked"),
    "no origin at all": (f"/?token={TOKEN}", {"Origin": "null"}, "another page asked"),
    "another host": (f"/?token={TOKEN}", {"Host": "evil.example"}, "for its own address alone"),
    "an audit without a token": ("/audit?asked={}", {}, "token is missing"),
    "a proof without a token": ("/proof?name=25", {}, "token is missing"),
}


@pytest.mark.parametrize(("path", "headers", "said"), BAD.values(), ids=BAD)
def test_requests_from_elsewhere_are_refused(classifier, path, headers, said):
    status, body, answered = classifier.ask(path, **headers)
    assert status == 403
    assert said in body.decode()
    assert answered["cache-control"] == "no-store"


FAULTS = {
    "no text": (question("loo", text=" "), "no text in"),
    "a text that is none": (question("loo", text=3), "text: write a text"),
    "no methods": (question(), "methods: choose at least one"),
    "another method": (question("magic"), "method magic: pass attnlrp"),
    "a method that is no name": (question(["loo"]), "methods: choose at least one"),
    "another class": (question("loo", target="great"), "no class has this name"),
    "another contrast": (question("loo", contrast="great"), "contrast 'great': no class has"),
    "the class itself": (question("loo", contrast="positive"), "the contrast is the target itself"),
    "a column of a class": (question("loo", column="3"), "the class is of the whole input"),
    "a column that is no number": (question("loo", column="-1"), "write the number of a token"),
    "another unit": (question("loo", unit="letter"), "unit letter: pass token, word"),
    "another field": (question("loo", methode="loo"), "unknown fields: methode"),
    "a long text": (question("loo", text="a " * 30_000), "at most 20000 letters"),
    "too many bytes": (question("loo", text="a " * 200_000), "more than 200000 bytes"),
    "a list": (["loo"], "no JSON object"),
    "a unit that is no name": (question("loo", unit=["a"]), "unit ['a']: pass token, word"),
    "half a character": (question("loo", text="\ud800 film"), "half a character"),
    "half a character as a target": (question("loo", target="\ud800"), "target '\\ud800': half"),
    "many tokens": (question("loo", text="film " * 600), "choose to cut the text"),
}


@pytest.mark.parametrize(("data", "said"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_one_message(classifier, data, said):
    *_, event = classifier.events(data)
    assert said in event["error"]


def test_a_fault_of_a_page_is_text(classifier):
    for path, said in (
        ("/audit?asked=x", b"Expecting value"),
        ("/audit?asked=" + "[" * 50_000, b"no JSON object"),
        ("/proof?name=" + "9" * 5000, b"is no theorem"),
        ("/proof?name=999", b"there is no theorem 999"),
        ("/proof?name=split+linear&method=loo", b"method loo: pass attnlrp"),
    ):
        status, body, answered = classifier.ask(path, **{"x-token": TOKEN})
        assert (status, said in body) == (400, True)
        assert answered["content-type"].startswith("text/plain")


@pytest.mark.parametrize("error", [MemoryError("1 GiB"), torch.OutOfMemoryError("CUDA")])
def test_a_full_memory_is_one_message(classifier, monkeypatch, error):
    def fail(*_args, **_options):
        raise error

    monkeypatch.setattr(work, "explain_text", fail)
    said = "the memory is full; close other programs, or write a shorter text"
    assert classifier.events(question("attnlrp"))[-1] == {"error": said}
    status, body, _ = classifier.post("/python", question("attnlrp"))
    assert (status, json.loads(body)) == (400, {"error": said})


def test_a_port_that_is_taken_is_one_error(run):
    taken = command.listen(0)
    port = taken.getsockname()[1]
    code, _, err = run("serve", "embedded", "--port", port)
    assert code == 2
    assert f"--port {port}: " in err
    assert "pass another one, or 0" in err
    taken.close()
