"""A new row of Table 2 is one file: it comes after the paper's, and needs none of its numbers."""

import numpy as np
import pytest

from benchmarks.errors import RunError
from benchmarks.experiments import drawing, maps, reproduce, rows, tables, text
from benchmarks.experiments.record import Request
from benchmarks.experiments.table2 import table2
from benchmarks.sources import data

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
    """Of two texts of four tokens."""
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
