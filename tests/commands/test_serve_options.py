"""Texts that are cut, answers and chats, as ``lrp-axioms serve`` explains them."""

import json
import re
import urllib.parse

import pytest
import torch
from transformers import AutoTokenizer

from benchmarks.sources import models
from numeric import attribute, explain_generation
from tests.support import folders
from tests.support.served import TOKEN, Served, question, run_python


def page_of(served, path, ask, **more):
    """The page that a link opens."""
    asked = urllib.parse.urlencode({"token": TOKEN, "asked": json.dumps(ask)} | more)
    status, page, _ = served.ask(f"{path}?{asked}")
    assert status == 200, page
    return page.decode()


@pytest.mark.parametrize("unit", ["token", "word"])
def test_a_text_is_cut_where_a_reader_asks_for_it(classifier, unit):
    text = "a fine film . " * 200
    ask = question("cp-lrp", "loo", text=text, unit=unit)
    (fault,) = classifier.events(ask)
    assert fault["error"] == (
        "the text has 802 tokens, and the model 512 positions: choose to cut the text, or a "
        "shorter text"
    )
    ask = ask | {"truncate": True, "methods": ["cp-lrp"]}
    events = classifier.events(ask)
    row = next(x["row"] for x in events if "row" in x)
    said = "only the first 512 of 802 tokens are explained"
    assert [x["note"] for x in events if "note" in x] == [said]
    assert said.capitalize() in row["caption"]
    of, own = classifier.loaded, {"truncation": True, "max_length": 512, "return_tensors": "pt"}
    a = attribute(of.model, of.tokenizer(text, **own), "cp-lrp", tokenizer=of.tokenizer)
    want = a if unit == "token" else a.by(unit, of.tokenizer)
    assert row["relevance"] == pytest.approx(want.relevance[0].tolist(), abs=1e-5)
    assert run_python(classifier, ask) == pytest.approx(row["relevance"], abs=1e-5)
    assert said in page_of(classifier, "/audit", ask)


def test_an_answer_and_a_chat_are_explained_as_by_python(tmp_path):
    folders.copy(models.EMBEDDED["embedded-english"], tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} so {% endfor %}"
    tokenizer.save_pretrained(tmp_path / "model")
    text = "Anna put the key in the box ."
    chat = [{"role": "user", "content": text}]
    with Served(str(tmp_path / "model")) as served:
        of = served.loaded.model, served.loaded.tokenizer
        for more, prompt, want in (
            ({"answer": "Ben is here"}, text, {"answer": "Ben is here"}),
            ({"chat": True}, chat, {"max_new_tokens": 3}),
            ({"chat": True, "answer": "Ben"}, chat, {"answer": "Ben"}),
        ):
            ask = question("cp-lrp", text=text, unit="word", **more)
            page = page_of(served, "/written", ask, count=3)
            assert f"why {served.name} wrote" in page
            data = re.search(r'id="data">(.*?)</script>', page)[1]
            found = explain_generation(*of, prompt, method="cp-lrp", **want).by("word")
            maps = json.loads(data)["maps"]["word"]
            assert maps["tokens"] == [*found.tokens]
            relevance = torch.tensor(maps["relevance"])
            assert torch.allclose(relevance, found.relevance, rtol=1e-3, atol=1e-5)
        page = page_of(served, "/written", question("cp-lrp", text=text, target="Ben"), count=1)
        assert "The chosen token and the contrast are not used: every token is explained." in page
        unknown = question("cp-lrp", text=text, answer="a zebra")
        said = "Unknown, and read as &lt;unk&gt;: &#39;zebra&#39;."
        assert said in page_of(served, "/written", unknown)
        long = question("cp-lrp", text=text * 20, answer="Ben", truncate=True)
        page = page_of(served, "/written", long)
        assert "The text is cut at its beginning, and 64 of 161 tokens are left" in page
