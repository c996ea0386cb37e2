"""Every call of the operating system fails once, such as on a full or broken disk."""

import re
from collections import Counter
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from nbformat import v4

from axioms.evidence import certificates
from axioms.writing import write_atomically
from benchmarks.commands import output
from benchmarks.errors import RunError
from benchmarks.experiments import explained as experiment
from benchmarks.experiments import report
from benchmarks.experiments.result import Result
from benchmarks.running import blocks, manifest, runner
from benchmarks.sources import models
from numeric.results import stored
from paper_notebooks import build
from tests.support import bad_folders, folders
from tests.support.failing import Disk
from tests.support.traces import every_file

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["a fine film", "a dull film", "a fine soup ."]
NOTES = {"notes.txt": b"of years", "blocks/mine.txt": b"of years"}


@pytest.fixture
def explained(run, tmp_path, monkeypatch):
    """``attribute`` with a tiny model and blocks of one text, each explained at most once."""
    classifier = models.load(str(folders.tiny(tmp_path / "model")))
    known, explain = {}, experiment.explain_block

    def explained_once(*given):
        *_, block = given
        if block.first not in known:
            known[block.first] = explain(*given)
        return pa.table(known[block.first].columns, known[block.first].column_names)

    monkeypatch.setattr(models, "load", lambda *_, **__: classifier)
    monkeypatch.setattr(experiment, "explain_block", explained_once)
    monkeypatch.setattr(experiment.text, "check", lambda *_: None)
    monkeypatch.setattr(blocks, "ROWS", (1, 1, 1))
    monkeypatch.setattr(manifest, "SECONDS", -1)
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS))
    return lambda folder: run("attribute", file, "--output", folder)


def rows(folder):
    tables = map(pq.read_table, sorted(folder.glob("part-*")))
    return [row for table in tables for row in table.to_pylist()]


def test_a_run_whose_disk_fails_says_so_and_goes_on(explained, tmp_path, monkeypatch):
    explained(tmp_path / "size")
    (entry,) = runner.verify(tmp_path / "size").files
    monkeypatch.setattr(manifest, "SIZE", int(1.5 * entry.bytes / len(TEXTS)))
    assert explained(tmp_path / "whole")[0] == 0
    whole = rows(tmp_path / "whole")
    for at in count():
        folder = tmp_path / str(at)
        folder.mkdir()
        (folder / "notes.txt").write_bytes(NOTES["notes.txt"])
        with monkeypatch.context() as patch:
            disk = Disk(patch, folder, at)
            code, _, err = explained(folder)
        if not disk.failed:
            break
        assert (code, err.count("error: ")) in ((0, 0), (2, 1)), (disk.failed, err)
        texts = [row["example"] for row in rows(folder)]
        assert sorted(set(texts)) == sorted(texts)
        foreign = {"notes.txt"}
        if (folder / "blocks").exists():
            (folder / "blocks" / "mine.txt").write_bytes(NOTES["blocks/mine.txt"])
            foreign.add("blocks/mine.txt")

        code, _, err = explained(folder)

        assert code == 0, (disk.failed, err)
        assert rows(folder) == whole
        found = every_file(folder)
        assert all(found.pop(name) == NOTES[name] for name in foreign), disk.failed
        assert {*found} == {*every_file(tmp_path / "whole")}, disk.failed
    assert at > 100


RESULT = {key: bad_folders.RESULT[key] for key in ("name", "table", "title", "text", "settings")}


def _result(folder, word):
    Result(**RESULT, rows=[], provenance={"word": word}, examples={"word": [word]}).write(folder)


def _report(folder, word):
    content = bad_folders.result(notes=[word], seconds=0.0)
    write_atomically(folder / "time.json", content.encode())
    report.write(folder)


WRITERS = {
    "a saved explanation": lambda folder, word: stored.write(
        folder / "one", "attribution", {}, {"word": word}
    ),
    "a picture of each text": lambda folder, word: output.write_each(
        "--png", folder / "a.png", "ab", lambda item: (word + item).encode()
    ),
    "a certificate": lambda folder, word: certificates._write(folder / "1.json", {"word": word}),
    "a notebook": lambda folder, word: build._write(
        v4.new_notebook(metadata={"word": word}), folder / "a.ipynb"
    ),
    "a result": _result,
    "a report": _report,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_whose_disk_fails_is_the_old_or_the_new_one(tmp_path, monkeypatch, name):
    write, written = WRITERS[name], {}
    section = lambda result: {"result": result, "markdown": []}
    monkeypatch.setattr(report, "_section", section)  # the real one is slow
    monkeypatch.setattr(
        report, "render", lambda sections: report.TITLE + sections[0]["result"].notes[0]
    )
    monkeypatch.setattr(stored, "save", lambda _, about: about["facts"].encode())  # in one order
    for word in ("old", "new"):
        (tmp_path / word).mkdir()
        write(tmp_path / word, word)
        written[word] = every_file(tmp_path / word)
    assert not any(written["old"][each] == written["new"][each] for each in written["old"])
    for at in count():
        folder = tmp_path / str(at)
        folder.mkdir()
        write(folder, "old")
        with monkeypatch.context() as patch:
            disk = Disk(patch, folder, at)
            try:
                write(folder, "new")
            except (OSError, RunError, MemoryError, typer.Exit):
                assert disk.failed
        if not disk.failed:
            break
        for each, content in every_file(folder).items():
            assert content in (written["old"][each], written["new"][each]), (each, disk.failed)
        write(folder, "new")
        assert every_file(folder) == written["new"], disk.failed
    assert at > 5


WRITES = re.compile(r"\.write_(text|bytes|table)\(|\.open\(\"[wax]|save_file\(|nbformat\.write\(")
PAGES = re.compile(r"(PAGE|KEPT)\.write_text\(")  # pages of this project are in git
TEMPORARY = {"workers.py": 1, "memory.py": 1, "kills.py": 1}  # below a TemporaryDirectory


def test_no_file_is_written_another_way():
    found = Counter()
    for room in ("axioms", "numeric", "benchmarks", "paper_notebooks"):
        for path in (ROOT / room).rglob("*.py"):
            lines = path.read_text("utf-8").splitlines()
            wrong = [x for x in lines if WRITES.search(x) and not PAGES.search(x)]
            if path.name == "folders.py":  # into a draft
                wrong = [x for x in wrong if "writer.write_table(" not in x]
            found[path.name] += len(wrong)
    assert +found == TEMPORARY | {"writing.py": 2}
