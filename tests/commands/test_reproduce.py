"""The commands ``reproduce`` and ``report``: files, resumed runs, and folders that are refused."""

import errno
import gzip
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from benchmarks import cli
from benchmarks.experiments import report, reproduce, rows, tables, text, theorems
from benchmarks.experiments.record import Request, experiment
from benchmarks.experiments.result import read
from benchmarks.sources import data, models
from numeric.spelling import printable
from tests.support import program
from tests.support.traces import contents

ALL = (".json", ".parquet", ".png")
FILES = {"table1": ALL, "table2-embedded": ALL, "figure2-embedded": ALL}
FILES |= {"theorems": (".json",), "time": (".json", ".png")}
ROWS = [name for name in rows.names() if name.startswith("table2-sst2-")]
FOLDERS = {name.replace("sst2", "embedded") for name in ROWS}
FOLDERS |= {"figure2-embedded-maps", "figure2-embedded-identity"}
REPORT = {"report.html", "report.md"}


def test_reproduce_writes_everything_twice_the_same(run, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = tmp_path / "first" / "deep", Path("second")
    code, out, err = run("reproduce", "--examples", 3, "--output", first)
    assert (code, err) == (0, "")
    assert str(first / "report.html") in out
    assert max(len(line.rstrip()) for line in out.splitlines() if str(first) not in line) <= 80
    assert run("reproduce", "--examples", 3, "--output", second)[0] == 0
    expected = {f"{name}{end}" for name, ends in FILES.items() for end in ends} | REPORT | FOLDERS
    for folder in (first, second):
        assert {path.name for path in folder.iterdir()} == expected
    for name in FILES:
        mine, other = (program.strict_json(folder / f"{name}.json") for folder in (first, second))
        check_record(mine, name)
        if name != "time":
            assert without_time(mine) == without_time(other)
    for path in first.rglob("*.parquet"):
        assert pq.read_table(path).equals(pq.read_table(second / path.relative_to(first))), path
    check_examples(pq.read_table(first / "table2-embedded.parquet").to_pydict())
    for path in first.glob("*.png"):
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("L"))
        assert pixels.shape[1] >= 800
        assert pixels.min() < 80
        assert pixels.max() == 255
    check_report(first / "report.html")
    check_markdown((first / "report.md").read_text(encoding="utf-8"))


def check_record(record, name):
    assert record["name"] == name
    assert record["table"] == name.removesuffix("-embedded")
    assert record["rows"]
    assert record["settings"]
    assert {"date", "python", "torch", "lrp-axioms", "threads"} <= set(record["provenance"])
    if name.endswith("-embedded"):
        assert record["settings"]["examples"] == 3
        assert record["settings"]["model_sha256"] == models.load().sha256
        assert len(record["settings"]["dataset_sha256"]) == 64


def without_time(record):
    rows = [{key: row[key] for key in row if key != "seconds"} for row in record["rows"]]
    settings = {key: x for key, x in record["settings"].items() if key != "measured by commits"}
    return {"rows": rows, "settings": settings, "notes": record["notes"], "title": record["title"]}


def check_examples(columns):
    labels = [label for name in ROWS for label in rows.load(name).variants]
    assert sorted(columns["example"]) == sorted([0, 1, 2] * len(labels))
    assert {"method", "r all", "r content", "LeRF", "MoRF", "logit", "target"} <= set(columns)


def check_report(path):
    page = program.Page(path)
    assert page.loads
    assert all(url.startswith(("#", "data:image/png;base64,")) for url in page.loads)
    assert "url(" not in path.read_text(encoding="utf-8")
    assert "script" not in page.tags
    assert "prefers-color-scheme: dark" in path.read_text(encoding="utf-8")
    assert set(FILES) <= page.ids
    assert page.tags.count("img") == 4
    assert page.tags.count("table") == 5
    assert "One [b]is[/b] two." in page.words
    assert "Of 2 statements about LRP rules: 1 proved, 1 refuted." in page.words
    assert "With fewer than 20 texts" in page.words
    assert "Provenance" in page.words


def check_markdown(text):
    headings = re.findall("^### (.*)$", text, flags=re.MULTILINE)
    assert len(headings) == len(FILES)
    assert "### Table 2: agreement with Leave-One-Out on 3 texts of 'embedded'" in text
    assert re.search(r"^\| CP-LRP \| .* \|$", text, flags=re.MULTILINE)
    assert re.search(r"^-  ?.*the paper has 0.52 against 0.22", text, flags=re.MULTILINE)
    assert "One [b]is[/b] two." not in text  # the list of theorems is long


# Choosing, interrupting and resuming


@pytest.fixture
def measured(monkeypatch):
    """The row of every shard that is measured."""
    names = []

    measure_of = text.measure_of
    noted = lambda row, *given: names.append(row.name) or measure_of(row)(row, *given)
    monkeypatch.setattr(text, "measure_of", lambda _: noted)
    monkeypatch.setattr(text, "check", lambda *_: Counter())  # which measures, too
    return names


@pytest.mark.filterwarnings("ignore::numeric.methods.amplification.AmplifiedRelevance")
def test_chosen_tables_use_what_the_folder_holds(run, tmp_path, measured):
    assert run("reproduce", "special", "--examples", 2, "--output", tmp_path)[0] == 0
    assert sorted(measured) == [f"table2-embedded-{m}" for m in ("attnlrp", "cp-lrp", "loo")]
    measured.clear()
    more = ("reproduce", "softmax", "sensitivity", "special", "--examples", 2)
    code, out, err = run(*more, "--output", tmp_path)
    assert (code, err) == (0, "")
    assert max(len(line.rstrip()) for line in out.splitlines() if str(tmp_path) not in line) <= 80
    places = [out.index(x) for x in ("[CLS] and [SEP]: what", "Open choices:", "§3.2 measured:")]
    assert places == sorted(places)
    assert sorted(measured) == ["figure2-embedded-maps", "sensitivity-embedded", "softmax-embedded"]
    measured.clear()
    assert run(*more, "--output", tmp_path)[0] == 0
    assert measured == []
    page = program.Page(tmp_path / "report.html")
    assert {f"{x}-embedded" for x in ("special", "sensitivity", "softmax")} <= page.ids
    assert page.tags.count("table") == 3


def test_the_curves_of_figure_2_are_measured_when_asked_for(run, tmp_path, measured):
    arguments = ("reproduce", "figure2", "--examples", 2, "--output", tmp_path)
    found = {}
    for option in ((), ("--curves",)):
        code, out, err = run(*arguments, *option)
        assert (code, err) == (0, "")
        found[option] = program.strict_json(tmp_path / "figure2-embedded.json")["rows"]
        shown = " ".join(out.split())
        assert ("`lrp-axioms reproduce figure2 --curves` measures it" in shown) == (not option)
    maps = ["figure2-embedded-maps", "figure2-embedded-identity"]
    assert measured == ["table2-embedded-loo", *maps, "figure2-embedded"]
    for quick, whole in zip(*found.values(), strict=True):
        assert {"Δ", "LeRF", "MoRF"} <= whole.keys() - quick.keys()
        assert quick == {key: whole[key] for key in quick}


def test_an_interrupted_run_goes_on_where_it_was_stopped(run, tmp_path, monkeypatch, measured):
    monkeypatch.setattr(text, "SHARD", (1, 4096, 4096))
    measure_of = text.measure_of

    def stop(row, *arguments):
        if len(measured) == 3:
            raise KeyboardInterrupt
        return measure_of(row)(row, *arguments)

    arguments = ("reproduce", "special", "--examples", 2, "--output", tmp_path)
    monkeypatch.setattr(text, "measure_of", lambda _: stop)
    code, _, err = run(*arguments)
    assert code == 130
    assert "Traceback" not in err
    files = [x for p in tmp_path.rglob("manifest.json") for x in program.strict_json(p)["files"]]
    assert sum(each["end"] - each["first"] for each in files) == len(measured) == 3
    assert not (tmp_path / "special-embedded.json").exists()
    monkeypatch.setattr(text, "measure_of", measure_of)
    code, _, err = run(*arguments)
    assert code == 0
    assert len(measured) == 6  # two texts by three methods
    assert err.splitlines() == ["table2-embedded-attnlrp resumed; texts done before: 1"]
    whole = tmp_path / "whole"
    code, _, err = run(*arguments[:-1], whole)
    assert (code, err) == (0, "")
    mine, other = (program.strict_json(f / "special-embedded.json") for f in (tmp_path, whole))
    assert without_time(mine) == without_time(other)
    assert "Run the command again to go on" in " ".join(run("reproduce", "--help")[1].split())


def test_a_folder_of_another_run_and_a_broken_part_are_one_message(run, tmp_path, measured):
    arguments = ("reproduce", "special", "--output", tmp_path)
    assert run(*arguments, "--examples", 1)[0] == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    measured.clear()
    code, out, err = run(*arguments, "--examples", 2)
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("error:") == 1
    assert "table2-embedded-loo holds results of another configuration" in err
    assert re.search(r"^  examples: 1 there, 2 now$", err, flags=re.MULTILINE)
    assert re.search(r"^  dataset_sha256: '\w{64}' there, '\w{64}' now$", err, flags=re.MULTILINE)
    assert "[CLS]" not in out
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert measured == []
    part = tmp_path / "table2-embedded-cp-lrp" / "part-000000000000.parquet"
    part.write_bytes(part.read_bytes()[:-10])
    code, _, err = run(*arguments, "--examples", 1)
    assert (code, err.count("error:")) == (2, 1)
    assert "files have changed since their run" in err
    assert str(part) in err
    assert measured == []


def test_the_model_of_the_paper_is_that_of_the_row(run, tmp_path, monkeypatch):
    asked, loaded = [], models.load()

    load = lambda name, *, device: asked.append(name) or loaded
    monkeypatch.setattr(models, "load", load)
    monkeypatch.setattr(reproduce, "reproduce", lambda *_, **__: [])
    (tmp_path / "imdb_test.jsonl.gz").write_bytes(gzip.compress(b'{"text": "fine", "label": 1}'))
    imdb = ("--dataset", "imdb", "--data-dir", tmp_path)
    for model, more in (("paper", ()), ("paper", imdb), ("embedded", imdb), ("./mine", ())):
        assert run("reproduce", "--model", model, *more, "--output", tmp_path / "out")[0] == 0
    papers = ["textattack/bert-base-uncased-SST-2", "fabriceyhc/bert-base-uncased-imdb"]
    assert asked == [*papers, "embedded", "./mine"]


# report


def test_report_renders_the_results_of_a_folder_and_of_those_in_it(run, small, tmp_path):
    result = theorems.theorems()
    (tmp_path / "inner").mkdir()
    result.write(tmp_path)
    replace(result, name="theorems-again", title="Once more: the same").write(tmp_path / "inner")
    code, out, err = run("report", tmp_path)
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"wrote {tmp_path / name}" for name in ("report.html", "report.md")]
    page = program.Page(tmp_path / "report.html")
    assert {"theorems", "theorems-again"} <= page.ids
    assert "One [b]is[/b] two." in page.words
    assert "### Once more: the same" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert read(tmp_path / "theorems.json") == replace(result, examples={})


def test_other_files_beside_results_are_left_out(run, small, tmp_path):
    theorems.theorems().write(tmp_path)
    (tmp_path / "audit.json").write_text("{")
    code, _, err = run("report", tmp_path)
    assert (code, err) == (0, f"{tmp_path / 'audit.json'} is left out: no result has such a name\n")


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_the_last_report_as_it_was(run, small, tmp_path, monkeypatch, failing):
    assert run("reproduce", "theorems", "--output", tmp_path)[0] == 0
    before = contents(tmp_path)
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, failing, mock.Mock(side_effect=full))
    code, _, err = run("reproduce", "theorems", "--output", tmp_path)
    says = "No space left on device; make room there, or pass another one"
    assert (code, err) == (2, f"error: --output {tmp_path}: {says}\n")
    assert contents(tmp_path) == before


def test_undefined_numbers_are_null_in_json_and_a_dash_on_the_page(tmp_path, capsys, loaded):
    """Texts of one word have no correlation over content tokens."""
    texts = data.Texts("words", ("film", "dull"), (1, 0), "invented", "SST", 1)
    request = Request(classifier=loaded, data=texts, output=tmp_path)
    result = reproduce.on_texts(experiment("table2"), request)
    result.write(tmp_path)
    (row, *_) = program.strict_json(tmp_path / "table2-words.json")["rows"]
    assert row["r content"] is None
    assert row["r content undefined"] == 2
    assert any("r content undefined in up to 2 examples" in note for note in result.notes)
    (again,) = report.load(tmp_path)
    assert np.isnan(again.rows[0]["r content"])
    assert repr(again.rows) == repr(result.rows)  # nan is not equal to itself
    odd = replace(again, title="\x1b[31mred", notes=[*again.notes, "\u202ered"])
    odd.write(tmp_path)
    for path in report.write(tmp_path):
        assert "red" in path.read_text("utf-8")
        assert printable(path.read_text("utf-8")) == path.read_text("utf-8")
    words = program.Page(tmp_path / "report.html").words
    words += (tmp_path / "report.md").read_text("utf-8")
    cli.console.print(tables.terminal(result))
    assert "– over content tokens" in words
    for shown in (words, capsys.readouterr().out, " ".join(result.notes)):
        assert not re.search(r"\bnan\b", shown)
