"""A new row of Table 2 is one file: it comes after the paper's, and needs none of its numbers."""

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from benchmarks.errors import RunError
from benchmarks.experiments import drawing, maps, reproduce, rows, tables, text
from benchmarks.experiments.record import Request
from benchmarks.experiments.result import Result
from benchmarks.experiments.table2 import table2
from benchmarks.sources import data, models

TEXTS = data.Texts("six", ("dull", "warm and funny"), (0, 1), "invented", "SST", 1)

HEAD = """
table = "table2"
dataset = "sst2"
model = "textattack/bert-base-uncased-SST-2"
"""
STABILISED = HEAD + '[variants."CP-LRP, ε = 1e-3"]\nmethod = "cp-lrp"\nepsilon = 1e-3'


@pytest.fixture
def configs(tmp_path, monkeypatch):
    """A folder with Leave-One-Out and two more rows of the project, and the rows that are added."""

    def made(*kept, **added):
        folder = tmp_path / "configs"
        folder.mkdir()
        for name in kept:
            content = (rows.FOLDER / f"table2-sst2-{name}.toml").read_text(encoding="utf-8")
            added[f"table2_sst2_{name}"] = "curves = false\n" + content  # which take longest
        for name, content in added.items():
            (folder / f"{name.replace('_', '-')}.toml").write_text(content, encoding="utf-8")
        monkeypatch.setattr(rows, "FOLDER", folder)

    return made


def drawn(seed, **curves):
    """Draws maps of two texts of four tokens."""
    values = np.random.default_rng(seed).normal(size=(2, 4))
    everything = np.ones((2, 4), dtype=bool)
    own = dict.fromkeys(("example", "label", "tokens", "target", "logit"), np.arange(2))
    own |= dict.fromkeys(curves, np.arange(2.0))
    return maps.Maps(relevance=values, present=everything, content=everything, values=own)


def test_a_method_without_the_papers_numbers_or_curves_has_a_dash(tmp_path):
    keys = [*maps.CURVES.values(), *maps.AOPC.values()]
    with_curves = dict.fromkeys(keys)
    found = maps.Measured(
        settings={"dataset": "six", "examples": 2},
        maps={"mine": drawn(1, **with_curves), "other": drawn(2), "LOO": drawn(3, **with_curves)},
        paper={"LOO": {"LeRF": 1.0}},
        chunk=1,
    )
    result = table2(found)
    headers, lines = tables.cells(result)
    own, paper = lines[::2], lines[1::2]
    lerf = headers.index("LeRF")
    assert [line[0] for line in own] == ["LOO", "mine", "other"]
    assert [line[lerf] for line in own] == ["0.50", "0.50", "–"]
    assert [line[lerf] for line in paper] == ["1.00", "–", "–"]
    result.write(tmp_path)
    assert len(result.examples["LeRF"]) == len(result.examples["method"]) == 6
    assert drawing.png(result).startswith(b"\x89PNG")


def test_a_file_is_all_that_a_row_with_a_new_label_needs(configs, tmp_path):
    """Its label is wrapped, so that a terminal of 80 columns has all numbers."""
    configs("loo", "cp-lrp", table2_sst2_mine=STABILISED.replace("[v", "curves = false\n[v"))
    request = Request(classifier=models.load(), data=TEXTS, output=tmp_path / "out")
    (result,) = reproduce.reproduce(request, wanted=["table2"])
    own, paper = result.rows[::2], result.rows[1::2]
    assert [row["method"] for row in own] == ["LOO", "CP-LRP", "CP-LRP, ε = 1e-3"]
    assert [list(row) for row in paper][2] == ["method"]
    assert -1 <= own[2]["r all"] <= 1
    assert (request.output / "table2-six.png").read_bytes().startswith(b"\x89PNG")
    page = (request.output / "report.md").read_text("utf-8")
    assert page.count("| CP-LRP, ε = 1e-3 |") == 1
    wide = replace(result, rows=[row | INTERVALS for row in result.rows])
    lines = shown(wide).splitlines()
    assert max(map(len, map(str.rstrip, lines))) <= 80
    assert sum("1e-3" in line for line in lines) == 1
    assert sum("0.123 [.01, .45]" in line and line.rstrip().endswith("4.15") for line in lines) == 6


INTERVALS = {
    f"r {tokens}{key}": x
    for tokens in ("all", "content")
    for key, x in {"": 0.123, " low": 0.01, " high": 0.45}.items()
}
INTERVALS |= {"flips": 1.0}
INTERVALS |= {"r all, sum to one": -0.123, "tau all": 0.5, "LeRF": 3.02, "MoRF": -1.13, "Δ": 4.15}


def shown(result):
    console = Console(width=80)
    with console.capture() as captured:
        console.print(tables.terminal(result), crop=False)
    return captured.get()


def test_a_long_word_in_a_label_is_folded_and_not_cut():
    rows = [{"method": "x" * 30} | INTERVALS]
    about = {"name": "table2", "table": "table2", "title": "", "text": "", "settings": {}}
    assert shown(Result(**about, rows=rows)).count("x") == 30


CP_LRP = HEAD + '[variants."CP-LRP"]\nmethod = "cp-lrp"'
REFUSED = {
    "a label twice": ({"table2_sst2_twice": CP_LRP}, "cp-lrp and table2-sst2-twice both have"),
    "other texts": (
        {"table2_sst2_few": "examples = 1" + STABILISED},
        "different numbers of examples: .*1: table2-sst2-few",
    ),
    "a name that no table looks for": ({"mine": STABILISED}, "no table would find mine"),
    "no row at all": ({"table2_sst2_x": "table = 3"}, "table2-sst2-x.toml: dataset is missing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_cannot_be_in_one_table_are_refused_before_anything_is_measured(
    configs, tmp_path, monkeypatch, name
):
    added, message = REFUSED[name]
    configs("loo", "cp-lrp", **added)
    monkeypatch.setattr(text, "run", lambda *_, **__: pytest.fail("measured"))
    request = Request(classifier=None, data=TEXTS, output=tmp_path / "out")
    with pytest.raises(RunError, match=message):
        list(reproduce.reproduce(request, wanted=["table2"]))
