"""The commands explain the prediction of the head that a folder's config names."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import transformers
from PIL import Image
from transformers import AutoTokenizer, LlamaForCausalLM

from benchmarks.sources import models
from numeric import attribute, explain_generation
from numeric.results import pictures
from numeric.results.render import LayerMap, short
from numeric.targets import span
from tests.support import cases

TEXT = "a fine film"


@pytest.fixture(scope="module")
def folder(checkpoint, tmp_path_factory):
    place = tmp_path_factory.mktemp("language model") / "llama"
    config = cases.family("llama", vocab_size=11, pad_token_id=0)[0].config
    torch.manual_seed(3)
    LlamaForCausalLM(config).save_pretrained(place)
    names = {"model_input_names": ["input_ids", "attention_mask"]}
    AutoTokenizer.from_pretrained(checkpoint, **names).save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def predicted(folder):
    """The id and the word of the next token, the relevance of the text, and its maps."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer([TEXT], return_tensors="pt")
    token = int(model(**inputs).logits[0, -1].argmax())
    return token, tokenizer.decode([token]), attribute(model, inputs, "attnlrp").relevance[0]


def test_explain_names_the_next_token_in_the_terminal_and_on_the_page(
    run, folder, predicted, tmp_path
):
    _, word, relevance = predicted
    files = "--html", tmp_path / "a.html", "--png", tmp_path / "a.png"
    code, out, err = run("explain", folder, TEXT, "--layers", *files)
    assert (code, err) == (0, "")
    assert out.startswith(f"attnlrp: why the next token {word!r}?\n")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert f"why the next token &#39;{word}&#39;?" in page
    for value in relevance.tolist():
        assert f"{value:+z.4f}" in out
        assert f"{value:+z.4f}" in page
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_explain_takes_a_span_of_the_text_itself(run, folder):
    code, out, err = run("explain", folder, TEXT, "--span", "2:4")
    assert (code, err) == (0, "")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    said = tokenizer.decode(tokenizer(TEXT)["input_ids"][2:4]).strip()
    assert out.startswith(f"attnlrp: why the tokens {said!r}?\n")
    assert "Red speaks for the target; " in out
    assert run("explain", folder, TEXT, "--span", "2:99")[0] == 2
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    inputs = tokenizer([TEXT], return_tensors="pt")
    for value in attribute(model, inputs, target=span(2, 4)).relevance[0].tolist():
        assert f"{value:+z.4f}" in out


@pytest.mark.parametrize("by", ["token", "word", "sentence"])
def test_explain_generates_and_shows_every_unit_in_the_terminal(run, folder, by, tmp_path):
    files = "--html", tmp_path / "a.html", "--png", tmp_path / "a.png"
    code, out, err = run("explain", folder, TEXT, "--generate", "3", "--by", by, *files)
    assert (code, err) == (0, "")
    assert out.startswith(f"attnlrp: why {folder.name} wrote ")
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = explain_generation(model, tokenizer, TEXT, max_new_tokens=3)
    found = replace(found, model=folder.name)
    want = found if by == "token" else found.by(by)
    assert out.index("sum") > 0
    brief = run("explain", folder, TEXT * 6, "--generate", "3", "--by", by)[1]
    assert "residual" in out
    assert "residual" in brief
    for value in (*want.logit.tolist(), *want.residual.tolist()):
        assert f"{value:+z.4f}" in out
    for value in want.relevance.sum(dim=1).tolist():
        assert short(value) in out
    assert (tmp_path / "a.html").read_text("utf-8") == found.html(by)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_audit_names_it_in_the_terminal_on_the_page_and_in_the_file(
    run, folder, predicted, tmp_path
):
    token, word, _ = predicted
    code, out, _ = run("audit", folder, TEXT, "--html", tmp_path / "a.html")
    assert code == 0
    assert f"next token  {token} ({word})" in out
    assert "Red speaks for the next token; " in (tmp_path / "a.html").read_text()
    assert f"<dt>next token</dt><dd>{token} ({word})</dd>" in (tmp_path / "a.html").read_text()
    facts = json.loads(run("audit", folder, TEXT, "--json")[1])
    assert (facts["explains"], facts["target"], facts["label"]) == ("next token", token, word)


def test_plan_and_attribute_take_it_too(run, folder, predicted, tmp_path):
    token, _, relevance = predicted
    assert run("plan", folder)[1].startswith("LlamaForCausalLM by attnlrp:")
    (tmp_path / "texts.txt").write_text(f"dull\n{TEXT}\n")
    where = "--output", tmp_path / "found"
    assert run("attribute", tmp_path / "texts.txt", "--model", folder, *where)[0] == 0
    parts = map(pq.read_table, (tmp_path / "found").glob("part-*.parquet"))
    (row,) = (row for part in parts for row in part.to_pylist() if row["text"] == TEXT)
    assert row["target"] == token
    torch.testing.assert_close(torch.tensor(row["relevance"]), relevance)


def test_a_classifier_is_still_one(checkpoint):
    assert models.load(str(checkpoint)).explains == "class"


def expected(head, model, tokenizer, inputs):
    """The explained prediction in words, and the options that ask for it."""
    output, tokens = model(**inputs), tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    if head == "QuestionAnswering":
        first, last = output.start_logits[0].argmax(), output.end_logits[0].argmax()
        return f"the answer {' '.join(tokens[first : last + 1])!r}", ()
    if head == "MaskedLM":
        found = output.logits[0, tokens.index("[MASK]")].argmax()
        return f"the masked token {tokenizer.decode([found])!r}", ()
    found = int(output.logits[0, 3].argmax())
    return f"the tag {model.config.id2label[found]!r}", ("--column", 3)


@pytest.mark.parametrize("head", ["MaskedLM", "TokenClassification", "QuestionAnswering"])
def test_other_heads_say_what_they_predict(run, checkpoint, tmp_path, head):
    torch.manual_seed(3)
    model = getattr(transformers, f"BertFor{head}")(
        cases.tiny_config(vocab_size=11, num_labels=2)
    ).eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    for each in (model, tokenizer):
        each.save_pretrained(tmp_path / "model")
    text = "a [MASK] film"
    asked = ("film", text) if head == "QuestionAnswering" else (text,)
    want, options = expected(head, model, tokenizer, tokenizer(*asked, return_tensors="pt"))
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(*asked)["input_ids"])
    of = f" of {tokens[3]!r}" if options else ""
    page = tmp_path / "page.html"
    code, out, _ = run("explain", tmp_path / "model", *asked, *options, "--html", page, "--full")
    assert (code, out.split("\n")[0]) == (0, f"attnlrp: why {want}{of}?")
    assert " ".join(tokens) in out
    code, out, _ = run("audit", tmp_path / "model", *asked, *options)
    assert code == 0
    found = want[want.index("'") + 1 : -1]
    assert f"({found})" in " ".join(out.split())
    if head == "QuestionAnswering":
        for command in ("explain", "audit"):
            code, _, err = run(command, tmp_path / "model", text)
            assert code == 2
            assert "pass the question and then the context, 2 texts, not 1" in " ".join(err.split())
    (tmp_path / "texts.txt").write_text(text)
    code, out, err = run("attribute", tmp_path / "texts.txt", "--model", tmp_path / "model")
    assert (code, out) == (2, "")
    assert "pass a classifier of texts or a causal language model" in " ".join(err.split())


def test_the_picture_of_layers_shows_signs_and_sizes(tmp_path):
    """A column's largest relevance is red or blue, half of it is halfway to white."""

    def pixels(values):
        found = LayerMap("layers", ("0",), ("$a", "b", "c"), np.array(values)[:, None])
        words = {"title": "a title", "legend": "a legend", "made": ""}
        (tmp_path / "a.png").write_bytes(pictures.maps([found], **words))
        with Image.open(tmp_path / "a.png") as picture:
            image = np.asarray(picture.convert("RGB")).reshape(-1, 3)
        colours, counts = np.unique(image, axis=0, return_counts=True)
        return {tuple(c): n for c, n in zip(colours.tolist(), counts.tolist(), strict=True)}

    red, blue, pink = (255, 75, 75), (75, 75, 255), (255, 165, 165)
    found = pixels([1.0, 0.5, 0.0])
    assert found[red] > 1000
    assert found[pink] == pytest.approx(found[red], rel=0.1)
    assert blue not in found
    assert pixels([-2.0, 0.0, 0.0])[blue] == pytest.approx(found[red], rel=0.1)
