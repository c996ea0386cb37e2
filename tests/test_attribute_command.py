"""``lrp-axioms attribute``: every text of a file as rows of Parquet, on any engine, resumable."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from benchmarks import models, text
from numeric import attribute

TEXTS = ["a fine film", "not bad , but far too long to be any good", "dull"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "reviews.txt"
    path.write_text("\n".join(TEXTS) + "\n", "utf-8")
    return path


def rows(folder):
    parts = sorted(folder.glob("part-*.parquet"))
    return pa.concat_tables(map(pq.read_table, parts)).to_pylist()


def test_every_text_is_explained_by_every_method(run, file, tmp_path):
    folder = tmp_path / "found"
    code, out, err = run(
        "attribute", file, "--method", "loo", "--method", "cp-lrp", "--output", folder
    )
    assert (code, err) == (0, "")
    assert f"3 texts, loo, cp-lrp: wrote {folder}/part-*.parquet" in out
    found = {(row["method"], row["example"]): row for row in rows(folder)}
    assert set(found) == {(m, n) for m in ("loo", "cp-lrp") for n in range(3)}
    classifier = models.load()
    for (method, n), row in found.items():
        inputs = classifier.tokenizer([TEXTS[n]], return_tensors="pt")
        alone = attribute(classifier.model, inputs, method)
        assert row["text"] == TEXTS[n]
        assert row["token"] == classifier.tokenizer.convert_ids_to_tokens(
            inputs.input_ids[0].tolist()
        )
        assert row["target"] == alone.target.item()
        found_here = torch.tensor(row["relevance"])
        torch.testing.assert_close(found_here, alone.relevance[0], rtol=0, atol=1e-5)
        assert row["logit"] == pytest.approx(sum(row["relevance"]) + row["residual"], abs=1e-4)


FORMATS = {
    "csv": 'stars,review\n3,"a fine, fine film"\n1,dull\n',
    "tsv": "stars\treview\n3\ta fine, fine film\n1\tdull\n",
    "jsonl": '{"stars": 3, "review": "a fine, fine film"}\n{"stars": 1, "review": "dull"}\n',
    "parquet": None,
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_files_of_columns_are_read(run, suffix, tmp_path):
    path, want = tmp_path / f"reviews.{suffix}", ["a fine, fine film", "dull"]
    if FORMATS[suffix]:
        path.write_text(FORMATS[suffix], "utf-8")
    else:
        pq.write_table(pa.table({"stars": [3, 1], "review": want}), path)
    code, _, err = run("attribute", path, "--column", "review", "--output", tmp_path / "found")
    assert (code, err) == (0, "")
    by_example = {row["example"]: row["text"] for row in rows(tmp_path / "found")}
    assert by_example == dict(enumerate(want))


def test_a_stopped_run_goes_on_and_another_file_is_not_mixed_in(run, file, tmp_path, monkeypatch):
    monkeypatch.setattr(text, "SHARD", (1, 4096))
    folder = tmp_path / "found"
    assert run("attribute", file, "--output", folder)[0] == 0
    whole = rows(folder)
    (folder / "part-00001.parquet").unlink()
    code, _, err = run("attribute", file, "--output", folder)
    assert code == 0
    assert "found resumed: 2 of 3 parts were there" in err
    assert rows(folder) == whole
    file.write_text("another text\n", "utf-8")
    code, _, err = run("attribute", file, "--output", folder)
    assert code == 2
    assert "holds results of another configuration" in err
    assert json.loads((folder / "record.json").read_text())["record"]["dataset"] == "reviews.txt"


def test_a_text_that_is_cut_is_said(run, file, tmp_path):
    file.write_text("word " * 1000, "utf-8")
    out = run("attribute", file, "--output", tmp_path / "found")[1]
    assert "1 texts fill all" in out
    assert "has been cut" in out


MENDABLE = {
    "no file": (["missing.txt"], "missing.txt"),
    "a suffix that is not read": (["notes.md"], "'.md' are not read; pass one of .txt, .csv"),
    "no such column": (["stars.csv"], "no column 'text'; pass --column, one of stars, review"),
    "a column of numbers": (["stars.csv", "--column", "stars"], "no text in lines 1, 2"),
    "an empty line": (["gap.txt"], "no text in lines 2 (of records)"),
    "an empty file": (["empty.txt"], "empty.txt has no texts"),
    "no table": (["broken.parquet"], "broken.parquet"),
    "an unknown method": (["good.txt", "--method", "grad"], "--method grad: pass attnlrp, cp-lrp"),
    "an unknown engine": (["good.txt", "--engine", "spark"], "the engines are local, ray"),
}


@pytest.mark.parametrize("case", MENDABLE)
def test_what_a_user_can_mend_is_one_message(run, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in {
        "notes.md": "a", "stars.csv": "stars,review\n3,fine\n1,dull\n", "gap.txt": "a\n\nb\n",
        "empty.txt": "", "broken.parquet": "no", "good.txt": "fine\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(content, "utf-8")
    arguments, part = MENDABLE[case]
    code, out, err = run("attribute", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert part in err
    assert not (tmp_path / "results").exists()
