"""The answers of ``lrp-axioms serve``, and its guards."""

import http.client
import json
import threading
import urllib.parse

import pytest
import torch
from transformers import AutoConfig, BertForSequenceClassification

from axioms.pages import show
from benchmarks.app import work
from benchmarks.sources.pins import PINS
from numeric import audit, evaluate, explain, explain_generation
from numeric.targets import answer, logit
from tests.support import folders
from tests.support.served import TEXT, TOKEN, Served, question, run_python


def test_all_methods_have_the_numbers_of_python(classifier):
    events = classifier.events(question("loo", "attnlrp", "attention-rollout"))
    loaded = classifier.loaded
    logits = loaded.model(**loaded.tokenizer([TEXT], return_tensors="pt")).logits[0]
    said = events[0]["said"]
    assert (said["label"], said["number"]) == ("positive", "logit")
    assert said["probabilities"] == pytest.approx([logits.softmax(0)[1].item()])
    rows = {x["row"]["name"]: x["row"] for x in events if "row" in x}
    assert list(rows) == ["attnlrp", "attention-rollout", "loo"]  # Leave-One-Out takes longest
    for name, row in rows.items():
        a = explain(loaded.model, loaded.tokenizer, TEXT, method=name)
        assert row["relevance"] == pytest.approx(a.relevance[0].tolist(), abs=1e-5)
        assert row["residual"] == pytest.approx(a.residual.item(), abs=1e-5)
    one, _, loo = (torch.tensor(row["relevance"]) for row in rows.values())
    r = torch.corrcoef(torch.stack([one, loo]))[0, 1].item()
    *_, agreement, explained, end = events
    assert agreement["agreement"]["attnlrp"] == pytest.approx(r, abs=1e-5)
    inputs = loaded.tokenizer([TEXT], return_tensors="pt")
    maps = {name: [row["relevance"]] for name, row in rows.items()}
    found = evaluate(loaded.model, inputs, maps, measures=["explained"])
    assert explained["explained"] == {x: pytest.approx(found[x]["explained"][0]) for x in rows}
    assert end == {"end": True}
    assert rows["attention-rollout"]["shares"]


def test_losses_come_in_as_tokens_are_left_out(classifier):
    text = "not a bad film , and not a long film"
    events = classifier.events(question("attnlrp", "loo", text=text))
    passes = [x["passes"] for x in events if "passes" in x]
    assert [x["done"] for x in passes] == [4, 8, 12]
    assert {x["of"] for x in passes} == {12}
    rows = {x["row"]["name"]: x["row"] for x in events if "row" in x}
    for x in passes:
        known = [n for n, value in enumerate(x["relevance"]) if value is not None]
        assert len(known) == x["done"]
        both = [[row["relevance"][n] for n in known] for row in (rows["attnlrp"], rows["loo"])]
        assert [x["relevance"][n] for n in known] == pytest.approx(both[1])
        r = torch.corrcoef(torch.tensor(both))[0, 1].item()
        assert x["agreement"] == {"attnlrp": pytest.approx(r, abs=1e-5)}
    assert passes[-1]["agreement"] == events[-3]["agreement"]


def test_a_reader_who_leaves_ends_the_passes(classifier, monkeypatch):
    begun, left, ended, counts = threading.Event(), threading.Event(), threading.Event(), []
    plain = work.explain_text

    def slow(*args, options, **more):
        each = options["each"]

        def waiting(*told):
            counts.append(len(told[1]))
            if begun.is_set():
                assert left.wait(60)
            begun.set()
            each(*told)

        try:
            return plain(*args, options=options | {"each": waiting, "batch_size": 1}, **more)
        finally:
            ended.set()

    monkeypatch.setattr(work, "explain_text", slow)
    connection = http.client.HTTPConnection("127.0.0.1", classifier.port, timeout=60)
    data = json.dumps(question("loo", text="a film " * 20))
    connection.request("POST", "/explain", data, {"x-token": TOKEN})
    answered = connection.getresponse()
    assert answered.readline().startswith(b'data: {"passes": {"done": 1, ')
    answered.close()
    connection.close()
    _wait_until_the_server_knows(classifier)
    left.set()
    assert ended.wait(60)
    assert sum(counts) < 40


def _wait_until_the_server_knows(served):
    connections = served.server.server_state.connections
    while connections:
        served.thread.join(0.05)


def test_words_and_a_chosen_class_are_explained(classifier):
    text = "unforgettably tedious"
    rows = classifier.rows(question("cp-lrp", "loo", text=text, unit="word", target="positive"))
    loaded = classifier.loaded
    for name, row in rows.items():
        a = explain(loaded.model, loaded.tokenizer, text, method=name, target="positive")
        words = a.by("word", loaded.tokenizer)
        assert row["tokens"] == list(words.tokens[0])
        assert row["relevance"] == pytest.approx(words.relevance[0].tolist(), abs=1e-5)
    page = classifier.post("/file/html", question("cp-lrp", text=text, unit="word"))[1]
    assert f"{len(rows['cp-lrp']['tokens'])} words by the size of their" in page.decode()


def test_a_contrast_is_subtracted_and_audited(classifier):
    ask = question("cp-lrp", contrast="negative")
    events = classifier.events(ask)
    said = events[0]["said"]
    assert (said["label"], said["number"]) == ("positive rather than negative", "logit difference")
    assert sum(said["probabilities"]) == pytest.approx(1)
    loaded, target = classifier.loaded, logit(1) - logit(0)
    a = explain(loaded.model, loaded.tokenizer, TEXT, method="cp-lrp", target=target)
    assert events[1]["row"]["relevance"] == pytest.approx(a.relevance[0].tolist())
    found = json.loads(classifier.post("/statements", ask)[1])
    inputs = loaded.tokenizer([TEXT], return_tensors="pt")
    want = audit(loaded.model, inputs, "cp-lrp", target).verdicts
    assert [(x["statement"], x["verdict"]) for x in found] == [
        (x.statement, x.verdict) for x in want
    ]


def test_every_statement_has_a_proof(classifier):
    found = json.loads(classifier.post("/statements", question("attnlrp"))[1])
    assert {x["verdict"] for x in found} == {"proved", "refuted", "bounded"}
    for x in found:
        path = urllib.parse.urlencode({"token": TOKEN, "name": x["proof"], "method": "attnlrp"})
        status, text, _ = classifier.ask(f"/proof?{path}")
        assert status == 200
        if x["proof"] == "25":
            assert text.decode() == show.text(show.page("25"))
        else:
            assert f"invariant under: {text.decode().splitlines()[0][9:]}" in x["statement"]
            assert f"[{x['verdict']}] By the rules of attnlrp" in text.decode()
            assert x["witness"] in text.decode()


@pytest.mark.parametrize(
    ("head", "ask", "target"),
    [
        (
            "tags",
            {"column": "02", "target": "dull", "contrast": "1"},
            logit(0, at=2) - logit(1, at=2),
        ),
        ("masked", {"text": "a [MASK] film", "target": "fine"}, logit("fine")),
        ("answers", {"text": "a film", "context": "a fine film", "target": "fine"}, answer(5, 5)),
    ],
)
def test_every_head_is_explained(head, ask, target, heads):
    with Served(str(heads / head)) as served:
        asked = question("attnlrp", **{"text": "a fine film"} | ask)
        events = served.events(asked)
        assert events[-1] == {"end": True}, events
        texts = [(asked["text"], asked["context"])] if "context" in ask else [asked["text"]]
        of = served.loaded.model, served.loaded.tokenizer, texts
        a = explain(*of, target=target)
        assert events[1]["row"]["relevance"] == pytest.approx(a.relevance[0].tolist())
        out = served.loaded.model(**served.loaded.tokenizer(texts, return_tensors="pt"))
        if head == "answers":
            want = [out.start_logits[0].softmax(0)[5], out.end_logits[0].softmax(0)[5]]
        else:
            want = out.logits[0, 2].softmax(0)[a.target[0]].flatten()
        assert events[0]["said"]["probabilities"] == pytest.approx([x.item() for x in want])
        assert run_python(served, asked) == pytest.approx(events[1]["row"]["relevance"])
        assert json.loads(served.post("/statements", asked)[1])


def test_the_mask_may_be_known_from_the_config_alone(heads):
    with Served(str(heads / "masked")) as served:
        ask = question("attnlrp", text="a [MASK] film", target="fine")
        want = served.events(ask)[0]["said"]["probabilities"]
        loaded = served.loaded
        loaded.model.config.mask_token_id = loaded.tokenizer.mask_token_id
        loaded.tokenizer.mask_token = None
        found = served.events(ask)
        assert found[-1] == {"end": True}, found
        assert found[0]["said"]["probabilities"] == want


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        ({"problem_type": "multi_label_classification"}, lambda row: [row.sigmoid()[0].item()]),
        ({"problem_type": "single_label_classification"}, lambda row: [row.softmax(0)[0].item()]),
        ({"problem_type": "regression"}, lambda _row: []),
        ({"id2label": {0: "stars"}}, lambda _row: []),
    ],
)
def test_a_probability_is_of_a_head_that_gives_some(settings, want, checkpoint, tmp_path):
    """One output is a score, and labels that do not exclude each other have a probability each."""
    place = folders.copy(checkpoint, tmp_path / "model")
    config = AutoConfig.from_pretrained(checkpoint, **settings)
    BertForSequenceClassification(config).save_pretrained(place)
    with Served(str(place)) as served:
        text = "a fine film"
        said = served.events(question("attnlrp", text=text, target="0"))[0]["said"]
        inputs = served.loaded.tokenizer([text], return_tensors="pt")
        row = served.loaded.model(**inputs).logits[0].double()
        assert said["probabilities"] == pytest.approx(want(row))


@pytest.mark.parametrize("unit", ["token", "word"])
def test_the_lines_of_python_give_the_same_numbers(served, unit):
    ask = question("cp-lrp", text="unforgettably tedious keys", unit=unit)
    assert run_python(served, ask) == pytest.approx(served.rows(ask)["cp-lrp"]["relevance"])


def test_the_lines_of_python_load_the_pinned_revision(served, monkeypatch):
    monkeypatch.setitem(PINS["models"], served.loaded.name, "95f0")
    _, lines, _ = served.post("/python", question("cp-lrp"))
    assert lines.decode().count("revision='95f0'") == 2


def test_files_are_the_ones_that_the_command_writes(served):
    ask = question("attnlrp")
    assert served.post("/file/png", ask)[1].startswith(b"\x89PNG")
    data = json.loads(served.post("/file/json", ask)[1])
    assert data["relevance"] == served.rows(ask)["attnlrp"]["relevance"]
    assert served.post("/file/html", ask)[1].startswith(b"<!doctype html>")
    status, said, _ = served.post("/file/exe", ask)
    assert (status, b"pass html, png, json" in said) == (400, True)


def test_an_audit_and_a_written_text_are_pages_of_their_own(served):
    text = "Anna put the key in the"
    asked = {"token": TOKEN, "asked": json.dumps(question("cp-lrp", text=text)), "count": 3}
    path = urllib.parse.urlencode(asked)
    status, page, _ = served.ask(f"/audit?{path}")
    assert status == 200
    assert b"The flow of relevance" in page
    status, page, _ = served.ask(f"/written?{path}")
    if served.name == "embedded":
        assert (status, b"embedded writes no text; serve a language model" in page) == (400, True)
        return
    lm = served.loaded
    found = explain_generation(lm.model, lm.tokenizer, text, max_new_tokens=3)
    assert all(token.strip() in page.decode() for token in found.written)
    assert served.ask(f"/written?{path}0")[0] == 200  # 30 tokens
    assert b"write 1 to 64 tokens" in served.ask(f"/written?{path}00")[1]


@pytest.mark.parametrize("served", ["embedded-english"], indirect=True)
def test_warnings_and_unknown_words_are_notes(served):
    text = "Anna put the zebra in the box . " * 12
    notes = [x["note"] for x in served.events(question("attnlrp", text=text)) if "note" in x]
    assert notes == [
        "unknown, and read as <unk>: 'zebra'",
        "the text has 97 tokens, and the model was made for 64",
    ]
