"""Rows of tables as TOML: all files of the project load, and every wrong one is refused."""

import re
import tomllib
from dataclasses import replace

import pytest

from axioms import kinds
from axioms.composites import ATTNLRP, BYPASS, CP_LRP, IDENTITY_SOFTMAX, bypass_softmax
from benchmarks.experiments import reproduce, rows
from benchmarks.names import ON_TEXTS
from benchmarks.sources import data
from benchmarks.sources.pins import PINS
from numeric.methods.catalogue import METHODS
from tests.support.one_by_one import METHODS as LABELS

TEXT = rows.names()


# The project's own files


@pytest.mark.parametrize("name", TEXT)
def test_every_row_loads_and_says_what_its_name_says(name):
    row = rows.load(name)
    assert row.name == name
    assert name.startswith(f"{row.table}-{row.dataset}")
    assert row.dataset in data.SOURCES
    assert row.model in PINS["models"]
    assert rows.load(str(rows.FOLDER / f"{name}.toml")) == row


def test_every_file_is_a_row_or_of_another_module():
    files = {path.stem for path in rows.FOLDER.iterdir()}
    assert files == {*TEXT, *rows.NO_ROWS}


def test_both_data_sets_have_all_five_rows_of_table_2():
    for dataset in ("sst2", "imdb"):
        found = [rows.load(f"table2-{dataset}-{method}") for method in LABELS.values()]
        methods = [{label: v["method"] for label, v in row.variants.items()} for row in found]
        assert methods == [{label: method} for label, method in LABELS.items()]
        for row, label in zip(found, LABELS, strict=True):
            assert row.paper.keys() == {label}
            assert (row.curves, row.dtype, row.examples) == (True, "float32", None)


def test_every_row_is_needed_by_a_table_and_every_table_has_its_rows():
    for dataset in ("sst2", "imdb"):
        texts = data.Texts(dataset, ("film",), (1,), "", dataset.upper()[:4].strip("2"), 1)
        assert texts.config == dataset
        used = set()
        for table in ON_TEXTS:
            if (table, dataset) == ("sensitivity", "imdb"):
                with pytest.raises(ValueError, match="'sensitivity' has no row sensitivity-imdb"):
                    reproduce.needed(table, texts)
            else:
                used |= {row.name for row in reproduce.needed(table, texts)}
        assert used == {name for name in TEXT if f"-{dataset}" in name}


def test_sources_are_pinned_to_a_commit_or_say_why_not():
    revisions = {name: source.revision for name, source in data.SOURCES.items()}
    revisions |= PINS["models"]
    lines = (rows.FOLDER / "sources.toml").read_text(encoding="utf-8").splitlines()
    for name, revision in revisions.items():
        if revision == "main":
            (place,) = [n for n, line in enumerate(lines) if line.startswith(f'"{name}"')]
            assert lines[place - 1].startswith("# ")
            assert "revision" in lines[place - 1]
        else:
            assert re.fullmatch("[0-9a-f]{40}", revision), name


# Wrong files


GOOD = 'table = "table2"\ndataset = "sst2"\nmodel = "someone/bert"\n'
LOO = '[variants."LOO"]\nmethod = "loo"\n'
WRONG = {
    "an unknown key": (GOOD + 'colour = "red"\n' + LOO, ["unknown key 'colour'; the keys are"]),
    "an unknown table": (GOOD.replace("table2", "table9") + LOO, ["table = 'table9'; the tables"]),
    "no table": ('dataset = "sst2"\nmodel = "m"\n' + LOO, ["table is missing or no text"]),
    "no data set": ('table = "table2"\nmodel = "m"\n' + LOO, ["dataset is missing or no text"]),
    "a number as model": (GOOD.replace('"someone/bert"', "3") + LOO, ["model is missing or no"]),
    "nothing at all": ("", ["table is missing", "dataset is missing", "model is missing"]),
    "nothing to compute": (GOOD, ["has neither [variants] nor sweep = true"]),
    "an unknown dtype": (GOOD + 'dtype = "half"\n' + LOO,
        ["dtype = 'half'; the dtypes are float32"]),
    "variants and sweep": (GOOD + "sweep = true\n" + LOO, ["both [variants] and sweep = true"]),
    "an unknown rule at the softmax": (GOOD + 'sweep = true\nsoftmax = "flat"\n',
        ["'flat'; the rules are taylor"]),
    "a rule without a sweep": (GOOD + 'softmax = "taylor"\n' + LOO, ["softmax would be ignored"]),
    "no method": (GOOD + '[variants."X"]\nepsilon = 0.1\n', ["variants.X.method = None; the"]),
    "an unknown method": (GOOD + LOO.replace("loo", "magic"), ["variants.LOO.method = 'magic'"]),
    "an unknown option": (GOOD + LOO + "epsilon = 0.1\n", ["variants.LOO: ", "epsilon"]),
    "an unknown removal": (GOOD + LOO + 'removal = "magic"\n', ["variants.LOO.removal = 'magic'",
        "of attention-mask, deletion, [MASK], or the id of a"]),
    "a removal that is true": (GOOD + LOO + "removal = true\n", ["variants.LOO.removal = True"]),
    "a negative token": (GOOD + LOO + "removal = -1\n", ["variants.LOO.removal = -1; write one"]),
    "a removal for a method without": (
        GOOD + LOO.replace("loo", "attnlrp") + 'removal = "deletion"\n',
        ["variants.LOO: ", "no option 'removal'"],
    ),
    "an unknown rule": (GOOD + '[variants."X"]\nmethod = "attnlrp"\nlinear = "magic"\n',
        ["variants.X: ", "magic"]),
    "the rule of another operation": (
        GOOD + '[variants."X"]\nmethod = "attnlrp"\nlayer_norm = "epsilon"\n',
        ["variants.X: ", "['layer_norm'] = 'epsilon'"],
    ),
    "a rule for a method without rules": (GOOD + LOO + 'linear = "epsilon"\n',
        ["variants.LOO: ", "only attnlrp, cp-lrp"]),
    "an option that is a list": (GOOD + "[[variants]]\nmethod = 1\n", ["variants is no table"]),
    "a variant that is a word": (GOOD + '[variants]\nLOO = "loo"\n', ["variants.LOO is no table"]),
    "examples in words": (GOOD + 'examples = "all"\n' + LOO, ["examples = 'all'"]),
    "no examples": (GOOD + "examples = 0\n" + LOO, ["examples = 0"]),
    "curves in words": (GOOD + 'curves = "no"\n' + LOO, ["curves = 'no'"]),
    "a method that is a list": (GOOD + '[variants."X"]\nmethod = []\n', ["X.method = []; the"]),
    "numbers of the paper that are one": (GOOD + "paper = 3\n" + LOO, ["paper: must be an object"]),
    "several at once": (
        'dataset = "sst2"\nmodel = "m"\ncolour = 1\ndtype = "half"\n[variants.X]\nmethod = "y"\n',
        ["'colour'", "table is missing", "dtype = 'half'", "variants.X.method = 'y'"],
    ),
    "no TOML": (GOOD + "= 3", ["line 4"]),
    "an option twice": (GOOD + LOO + 'method = "loo"\n', ["overwrite"]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_row_is_refused_with_its_path_and_all_that_is_wrong(tmp_path, name):
    content, says = WRONG[name]
    path = tmp_path / "mine.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        rows.load(str(path))
    for part in says:
        assert part in str(caught.value)
    if name == "several at once":
        lines = str(caught.value).splitlines()
        assert len(lines) == len(says)
        assert all(line.startswith(f"{path}: ") for line in lines)


def test_a_good_row_elsewhere_is_read(tmp_path):
    (tmp_path / "mine.toml").write_text(GOOD + "examples = 3\n" + LOO, encoding="utf-8")
    row = rows.load(str(tmp_path / "mine.toml"))
    assert (row.name, row.examples, row.variants) == ("mine", 3, {"LOO": {"method": "loo"}})


@pytest.mark.parametrize("removal", ["attention-mask", "deletion", "[MASK]", 103, 0])
def test_every_way_to_remove_a_token_is_read(tmp_path, removal):
    value = f'"{removal}"' if isinstance(removal, str) else removal
    (tmp_path / "mine.toml").write_text(GOOD + LOO + f"removal = {value}\n", encoding="utf-8")
    (variant,) = rows.load(str(tmp_path / "mine.toml")).composites(2).values()
    assert variant.options == {"removal": removal}


@pytest.mark.parametrize("name", ["table9-sst2", "nowhere/mine.toml", "sources "])
def test_a_missing_row_is_refused_with_those_there_are(name):
    with pytest.raises(ValueError, match=f"there is no row {name!r}") as caught:
        rows.load(name)
    assert "table2-sst2-loo" in str(caught.value)


# Cells of Table A3


def test_the_cells_of_two_layers_by_hand():
    assert rows.cells(2) == {
        ("front to back", 1): {0},
        ("front to back", 2): {0, 1},
        ("back to front", 1): {0, 1},
        ("back to front", 2): {1},
        ("single layer", 1): {0},
        ("single layer", 2): {1},
    }


def test_the_cells_of_twelve_layers():
    cells = rows.cells(12)
    assert len(cells) == 36
    assert cells["front to back", 3] == {0, 1, 2}
    assert cells["back to front", 10] == {9, 10, 11}
    assert cells["back to front", 1] == cells["front to back", 12] == set(range(12))
    assert cells["single layer", 7] == {6}
    assert len(set(cells.values())) == 36 - 3  # the ends of the orders meet


def test_layers_are_named_from_1_in_order():
    assert [rows.layers_label(x) for x in ((), [0], [10, 2, 11])] == ["none", "1", "3 11 12"]


def test_a_sweep_is_every_distinct_cell_once_and_none():
    found = rows.load("figure2-sst2").composites(2)
    assert {label: variant.method for label, variant in found.items()} == {
        "none": ATTNLRP,
        "1": bypass_softmax([0]),
        "2": bypass_softmax([1]),
        "1 2": bypass_softmax([0, 1]),
    }
    others = rows.load("figure2-sst2-identity").composites(2)
    assert {label: variant.method for label, variant in others.items()} == {
        "identity": IDENTITY_SOFTMAX,
        "identity 1": bypass_softmax([0], IDENTITY_SOFTMAX),
        "identity 2": bypass_softmax([1], IDENTITY_SOFTMAX),
        "identity 1 2": bypass_softmax([0, 1], IDENTITY_SOFTMAX),
    }
    assert all(not variant.options and not variant.contrast for variant in found.values())
    assert len(rows.load("figure2-sst2").composites(12)) == 34


# Variants


def test_a_changed_rule_holds_in_every_layer_and_nowhere_else():
    row = rows.load("sensitivity-sst2")
    found = row.composites(3)
    for name, base in (("AttnLRP", ATTNLRP), ("CP-LRP", CP_LRP)):
        norm = found[f"{name}, LayerNorm: identity"]
        assert norm.method.rules == base.rules
        assert norm.method.layers == {n: {kinds.LAYER_NORM: kinds.IDENTITY} for n in range(3)}
        assert norm.options == {}
        linear = found[f"{name}, bias out, ε = 1e-6"]
        assert linear.method.rules == base.rules
        assert linear.method.layers == {
            n: {kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS} for n in range(3)
        }
        assert linear.options == {"epsilon": 1e-6}
        assert norm.method.rule(kinds.LAYER_NORM, layer=1) == kinds.IDENTITY
        assert norm.method.rule(kinds.LAYER_NORM) == kinds.HELD_DEVIATION  # of the embeddings
        assert norm.method.rule(kinds.READOUT, layer=1) == base.rules[kinds.READOUT]
        assert BYPASS[kinds.READOUT] != ATTNLRP.rules[kinds.READOUT]
    named = {label: variant for label, variant in found.items() if isinstance(variant.method, str)}
    for label, variant in named.items():
        given = dict(row.variants[label])
        assert variant.method == given.pop("method")
        assert variant.contrast == given.pop("contrast", False)
        assert variant.options == given
    assert len(named) == len(found) - 4
    assert {variant.method for variant in named.values()} <= set(METHODS)


# Settings that tell runs apart


BASE = rows.load("table2-sst2-loo")
MATTERS = {
    "table": "softmax",
    "dataset": "imdb",
    "model": "someone/bert",
    "examples": 3,
    "curves": False,
    "dtype": "float64",
    "sweep": True,
    "softmax": "identity",
    "variants": {"LOO": {"method": "loo", "removal": "deletion"}},
}


@pytest.mark.parametrize("key", MATTERS)
def test_the_record_changes_with_all_that_matters(key):
    assert replace(BASE, **{key: MATTERS[key]}).record() != BASE.record()


def test_the_record_does_not_change_with_the_papers_numbers_or_the_name_of_the_file():
    assert replace(BASE, paper={"LOO": {"LeRF": 9.0}}, name="other").record() == BASE.record()
    assert {*MATTERS, "paper", "name"} == set(rows.Row.__dataclass_fields__)


def test_the_record_sees_every_option_of_a_variant():
    labels = tomllib.loads((rows.FOLDER / "sensitivity-sst2.toml").read_text("utf-8"))["variants"]
    records = [repr(replace(BASE, variants={"one": found}).record()) for found in labels.values()]
    assert len(set(records)) == len(labels)
