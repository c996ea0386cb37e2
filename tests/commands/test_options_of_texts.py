"""Options that several commands share: methods with commas, dtypes, and texts that are cut."""

import json

import pyarrow.parquet as pq
import pytest
import torch

from benchmarks.commands.interactions import MANY
from benchmarks.sources import models
from numeric import attribute, explain
from tests.support.heads import write_heads


@pytest.fixture
def told(run):
    def told(*call):
        code, out, err = run(*call, "--json")
        assert code == 0, err
        return json.loads(out)

    return told


def test_several_methods_are_the_ones_of_python(told, tmp_path):
    page = tmp_path / "a.html"
    call = ["explain", "embedded", "not a bad film", "dull", "--html", page]
    found = told(*call, "--method", "cp-lrp,loo, cp-lrp")
    assert found["method"] == "cp-lrp,loo"
    assert [x["method"] for x in found["texts"]] == ["cp-lrp", "cp-lrp", "loo", "loo"]
    loaded = models.load("embedded")
    for x in found["texts"]:
        want = explain(loaded.model, loaded.tokenizer, x["text"], method=x["method"])
        assert x["relevance"] == want.relevance[0].tolist()
    assert "cp-lrp, loo: 2 texts" in page.read_text()


def test_a_budget_is_of_the_methods_that_have_one(told):
    call = ["explain", "embedded", "not a bad film", "--method", "loo,cp-lrp", "--budget", 3]
    loo, lrp = told(*call)["texts"]
    loaded = models.load("embedded")
    want = explain(loaded.model, loaded.tokenizer, loo["text"], method="loo", budget=3)
    assert loo["relevance"] == want.relevance[0].tolist()
    assert lrp["method"] == "cp-lrp"


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_a_model_is_loaded_in_a_dtype(told, dtype):
    (found,) = told("explain", "embedded", "not a bad film", "--dtype", dtype)["texts"]
    loaded = models.load("embedded", dtype=dtype)
    assert loaded.model.dtype == getattr(torch, dtype)
    want = explain(loaded.model, loaded.tokenizer, "not a bad film")
    assert found["relevance"] == want.relevance[0].tolist()


def test_a_long_text_is_cut_at_its_end_for_a_class(told):
    text = "not a bad film " * 200
    found = told("explain", "embedded", text, "--truncate")
    loaded = models.load("embedded")
    inputs = loaded.tokenizer([text], return_tensors="pt", truncation=True, max_length=512)
    want = attribute(loaded.model, inputs)
    assert found["texts"][0]["relevance"] == want.relevance[0].tolist()
    assert found["notes"] == ["--truncate: the first 512 of 802 tokens are explained"]


def test_a_long_text_is_cut_at_its_beginning_for_a_next_token(told):
    text = "anna apple bert pen ; " * 20 + "anna"
    found = told("explain", "embedded-lm", text, "--truncate")
    loaded = models.load("embedded-lm")
    ids = loaded.tokenizer([text])["input_ids"][0]
    tokens = found["texts"][0]["tokens"]
    kept = loaded.tokenizer.convert_ids_to_tokens(ids[-63:])
    assert (len(tokens), tokens[-63:]) == (64, kept)
    assert tokens[0] == loaded.tokenizer.convert_ids_to_tokens(ids[:1])[0]
    assert f"the last 64 of {len(ids)} tokens are explained" in found["notes"][0]
    assert loaded.tokenizer.truncation_side == "right"


def test_an_audit_cuts_as_an_explanation_does(told, tmp_path, checkpoint):
    folder = write_heads(checkpoint, tmp_path) / "classes"
    text = "a fine film . " * 20
    audited, found = (told(x, folder, text, "--truncate") for x in ("audit", "explain"))
    (explained,) = found["texts"]
    assert [x["token"] for x in audited["tokens"]] == explained["tokens"]
    relevance = [x["relevance"] for x in audited["tokens"]]
    assert relevance == pytest.approx(explained["relevance"], abs=1e-5)
    assert audited["notes"][-1] == found["notes"][-1]


def test_a_text_that_fits_is_not_cut(told):
    plain, cut = (told("explain", "embedded", "not a bad film", *x) for x in ([], ["--truncate"]))
    assert plain == cut


def test_a_note_on_pairs_counts_the_parts_that_are_left_out(told):
    """Three sentences of many tokens have three pairs, and take no note."""
    text = " . ".join(["a fine film with a weak end and " * 5] * 3)
    found = told("interactions", "embedded", text, "--by", "sentence")
    assert len(found["parts"]) == 3
    assert found["notes"] == []
    found = told("interactions", "embedded", text, "--estimate", "--budget", 0)
    assert len(found["parts"]) > MANY


def test_files_and_judgements_take_a_dtype(told, tmp_path):
    lines, folder = tmp_path / "texts.txt", tmp_path / "maps"
    lines.write_text("not a bad film\na dull film\n")
    told("attribute", lines, "--dtype", "float64", "--output", folder)
    loaded = models.load("embedded", dtype="float64")
    (first, _) = pq.read_table(folder / "part-000000000000.parquet").to_pylist()
    want = explain(loaded.model, loaded.tokenizer, "not a bad film").relevance[0]
    assert torch.tensor(first["relevance"], dtype=torch.float64).allclose(want, rtol=1e-6)
    call = ["evaluate", folder, "--measure", "r", "--output", tmp_path]
    ((wide,), (plain,)) = (told(*call, "--dtype", x)["rows"] for x in ("float64", "float32"))
    assert wide["r"] == pytest.approx(plain["r"], abs=1e-4)
    assert wide["r"] != plain["r"]


@pytest.mark.parametrize("command", ["attribute", "evaluate", "explain", "interactions"])
def test_a_dtype_that_torch_has_not_is_refused(run, command, tmp_path):
    given = [tmp_path] if command in ("attribute", "evaluate") else ["embedded", "a film"]
    code, _, err = run(command, *given, "--dtype", "float99")
    assert code == 2
    assert "--dtype float99: pass float32, float64, bfloat16, float16" in err


def test_a_plan_of_a_long_text_is_of_its_beginning(told, run):
    text = "not a bad film " * 200
    cut, short = told("plan", "embedded", text, "--truncate"), told("plan", "embedded", "a film")
    assert cut.pop("notes") == ["--truncate: the first 512 of 802 tokens are explained"]
    assert not short.pop("notes")
    assert cut == short
    code, _, err = run("plan", "embedded", text)
    assert (code, "--truncate" in err) == (2, True)


def test_words_are_of_written_texts_alone(run):
    code, _, err = run("explain", "embedded", "a fine film", "--by", "word")
    assert code == 2
    assert "--by word: only with --generate and --answer" in err
