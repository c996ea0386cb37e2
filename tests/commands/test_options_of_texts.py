"""Options that several commands share: methods with commas, dtypes, and texts that are cut."""

import errno
import os
from dataclasses import replace
from unittest import mock

import pyarrow.parquet as pq
import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration, GPT2Config, GPT2LMHeadModel

from benchmarks.commands import cutting
from benchmarks.commands.interactions import MANY
from benchmarks.sources import models
from numeric import attribute, explain, explain_generation
from numeric.models.facts import facts_of
from numeric.pairs import interactions as pairs_of


def test_several_methods_are_the_ones_of_python(told, tmp_path, loaded):
    page = tmp_path / "a.html"
    call = ["explain", "embedded", "not a bad film", "dull", "--html", page]
    found = told(*call, "--method", "cp-lrp,loo, cp-lrp")
    assert found["method"] == "cp-lrp,loo"
    assert [x["method"] for x in found["texts"]] == ["cp-lrp", "cp-lrp", "loo", "loo"]
    for x in found["texts"]:
        want = explain(loaded.model, loaded.tokenizer, x["text"], method=x["method"])
        assert x["relevance"] == want.relevance[0].tolist()
    assert "cp-lrp, loo: 2 texts" in page.read_text()


def test_a_budget_is_of_the_methods_that_have_one(told, loaded):
    methods, text = ["loo", "budgeted-loo", "cp-lrp"], "not a bad film"
    call = ["explain", "embedded", text, "--method", ",".join(methods), "--budget", 3]
    for found, method in zip(told(*call)["texts"], methods, strict=True):
        given = {} if method == "cp-lrp" else {"budget": 3}
        want = explain(loaded.model, loaded.tokenizer, text, method=method, **given)
        assert found["method"] == method
        assert found["relevance"] == want.relevance[0].tolist()


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_a_model_is_loaded_in_a_dtype(told, dtype):
    (found,) = told("explain", "embedded", "not a bad film", "--dtype", dtype)["texts"]
    loaded = models.load("embedded", dtype=dtype)
    assert loaded.model.dtype == getattr(torch, dtype)
    want = explain(loaded.model, loaded.tokenizer, "not a bad film")
    assert found["relevance"] == want.relevance[0].tolist()


def test_a_long_text_is_cut_at_its_end_for_a_class(told, loaded):
    text = "not a bad film " * 200
    found = told("explain", "embedded", text, "--truncate")
    inputs = loaded.tokenizer([text], return_tensors="pt", truncation=True, max_length=512)
    want = attribute(loaded.model, inputs)
    assert found["texts"][0]["relevance"] == want.relevance[0].tolist()
    assert found["notes"] == ["only the first 512 of 802 tokens are explained"]


def test_a_long_text_is_cut_at_its_beginning_for_a_next_token(told, lm):
    text = "anna apple bert pen ; " * 20 + "anna"
    found = told("explain", "embedded-lm", text, "--truncate")
    ids = lm.tokenizer([text])["input_ids"][0]
    tokens = found["texts"][0]["tokens"]
    kept = lm.tokenizer.convert_ids_to_tokens(ids[-63:])
    assert (len(tokens), tokens[-63:]) == (64, kept)
    assert tokens[0] == lm.tokenizer.convert_ids_to_tokens(ids[:1])[0]
    assert f"the last 64 of {len(ids)} tokens are explained" in found["notes"][0]
    assert lm.tokenizer.truncation_side == "right"


def test_pairs_are_of_a_text_that_is_cut(told, loaded):
    text = ("not a bad film " * 15 + ". ") * 10
    call = ["interactions", "embedded", text, "--truncate", "--by", "sentence"]
    found = told(*call, "--estimate", "--budget", 0)
    inputs = loaded.tokenizer([text], return_tensors="pt", truncation=True, max_length=512)
    how = {"by": "sentence", "pairs": "estimated", "budget": 0}
    want = pairs_of(loaded.model, loaded.tokenizer, inputs, **how)
    assert found["pairs"] == want.pairs.tolist()
    assert found["parts"] == list(want.names)
    assert found["notes"][0] == "only the first 512 of 612 tokens are explained"


@pytest.mark.parametrize(
    ("answer", "most"), [(["--generate", 3], 3), (["--answer", "apple pen"], 2)]
)
def test_a_prompt_is_cut_at_a_word_and_leaves_room_for_the_answer(told, answer, most, lm):
    call = ["explain", "embedded-lm", "anna apple bert pen ; " * 20 + "anna", *answer]
    (found,) = told(*call, "--truncate")["texts"]
    positions = lm.model.config.max_position_embeddings
    first = positions + 1 - most  # the last token is explained, and not read
    assert (found["first"], found["text"]) == (first, call[2])
    kept = call[2].split()[1 - first :]
    assert [x.strip() for x in found["tokens"][1:first]] == kept
    prompt = " ".join(kept)
    how = {"answer": answer[1]} if answer[0] == "--answer" else {"max_new_tokens": 3}
    want = explain_generation(lm.model, lm.tokenizer, prompt, **how)
    assert found["relevance"] == want.relevance.tolist()


def test_the_message_of_a_chat_is_cut_and_its_template_is_not(told, tmp_path):
    loaded = models.load("embedded-lm")
    loaded.tokenizer.chat_template = (
        "bert {% for m in messages %}{{ m.content }} ; anna{% endfor %}"
    )
    loaded.model.save_pretrained(tmp_path)
    loaded.tokenizer.save_pretrained(tmp_path)
    call = ["explain", tmp_path, "anna apple pen " * 40, "--chat", "--generate", 2, "--truncate"]
    found = told(*call)
    tokens = [x.strip() for x in found["texts"][0]["tokens"]]
    assert len(tokens) == 65
    assert (tokens[0], tokens[-4:-2]) == ("bert", [";", "anna"])
    assert found["notes"][-1].endswith("63 of 123 tokens are left of the prompt")


def test_a_prompt_that_fits_is_not_cut_however_much_may_be_written(told):
    call = ["explain", "embedded-lm", "anna apple bert pen ; anna", "--generate", 90]
    found, plain = told(*call, "--truncate"), told(*call)
    assert found == plain


def test_much_to_write_leaves_half_of_the_positions_to_a_prompt(told):
    call = ["explain", "embedded-lm", "anna apple bert pen ; " * 20 + "anna", "--generate", 90]
    (found,) = told(*call, "--truncate")["texts"]
    assert found["first"] == 32


def test_a_prompt_that_fits_no_answer_is_refused(run, lm, tmp_path):
    tokenizer, long = lm.tokenizer, "anna apple " * 40
    config = GPT2Config(vocab_size=len(tokenizer), n_positions=20, n_embd=16, n_layer=1, n_head=2)
    GPT2LMHeadModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for call in ((long, "--generate", 1), ("anna", "--answer", long), (long, "--answer", "pen")):
        code, _, err = run("explain", tmp_path, *call)
        assert (code, "20 positions: pass --truncate to cut the text" in err) == (2, True)
    code, _, err = run("explain", tmp_path, "anna", "--answer", long, "--truncate")
    assert code == 2
    assert "has 0 of 20 positions beside the answer" in err


def test_the_longest_prompt_that_fits_is_kept_though_a_shorter_one_has_more_tokens(monkeypatch, lm):
    """A word may have fewer tokens where a letter stands before it."""
    text = "a b c d e f"
    sizes = {text: 9, "b c d e f": 5, "c d e f": 4, "d e f": 6, "e f": 3, "f": 5}
    monkeypatch.setattr(cutting, "ids_once", lambda _tokenizer, part: range(sizes[part]))
    how = {"asked": lambda x: x, "count": None, "answers": [], "truncate": True}
    for room, want in ((4, "c d e f"), (3, "e f"), (5, "b c d e f")):
        facts = replace(facts_of(lm.model), positions=room)
        monkeypatch.setattr(cutting, "facts_of", lambda _model, facts=facts: facts)
        assert cutting.cut_prompt(lm, text, **how) == want


def test_what_is_written_is_explained_by_several_methods(told, tmp_path, lm):
    texts = ["anna apple bert pen ; anna", "anna pen ; anna"]
    call = ["explain", "embedded-lm", *texts, "--generate", 1, "--budget", 3]
    call += ["--method", "cp-lrp,loo", "--html", tmp_path / "a.html", "--keep", tmp_path / "keep"]
    found = told(*call)
    assert found["method"] == "cp-lrp,loo"
    for x, method in zip(found["texts"], ["cp-lrp", "cp-lrp", "loo", "loo"], strict=True):
        assert x["method"] == method
        how = {"method": method, "max_new_tokens": 1} | ({"budget": 3} if method == "loo" else {})
        how["keep"] = tmp_path / method / x["text"]  # rows that are kept have passes of their own
        want = explain_generation(lm.model, lm.tokenizer, x["text"], **how)
        assert x["relevance"] == want.relevance.tolist()
    assert len(found["wrote"]) == 4
    assert {x.parent.name for x in tmp_path.glob("keep/*/text-2")} == {"cp-lrp", "loo"}
    assert told(*call)["texts"] == found["texts"]


@pytest.mark.parametrize(("command", "several"), [("audit", "audits"), ("plan", "plans")])
def test_audits_and_plans_of_two_methods_are_the_two_of_each(told, run, command, several):
    call = (command, "embedded", "a fine film", "--method")
    found = told(*call, "attnlrp, cp-lrp")
    own = [told(*call, x) for x in found["method"].split(",")]
    assert len(own) == len(found[several]) == 2
    for one, other in zip(own, found[several], strict=True):
        assert {k: v for k, v in one.items() if k in other.keys() - {"seconds"}} == {
            k: v for k, v in other.items() if k != "seconds"
        }
    out = run(*call, "attnlrp,cp-lrp")[1]
    assert len(out.splitlines()) <= 24
    assert all(x in out for x in ("attnlrp", "cp-lrp"))
    assert "--method '': pass attnlrp, cp-lrp" in run(*call, "attnlrp,")[2]


def test_a_note_on_pairs_counts_the_parts_that_are_left_out(told):
    """Three sentences of many tokens have three pairs, and take no note."""
    text = " . ".join(["a fine film with a weak end and " * 5] * 3)
    found = told("interactions", "embedded", text, "--by", "sentence")
    assert len(found["parts"]) == 3
    assert found["notes"] == []
    found = told("interactions", "embedded", text, "--estimate", "--budget", 0)
    assert len(found["parts"]) > MANY


@pytest.mark.parametrize("option", ["--html", "--png", "--parquet"])
def test_a_full_disk_under_a_file_of_pairs_is_said_with_its_option(
    run, tmp_path, monkeypatch, option
):
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, "fsync", mock.Mock(side_effect=full))
    path = tmp_path / "pairs.png"
    code, _, err = run("interactions", "embedded", "not a bad film", option, path)
    says = f"{option} {path}: No space left on device; make room there, or pass another one"
    assert (code, err) == (2, f"error: {says}\n")


def test_files_and_judgements_take_a_dtype(told, tmp_path):
    lines, folder = tmp_path / "texts.txt", tmp_path / "maps"
    lines.write_text("not a bad film\na dull film\n")
    explained = {}
    for dtype in ("float32", "bfloat16", "float64"):
        loaded = models.load("embedded", dtype=dtype)
        a = explain(loaded.model, loaded.tokenizer, "not a bad film")
        explained[dtype] = a.relevance[0].double()
    for dtype in ("bfloat16", "float64"):
        told("attribute", lines, "--dtype", dtype, "--output", folder / dtype)
        (first, _) = pq.read_table(folder / dtype / "part-000000000000.parquet").to_pylist()
        found = torch.tensor(first["relevance"], dtype=torch.float64)
        gaps = {name: (found - x).norm() for name, x in explained.items()}
        assert min(gaps, key=gaps.get) == dtype
    assert gaps["float64"] < 1e-12
    call = ["evaluate", folder / "float64", "--measure", "r", "--output", tmp_path]
    ((wide,), (plain,)) = (told(*call, "--dtype", x)["rows"] for x in ("float64", "float32"))
    assert wide["r"] == pytest.approx(plain["r"], abs=1e-4)
    assert wide["r"] != plain["r"]


def test_an_encoder_with_a_decoder_reads_the_first_words_of_a_prompt(told, lm, tmp_path):
    size = {"vocab_size": len(lm.tokenizer), "d_model": 16, "max_position_embeddings": 20}
    size |= {f"{x}_layers": 1 for x in ("encoder", "decoder")}
    size |= {f"{x}_attention_heads": 2 for x in ("encoder", "decoder")}
    torch.manual_seed(0)
    bart = BartForConditionalGeneration(BartConfig(**size, pad_token_id=0)).eval()
    bart.save_pretrained(tmp_path)
    lm.tokenizer.save_pretrained(tmp_path)
    words = "anna apple bert pen ; " * 8
    found = told("explain", tmp_path, words, "--answer", "anna pen", "--truncate")
    (text,) = found["texts"]
    want = explain_generation(bart, lm.tokenizer, " ".join(words.split()[:19]), answer="anna pen")
    assert text["source"] == want.source == 20
    assert text["tokens"] == list(want.tokens)
    assert text["relevance"] == want.relevance.tolist()
    told("explain", tmp_path, "anna", "--generate", 40)  # the decoder has 20 positions
    assert found["notes"] == [
        "the text is cut at its end, and 20 of 41 tokens are left of the prompt"
    ]
