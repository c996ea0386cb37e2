"""``lrp-axioms attribute``: every text of a file as rows of Parquet, on any engine, resumable."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers
import torch
import transformers

from benchmarks.experiments import explained, text
from benchmarks.experiments.rows import Row
from benchmarks.running import blocks, manifest
from benchmarks.sources import data, models, tokens
from numeric import attribute
from tests.support import cases

TEXTS = ["a fine film", "not bad , but far too long to be any good", "dull"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "reviews.txt"
    path.write_text("\n".join(TEXTS) + "\n", "utf-8")
    return path


def rows(folder):
    parts = sorted(folder.glob("part-*.parquet"))
    return pa.concat_tables(map(pq.read_table, parts)).to_pylist()


def test_every_text_is_explained_by_every_method(run, file, tmp_path, loaded):
    folder = tmp_path / "found"
    methods = ("--method", "loo", "--method", "cp-lrp")
    code, out, err = run("attribute", file, *methods, "--output", folder)
    assert (code, err) == (0, "")
    assert f"3 texts, loo, cp-lrp: wrote {folder}/part-*.parquet" in out
    assert out.endswith(
        f'read them with\ndatasets.load_dataset("parquet", data_files="{folder}/part-*.parquet")\n'
    )
    found = {(row["method"], row["example"]): row for row in rows(folder)}
    assert set(found) == {(m, n) for m in ("loo", "cp-lrp") for n in range(3)}
    for (method, n), row in found.items():
        inputs = loaded.tokenizer([TEXTS[n]], return_tensors="pt")
        alone = attribute(loaded.model, inputs, method)
        assert row["text"] == TEXTS[n]
        ids = inputs.input_ids[0].tolist()
        assert row["token"] == loaded.tokenizer.convert_ids_to_tokens(ids)
        assert row["target"] == alone.target.item()
        found_here = torch.tensor(row["relevance"])
        torch.testing.assert_close(found_here, alone.relevance[0], rtol=0, atol=1e-5)
        assert row["logit"] == pytest.approx(sum(row["relevance"]) + row["residual"], abs=1e-4)


def test_texts_of_python_that_cannot_be_explained_are_named(tmp_path, loaded):
    options = {"name": "mine", "output": tmp_path / "found"}
    texts = ["a film", None, "", float("nan"), b"dull", "\ud800", None]
    says = (
        r"^mine: no text in texts 2, 3, 7; float in place of text in text 4; bytes .* in text 5; "
        r"half a character .* in text 6; leave out what is no text$"
    )
    with pytest.raises(ValueError, match=says):
        explained.explain_texts(loaded, iter(texts), **options)
    for wrong in ({"texts": "a film"}, {"methods": "loo"}, {"methods": []}):
        with pytest.raises(ValueError, match="texts and methods are lists; pass"):
            explained.explain_texts(loaded, **{"texts": texts} | wrong, **options)


def test_each_text_is_tokenised_once_and_of_a_long_one_only_a_start(tmp_path, loaded, monkeypatch):
    texts = ["a fine , fine film", *TEXTS, "a dull film " * 100_000]
    kind, seen = type(loaded.tokenizer), []
    call = kind.__call__
    spy = lambda self, given, *rest, **options: (
        seen.extend(given) or call(self, given, *rest, **options)
    )
    monkeypatch.setattr(kind, "__call__", spy)
    explained.explain_texts(loaded, texts, name="mine", output=tmp_path / "found")
    tried, few = texts[0], "a fine ,"  # before the run: one text, a timed pass, a row
    limit = text.limit(loaded.model)
    assert [x for x in seen if len(x) <= 100] == [tried, few, few, *texts[:-1]]
    (start,) = [x for x in seen if len(x) > 100]
    assert len(start) <= tokens.LETTERS * limit < 10_000
    assert texts[-1].startswith(start)
    found = rows(tmp_path / "found")[-1]
    whole = loaded.tokenizer(texts[-1], truncation=True, max_length=limit)
    assert found["text"] == texts[-1]
    assert found["token"] == loaded.tokenizer.convert_ids_to_tokens(whole.input_ids)


def test_what_a_library_prints_is_no_part_of_the_answer(run, file, tmp_path, monkeypatch):
    """Ray prints a notice where a worker is lost."""
    lost, explain = "(raylet) A worker died", explained.explain_texts
    loud = lambda *given, **options: print(lost) or explain(*given, **options)
    monkeypatch.setattr(explained, "explain_texts", loud)
    code, out, err = run("attribute", file, "--json", "--output", tmp_path / "found")
    assert (code, err) == (0, f"{lost}\n")
    assert json.loads(out)["texts"] == 3


QUOTED = ['" a fine, fine film', "dull"]
FORMATS = {
    "csv": 'stars,review\n3,""" a fine, fine film"\n1,dull\n',
    "tsv": 'stars\treview\n3\t" a fine, fine film\n1\tdull\n',
    "jsonl": '{"stars": 3, "review": "\\" a fine, fine film"}\n{"stars": 1, "review": "dull"}\n',
    "parquet": None,
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_files_of_columns_are_read(run, suffix, tmp_path):
    path = tmp_path / f"reviews.{suffix}"
    if FORMATS[suffix]:
        path.write_text(FORMATS[suffix], "utf-8")
    else:
        pq.write_table(pa.table({"stars": [3, 1], "review": QUOTED}), path)
    code, _, err = run("attribute", path, "--text-column", "review", "--output", tmp_path / "found")
    assert (code, err) == (0, "")
    by_example = {row["example"]: row["text"] for row in rows(tmp_path / "found")}
    assert by_example == dict(enumerate(QUOTED))


def test_a_stopped_run_goes_on_and_another_file_is_not_mixed_in(run, file, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "ROWS", (1, 1, 1))
    monkeypatch.setattr(manifest, "SIZE", 1)
    folder = tmp_path / "found"
    assert run("attribute", file, "--output", folder)[0] == 0
    whole = rows(folder)
    (folder / "part-000000000001.parquet").unlink()
    code, _, err = run("attribute", file, "--output", folder)
    assert code == 0
    assert "found resumed; texts done before: 2" in err
    assert rows(folder) == whole
    file.write_text("another text\n", "utf-8")
    code, _, err = run("attribute", file, "--output", folder)
    assert code == 2
    assert "holds results of other texts (1 to 1 are not those of now)" in err
    assert json.loads((folder / "record.json").read_text())["record"]["dataset"] == "reviews.txt"


def test_a_run_is_verified_without_its_texts_and_its_model(run, file, tmp_path, monkeypatch):
    folder = tmp_path / "found"
    assert run("attribute", file, "--output", folder)[0] == 0
    file.unlink()
    monkeypatch.setattr(models, "load", None)
    (part,) = folder.glob("part-*.parquet")
    says = f"{folder}: no file has changed since its run (texts: 3, files: 1)\n"
    assert run("attribute", "--verify", folder) == (0, says, "")
    found = json.loads(run("attribute", "--verify", folder, "--json")[1])
    assert (found["texts"], found["verified"]) == (3, [str(part)])
    part.write_bytes(part.read_bytes()[:-1] + b"0")
    for place, line in ((folder, f"{part}: SHA-256 "), (tmp_path / "none", "it has no record")):
        code, out, err = run("attribute", "--verify", place)
        assert (code, out, err.count("error:")) == (2, "", 1)
        assert line in err


WORDS = ("<s>", "<pad>", *" ".join(TEXTS).split(), "?")


def tokenizer(*, first="<s>", pad="<pad>", side="right"):
    """One token per word, behind ``first``."""
    rules = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: n for n, word in enumerate(dict.fromkeys(WORDS))}, "?")
    )
    rules.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if first:
        rules.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{first} $A", special_tokens=[(first, 0)]
        )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=rules, unk_token="?", bos_token=first, pad_token=pad, padding_side=side,
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip


def saved(folder, family, *, pad=1, kind=None, **options):
    """A random model of a family, or of a class ``kind``, and its tokenizer, as a folder."""
    model = cases.family(family, pad_token_id=pad)[0].float()
    if kind:
        torch.manual_seed(0)
        model = getattr(transformers, kind)(model.config)
    model.save_pretrained(folder)
    made = tokenizer(pad="<pad>" if pad else None, **options)
    made.eos_token = kind and "<s>"
    made.save_pretrained(folder)
    return folder


FOUR = (*TEXTS, "a good film")  # the last as long as the first


def assert_each_is_as_alone(found, classifier):
    assert sorted(row["example"] for row in found) == list(range(len(FOUR)))
    for row in found:
        inputs = classifier.tokenizer([FOUR[row["example"]]], return_tensors="pt")
        alone = attribute(classifier.model, inputs)
        want = [alone.relevance[0].tolist(), alone.logit.item(), alone.target.item()]
        assert row["relevance"] == pytest.approx(want[0], rel=1e-4, abs=1e-5)
        assert [row["logit"], row["target"]] == pytest.approx(want[1:], rel=1e-4, abs=1e-5)
        assert row["content"] == [False] + [True] * len(FOUR[row["example"]].split())


@pytest.mark.parametrize("pad", [1, None], ids=["pads", "cannot pad"])
@pytest.mark.parametrize(("family", "kind"), [
    ("gpt2", None), ("gpt2", "GPT2LMHeadModel"), ("llama", None), ("llama", "LlamaForCausalLM"),
])  # fmt: skip
def test_a_decoder_explains_each_text_as_if_alone(run, file, tmp_path, family, kind, pad):
    folder = saved(tmp_path / "model", family, pad=pad, kind=kind, side="left")
    file.write_text("\n".join(FOUR), "utf-8")
    code, _, err = run("attribute", file, "--model", folder, "--output", tmp_path / "found")
    assert code == 0, err
    assert_each_is_as_alone(rows(tmp_path / "found"), models.load(str(folder)))


@pytest.mark.parametrize("side", ["left", "right"])
def test_what_is_stored_of_a_padded_text_is_where_its_tokens_are(tmp_path, monkeypatch, side):
    """LLaMA, whose answer does not depend on padding, in one shard."""
    classifier = models.load(str(saved(tmp_path / "model", "llama", side=side)))
    row = Row(
        name="all", table="attribute", dataset="texts", model="llama", curves=False,
        variants={"attnlrp": {"method": "attnlrp"}},
    )  # fmt: skip
    monkeypatch.setattr(text, "shards", lambda *_: [[2, 0, 1, 3]])
    found = explained.explain_block(row, classifier, "cpu", blocks.block(0, FOUR))
    assert_each_is_as_alone(found.to_pylist(), classifier)


def test_a_decoder_is_padded_with_the_id_by_which_it_finds_the_last_token(tmp_path):
    texts = data.unlabelled("texts", ["a b c", "a", "b", "b c d", "a b c d", "c", "d"])
    for pad, want in (
        (1, [[1, 2, 5], [6, 0, 3], [4]]),
        (9, [[1, 2, 5], [6], [0, 3], [4]]),  # the tokenizer has another id
        (None, [[1], [2], [5], [6], [0], [3], [4]]),
    ):
        classifier = models.load(str(saved(tmp_path / str(pad), "gpt2", pad=pad)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text, "SHARD", (3, 4096, 4096))
            assert text.shards(classifier, texts) == want


def test_a_long_text_is_cut_where_a_model_that_counts_from_its_padding_ends(run, file, tmp_path):
    folder = saved(tmp_path / "model", "roberta")
    file.write_text("film " * 50, "utf-8")
    code, out, err = run("attribute", file, "--model", folder, "--output", tmp_path / "found")
    assert code == 0, err
    assert "1 texts fill all 18 positions" in out  # of 20, two stand for padding
    assert "has been cut" in out
    assert [row["tokens"] for row in rows(tmp_path / "found")] == [18]


def test_a_text_without_a_token_is_named_with_its_number(run, file, tmp_path):
    folder = tmp_path / "model"
    cases.family("gpt2", pad_token_id=1)[0].float().save_pretrained(folder)
    made = tokenizer(first=None)
    made.backend_tokenizer.normalizer = tokenizers.normalizers.Replace("\u200b", "")
    made.save_pretrained(folder)
    for texts, number in ((["\u200b", "a"], 1), (["a", "a fine a", "\u200b"], 3)):
        file.write_text("\n".join(texts), "utf-8")
        code, _, err = run("attribute", file, "--model", folder, "--output", tmp_path / str(number))
        assert code == 2
        assert f"makes no token of text {number} ('\\u200b'); leave out" in err


def test_a_text_that_breaks_its_batch_is_named_alone(run, file, tmp_path):
    classifier, folder = models.load(), tmp_path / "model"
    (broken,) = classifier.tokenizer(["dull"]).input_ids[0][1:-1]
    with torch.no_grad():
        classifier.model.get_input_embeddings().weight[broken] = torch.nan
    classifier.model.save_pretrained(folder)
    classifier.tokenizer.save_pretrained(folder)
    file.write_text("a fine film\nnot bad\na dull film\nfine\na dull day\n", "utf-8")
    code, _, err = run("attribute", file, "--model", folder, "--output", tmp_path / "found")
    assert code == 2
    assert "non-finite logits" in err
    assert err.rstrip().endswith("(of texts 3, 5)")


def test_the_limit_of_other_models_is_what_their_config_says(tmp_path):
    for family in ("bert", "llama", "gpt2"):
        classifier = models.load(str(saved(tmp_path / family, family)))
        limit = text.settings(classifier, data.unlabelled("texts", TEXTS))["tokens_at_most"]
        assert limit == 20
