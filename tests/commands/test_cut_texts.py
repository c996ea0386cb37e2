"""Texts that commands cut with --truncate, and the notes on them."""

import json

import pytest
from transformers import AutoConfig


@pytest.mark.parametrize("command", ["explain", "audit", "plan", "interactions"])
def test_a_question_leaves_room_for_its_context(told, run, heads, command):
    folder = heads / "answers"
    question = "fine " * 20
    assert told(command, folder, question, "a fine film", "--truncate")["notes"]
    code, _, err = run(command, folder, f"{question}fine", "a fine film", "--truncate")
    assert (code, "the question has 21 tokens and leaves no room" in err) == (2, True), err


def test_pages_say_that_a_text_is_cut(run, tmp_path, heads):
    folder, page = heads / "classes", tmp_path / "a.html"
    positions = AutoConfig.from_pretrained(folder).max_position_embeddings
    text, said = "a fine film . " * 200, f"nly the first {positions} of 802 tokens are explained"
    for call in (["explain"], ["audit"], ["interactions", "--estimate", "--budget", 0]):
        code, _, err = run(*call, folder, text, "--truncate", "--html", page)
        assert code == 0, err
        assert said in page.read_text("utf-8")
        assert err.count("tokens are explained") == 1
        page.unlink()


def test_an_audit_cuts_as_an_explanation_does(told, heads):
    folder = heads / "classes"
    text = "a fine film . " * 20
    audited, found = (told(x, folder, text, "--truncate") for x in ("audit", "explain"))
    (explained,) = found["texts"]
    assert [x["token"] for x in audited["tokens"]] == explained["tokens"]
    relevance = [x["relevance"] for x in audited["tokens"]]
    assert relevance == pytest.approx(explained["relevance"], abs=1e-5)
    assert audited["notes"][-1] == found["notes"][-1]


def test_a_plan_of_a_long_text_is_of_its_beginning(told, run):
    text = "not a bad film " * 200
    cut, short = told("plan", "embedded", text, "--truncate"), told("plan", "embedded", "a film")
    assert cut.pop("notes") == ["only the first 512 of 802 tokens are explained"]
    assert not short.pop("notes")
    assert cut == short
    code, _, err = run("plan", "embedded", text)
    assert (code, "--truncate" in err) == (2, True)


def test_a_text_that_fits_is_not_cut(told):
    plain, cut = (told("explain", "embedded", "not a bad film", *x) for x in ([], ["--truncate"]))
    assert plain == cut


def test_an_error_of_a_cut_text_says_that_it_is_cut(run, tmp_path, heads):
    folder = heads / "masked"
    code, _, err = run("explain", folder, "a fine film " * 200 + "[MASK]", "--truncate", "--json")
    found = json.loads(err.splitlines()[-1])
    assert (code, "[MASK] stands nowhere in the text" in found["error"]["message"]) == (2, True)
    assert "of 603 tokens are explained" in found["notes"][0]
