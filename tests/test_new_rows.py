"""A new row of Table 2 is one file: it comes after the paper's, and needs none of its numbers."""

import pytest

from benchmarks import data, reproduce, rows, text
from benchmarks.errors import RunError

TEXTS = data.Texts("six", ("dull", "warm and funny"), (0, 1), "invented", "SST", 1)

HEAD = """
table = "table2"
dataset = "sst2"
model = "textattack/bert-base-uncased-SST-2"
"""
STABILISED = HEAD + '[variants."CP-LRP, ε = 1e-3"]\nmethod = "cp-lrp"\nepsilon = 1e-3'
DELETION = HEAD + 'curves = false\n[variants."A deletion"]\nmethod = "loo"\nremoval = "deletion"'
WITH_NUMBERS = HEAD + (
    '[variants."AttnLRP, words"]\nmethod = "attnlrp"\nshare = "word"\n'
    '[paper."AttnLRP, words"]\n"r all, sum to one" = 0.5'
)


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
    with pytest.raises(RunError, match=message):
        list(reproduce.reproduce(None, TEXTS, output=tmp_path / "out", wanted=["table2"]))
