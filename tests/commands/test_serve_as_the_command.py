"""Compares the page of ``lrp-axioms serve`` with commands: names, spaces, notes and shares."""

import json
from functools import cache
from urllib.parse import quote

import pytest

from benchmarks.commands.advice import of_page
from benchmarks.sources import models
from numeric.methods.catalogue import METHODS
from tests.support.served import TOKEN, Served

QUESTIONS = {
    "embedded": ["not a bad film", " not a  bad film "],
    "embedded-english": ["Anna put the key in the", " Ben put the key in"],
    "embedded-lm": ["add 3 add 5 ;"],
    "classes": ["a fine film"],
    "tags": ["a fine film"],
    "masked": ["a [MASK] film", " a [MASK]"],
    "answers": ["a film ."],
}
NAMES = {
    "embedded": ["positive", " positive", "negative ", "1", " 1"],
    "embedded-english": ["box", " box", "box ", "  box", ".", " .", "7", "\tbox"],
    "embedded-lm": ["pen", " pen", "3", "8 "],
    "classes": ["dull", " dull", "0"],
    "tags": ["dull", " dull", "2"],
    "masked": ["fine", " fine ", "9"],
    "answers": ["fine film", " fine film", "film ", "a"],
}


@pytest.fixture(autouse=True)
def _commands_share_a_model(monkeypatch):
    """Commands of a test with the same options load a model once; they leave it as it was."""
    monkeypatch.setattr(models, "load", cache(models.load))


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_with_spaces_has_one_answer(name, heads, run):
    answered = set()
    with Served(name if name in models.EMBEDDED else str(heads / name)) as served:
        for text, called, option in questions(name):
            more = {"column": "2"} if name in ("tags", "answers") and called != "a" else {}
            if name == "answers":
                more = {"context": "  a fine film . a dull film"}
            asked = {"text": text, option: called, "methods": ["cp-lrp"]} | more
            told = command(run, served, asked)
            status, body, _ = served.post("/file/json", asked)
            page = json.loads(body)
            if isinstance(told, str):
                assert (status, page) == (400, {"error": of_page(told)}), asked
                continue
            answered.add(called)
            assert status == 200, (asked, page)
            (found,) = told["texts"]
            for key in ("relevance", "logit", "residual"):
                assert page.pop(key) == pytest.approx(found.pop(key), abs=1e-5)
            assert page == found
            events = served.events(asked)
            notes = [x["note"] for x in events if "note" in x]
            said = [of_page(x) for x in told["notes"] if not x.startswith("unknown to the")]
            assert [x for x in notes if not x.startswith("unknown, and")] == said
    assert len(answered) > 1


def questions(name):
    texts, names = QUESTIONS[name], NAMES[name]
    for text, called in [*((texts[0], x) for x in names), *((x, names[0]) for x in texts[1:])]:
        for option in ("target", "contrast"):
            yield text, called, option


def command(run, served, asked):
    """The object that ``lrp-axioms explain`` prints for a question, or its message."""
    texts = [asked["text"], asked["context"]] if "context" in asked else [asked["text"]]
    options = [f"--{key}={asked[key]}" for key in ("target", "contrast", "column") if key in asked]
    code, out, err = run("explain", served.name, *texts, "--method", "cp-lrp", "--json", *options)
    return json.loads(out) if code == 0 else json.loads(err)["error"]["message"]


def test_shares_of_attention_are_no_parts_of_a_logit_in_any_form(run):
    text = "Anna put the key in the"
    with Served("embedded-english") as served:
        for method in METHODS:
            call = ("explain", served.name, text, "--generate", 2, "--method", method)
            forms = [run(*call)[1], run(*call, "--full")[1]]
            asked = quote(json.dumps({"text": text, "methods": [method]}))
            page = served.ask(f"/written?count=2&asked={asked}", **{"x-token": TOKEN})[1].decode()
            shares = method == "attention-rollout"
            assert ('"residual": null' in page) == shares
            for form in forms:
                assert ("residual" in form, "shares of attention" in form.lower()) == (
                    not shares, shares,
                )  # fmt: skip
