"""``lrp-axioms evaluate``: maps of a file, from any source, beside each other."""

import json
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from benchmarks.cli import app
from benchmarks.experiments import faithfulness, tables
from benchmarks.experiments.record import DASH
from numeric import evaluate
from numeric.evaluation.correlation import bootstrap_mean

TEXTS = ["a fine film", "dull and far too long", "nobody minded the weak end of it"]
SOURCES = ("mine", "yours")
SINGLE = 1e-4  # float32, in batches of other shapes


@pytest.fixture(scope="module")
def lines(loaded):
    """Random maps of two sources, by the tokens of the model."""
    chance = np.random.default_rng(0)
    found = {"text": TEXTS * 2, "method": [name for name in SOURCES for _ in TEXTS]}
    lengths = [len(ids) for ids in loaded.tokenizer(found["text"]).input_ids]
    return found | {"relevance": [chance.normal(size=n).tolist() for n in lengths]}


def in_file(folder, columns, name="maps.parquet"):
    pq.write_table(pa.table(columns), folder / name)
    return folder / name


def run(*arguments):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def test_the_numbers_are_those_of_each_text_by_itself(loaded, lines, tmp_path):
    measures = ["r", "Δ", "LDS"]
    file = in_file(tmp_path, lines)
    if sys.platform == "linux":  # where names need not be UTF-8
        file = file.rename(tmp_path / os.fsdecode(b"\xff.parquet"))
    maps = faithfulness.read(file)
    result = faithfulness.judge(loaded, maps, name="maps", measures=measures)
    values = {name: {key: [] for key in measures} for name in SOURCES}
    for name, text, x in zip(lines["method"], lines["text"], lines["relevance"], strict=True):
        inputs = loaded.tokenizer([text], return_tensors="pt")
        found = evaluate(loaded.model, inputs, [x], measures=measures)["relevance"]
        for key in measures:
            values[name][key] += found[key].tolist()
    best = max(SOURCES, key=lambda name: np.mean(values[name]["Δ"]))
    assert [row["method"] for row in result.rows] == sorted(SOURCES, key=lambda x: x != best)
    for row in result.rows:
        own = values[row["method"]]
        for key in measures:
            mean, low, high, _ = bootstrap_mean(own[key], seed=0)
            assert [row[key], row[f"{key} low"], row[f"{key} high"]] == pytest.approx(
                [mean, low, high], abs=SINGLE
            )
        behind = np.subtract(values[best]["Δ"], own["Δ"])
        assert row["Δ behind"] == pytest.approx(behind.mean(), abs=SINGLE)


def test_the_class_of_the_file_is_the_one_that_is_explained(loaded, lines, tmp_path):
    measures = {"measures": ["MoRF"]}
    predicted, other = (
        faithfulness.judge(
            loaded,
            faithfulness.read(in_file(tmp_path, lines | {"target": targets})),
            name="maps",
            **measures,
        ).rows
        for targets in (pa.nulls(6, pa.int64()), [0, None, 0] * 2)
    )
    (first,) = (row for row in other if row["method"] == "mine")
    texts = dict(zip(TEXTS, [0, None, 0], strict=True))
    expected = [
        evaluate(
            loaded.model,
            loaded.tokenizer([text], return_tensors="pt"),
            [x],
            target=texts[text],
            **measures,
        )["relevance"]["MoRF"][0]
        for text, x in zip(TEXTS, lines["relevance"], strict=False)
    ]
    assert first["MoRF"] == pytest.approx(np.mean(expected), abs=SINGLE)
    assert first["MoRF"] != pytest.approx(predicted[0]["MoRF"])


def test_the_command_reads_what_attribute_wrote_and_ranks_it(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", "utf-8")
    folder = tmp_path / "maps-0.5"
    both = ["--method", "attnlrp", "--method", "loo"]
    made = ["attribute", str(tmp_path / "texts.txt"), "--output", str(folder), *both]
    assert CliRunner().invoke(app, made).exit_code == 0
    ended = run(folder, "--output", tmp_path / "out", "--measure", "r", "--measure", "top drop")
    assert ended.exit_code == 0, ended.output
    assert "r: loo is first" in ended.output
    assert ended.output.startswith("How faithful maps are to 'embedded', on 3 texts\n")
    assert "of an earlier call is replaced" not in ended.output
    ended = run(folder, "--output", tmp_path / "out", "--measure", "r", "--measure", "top drop")
    assert "of an earlier call is replaced" in " ".join(ended.output.split())
    record = json.loads((tmp_path / "out" / "evaluate-maps-0.5.json").read_text("utf-8"))
    assert [row["method"] for row in record["rows"]] == ["loo", "attnlrp"]
    assert record["rows"][0]["r"] == pytest.approx(1)
    stored = pq.read_table(tmp_path / "out" / "evaluate-maps-0.5.parquet")
    assert stored.column_names == ["method", "text", "r", "top drop"]
    next(folder.glob("part-*")).unlink()
    ended = run(folder, "--output", tmp_path / "out")
    assert (ended.exit_code, "is not complete; run the command again" in ended.output) == (2, True)


def test_a_folder_that_cannot_be_is_told_before_anything_is_measured(lines, tmp_path, monkeypatch):
    monkeypatch.setattr(faithfulness, "read", lambda *_, **__: pytest.fail("read"))
    (tmp_path / "taken").write_text("")
    ended = run(in_file(tmp_path, lines), "--output", tmp_path / "taken")
    assert (ended.exit_code, "taken is a file; pass a folder" in ended.output) == (2, True)


def test_the_table_is_printed_before_sentences_and_equal_maps_are_called_equal(tmp_path):
    zeros = [[0.0, n, 1.0, 2.0, 0.0] for n in (0.5, 3.0)]
    columns = {"text": ["a fine film", "a dull film"] * 6, "relevance": zeros * 6}
    columns["method"] = [name for name in ("a", "b", "c", "d", "e", "f") for _ in zeros]
    pq.write_table(pa.table(columns), tmp_path / "maps.parquet")
    printed = run(tmp_path / "maps.parquet", "--output", tmp_path).output.splitlines()
    assert [line[1] for line in printed if line[1:3] in {f"{x} " for x in "abcdef"}] == [*"abcdef"]
    assert "a and b are equal" in " ".join(printed)
    assert "is first" not in " ".join(printed)


@pytest.mark.parametrize(
    ("measures", "headers"),
    [
        (["r"], ["method", "r"]),
        (["soft sufficiency"], ["method", "suff."]),
        (["soft comprehensiveness", "soft sufficiency gain"], ["method", "suff. gain", "compr."]),
        (["soft sufficiency", "soft sufficiency gain"], ["method", "suff. gain"]),
        (list(faithfulness.MEASURES), ["method", *faithfulness.HEADERS]),
    ],
)
def test_the_table_has_the_measures_that_were_asked_for(loaded, lines, tmp_path, measures, headers):
    maps = faithfulness.read(in_file(tmp_path, lines))
    found, rows = tables.cells(faithfulness.judge(loaded, maps, name="maps", measures=measures))
    assert [" ".join(x.split()) for x in found] == [" ".join(x.split()) for x in headers]
    assert all(cell != DASH for row in rows for cell in row)


def test_errors_name_the_texts_of_the_file_and_repeated_texts_are_counted(lines, loaded):
    maps = faithfulness.Maps(tuple(TEXTS), (0, 7, 0), {"a": lines["relevance"][:3]})
    with pytest.raises(ValueError, match=r"out of range.*\(examples .* texts .*'dull and far"):
        faithfulness.judge(loaded, maps, name="maps", measures=["MoRF"])
    twice = faithfulness.Maps((TEXTS[0],) * 2, (0, 0), {"a": lines["relevance"][:1] * 2})
    found = faithfulness.judge(loaded, twice, name="maps", measures=["MoRF"])
    assert "1 of 2 texts are repeated" in " ".join(found.notes)


def test_maps_are_ranked_where_all_are_defined():
    hard = {"a": {"r": np.array([0.9, np.nan])}, "b": {"r": np.array([0.95, 0.1])}}
    assert faithfulness._ranked(hard | {"c": {"r": np.full(2, np.nan)}}, "r") == ["b", "a", "c"]
    lower = {"a": {"MoRF": np.array([0.9])}, "b": {"MoRF": np.array([0.1])}}
    assert faithfulness._ranked(lower, "MoRF") == ["b", "a"]


def test_a_measure_without_a_value_in_any_text_makes_no_maps_equal():
    found = {name: {"r": np.full(20, np.nan)} for name in "ab"}
    assert [*faithfulness._notes(found, ["r"])] == []
    (said,) = faithfulness._undefined(found)
    assert said.startswith("r left out in up to 20 texts: ")


def without(columns, name):
    return {key: x for key, x in columns.items() if key != name}


WRONG = {
    "no relevance": (lambda x: without(x, "relevance"), "no column 'relevance'"),
    "no text": (lambda x: without(x, "text"), "no column 'text'"),
    "words": (lambda x: x | {"relevance": ["good"] * 6}, "relevance that is no list in rows 1, 2"),
    "NaN": (lambda x: x | {"relevance": [[np.nan]] * 6}, "relevance that is not finite in rows 1"),
    "another length": (lambda x: x | {"relevance": [[1.0]] * 6},
        "'mine' has 1 values for 'a fine film', of which the model's tokenizer makes 5 tokens"),
    "other texts": (lambda x: x | {"text": [*TEXTS, *TEXTS[:2], "a good end"]},
        "'yours' and 'mine' are not about the same texts and classes"),
    "another class": (lambda x: x | {"target": [1, 1, 1, 1, 1, 0]},
        "'yours' and 'mine' are not about the same texts and classes"),
    "a class out of range": (lambda x: x | {"target": [0, 7, 0] * 2}, "target [7] out of range"),
    "two classes of a text": (lambda x: {key: list(v) * 2 for key, v in x.items()}
        | {"target": [0] * 6 + [1] * 6}, "is explained for several classes (3 texts in"),
    "no name of a method": (lambda x: x | {"method": [None] * 6}, "no method in rows 1, 2, 3"),
    "half a class": (lambda x: x | {"target": [0.5] * 6}, "a target that is no class in rows 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_cannot_be_used_is_an_error_and_status_2(name, lines, tmp_path):
    change, says = WRONG[name]
    ended = run(in_file(tmp_path, change(lines)), "--output", tmp_path / "out")
    assert ended.exit_code == 2
    assert says in ended.output
    assert not (tmp_path / "out").exists()
