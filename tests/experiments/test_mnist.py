"""Table 1 on MNIST as a sweep: all that was declared is reported, resumed, and put into words."""

import re
from collections import defaultdict
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from benchmarks.errors import RunError
from benchmarks.experiments.table1 import findings, mnist
from benchmarks.running import folders
from tests.support.invented_digits import arrays, save

GRID = mnist.declared()


# The sweep


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mnist")
    save(folder, arrays(train=640))
    images = mnist.load(data_dir=folder)
    return images, folder / "results", mnist.sweep(images, output=folder / "results", reduced=True)


def test_every_specification_is_reported_with_every_number(swept):
    _, folder, result = swept
    reduced = mnist.declared(reduced=True)
    assert len(list(folder.glob("*.parquet"))) == len(reduced.models) == 3
    assert len(result.rows) == 3 * (16 + 32 + 32 + 12)
    assert {row["number"] for row in result.rows} == set(GRID.paper)
    assert len({tuple(map(str, row.values())) for row in result.rows}) == len(result.rows)
    for row in result.rows:
        assert row["paper r"] == GRID.paper[row["number"]]
        assert row["reached"] == (abs(row["r"] - row["paper r"]) <= GRID.tolerance)
    own = ("r", "r low", "r high", "r undefined", "reached", "maps")
    pairs = defaultdict(dict)
    for row in result.rows:
        pairs[tuple((k, v) for k, v in row.items() if k not in own)][row["maps"]] = row["r"]
    for about, r in pairs.items():
        assert r["raw"] == dict(about)["r raw"]
        assert (abs(r["raw"] - r["sum to one"]) > 1e-9) == (dict(about)["flips"] > 0)
    assert len(result.examples["label"]) == 3 * reduced.analysis["images"]


def test_a_note_says_on_how_many_images_the_orders_were_compared(swept):
    note = next(note for note in swept[2].notes if note.startswith("Both orders"))
    counts = {"LOO": 2, "IG zero image": 6, "IG mean image": 6, "IG zero embedding": 6}
    for explainer, count in counts.items():
        assert re.search(rf"[ ,]{explainer} \de-\d\d on {count} images", note), note


def test_the_sides_of_section_4_3_are_those_of_3_1_swapped(swept):
    rows = swept[2].rows

    def of(side, section):
        number = f"AttnLRP {side} vs LOO"
        return [row["r"] for row in rows if (row["number"], row["sides"]) == (number, section)]

    assert of("L", "3.1") == of("R", "4.3") != of("L", "4.3") == of("R", "3.1")


def test_a_killed_run_goes_on_with_what_is_missing_and_gives_the_same(swept):
    images, folder, result = swept
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    missing = sorted(before)[1]
    missing.unlink()
    again = mnist.sweep(images, output=folder, reduced=True)
    assert again.rows == result.rows
    after = {path: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    assert {path for path in before if before[path] != after[path]} == {missing}


def test_results_of_other_images_are_refused_and_named(swept):
    images, folder, _ = swept
    fewer = replace(images, pixels=images.pixels | {"test": images.pixels["test"] / 2})
    with pytest.raises(RunError, match=r"another configuration(.|\n)*images: "):
        mnist.sweep(fewer, output=folder, reduced=True)


def test_too_few_images_are_refused_before_anything_is_written(swept, tmp_path):
    few = r"^mnist.npz has 640 of 60000 train images and 6 of 500 test images; get"
    with pytest.raises(RunError, match=few):
        mnist.sweep(swept[0], output=tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_broken_results_are_refused_with_their_path(swept):
    images, folder, _ = swept
    path = sorted(folder.glob("*.parquet"))[0]
    whole, table = path.read_bytes(), pq.read_table(path)
    digest = table.schema.metadata[b"record"].decode()
    spoilt = {
        "remove this file and run again": [
            lambda: path.write_bytes(whole[: len(whole) // 2]),
            lambda: path.write_bytes(b""),
            lambda: folders.write_part(path, table.slice(0, 2), digest),
            lambda: folders.write_part(path, table.drop_columns(table.column_names[-1]), digest),
        ],
        "results are not mixed; pass another --output": [
            lambda: folders.write_part(path, table, "0" * 64),
            lambda: pq.write_table(table.replace_schema_metadata(), path),
        ],
    }
    try:
        for says, ways in spoilt.items():
            for spoil in ways:
                spoil()
                with pytest.raises(RunError, match=says) as caught:
                    mnist.sweep(images, output=folder, reduced=True)
                assert str(path) in str(caught.value)
    finally:
        path.write_bytes(whole)


def test_the_figure_has_one_panel_per_number_with_all_its_dots_and_the_papers_line(swept):
    result = swept[2]
    figure = findings.strips(result)
    titles = [axes.get_title().split("\n")[0] for axes in figure.axes]
    assert titles == list(GRID.paper)
    for axes, number in zip(figure.axes, titles, strict=True):
        dots = [row for row in result.rows if row["number"] == number]
        drawn = [xy for strip in axes.collections for xy in strip.get_offsets()]
        assert sorted(y for _, y in drawn) == sorted(row["r"] for row in dots)
        assert GRID.paper[number] in [line.get_ydata()[0] for line in axes.lines]
    assert figure.axes[0].get_ylabel() == "mean Pearson r over 6 test images"


# Findings, on rows made by hand


def rows(**r):
    """One network with one analysis: r by number."""
    paper = {"A": 0.5, "B": -0.3}
    common = {"model": "m", "seed": 0, "accuracy": 0.9, "maps": "raw", "pixels": "all"}
    common |= {"level": "pixel", "bias": "inside", "baseline": "zero image"}
    return [
        common
        | {"number": number, "sides": "–" if number == "A" else "3.1"}
        | {"r": value, "paper r": paper[number], "reached": abs(value - paper[number]) <= 0.02}
        for number, value in r.items()
    ]


def say(made):
    return list(
        findings.findings(made, tolerance=0.02, accuracy=0.8, invariance={"LOO": (1e-14, 20)})
    )


def test_findings_name_what_is_reached_and_what_is_not():
    lines = say(rows(A=0.51, B=0.3))
    assert "A (0.5): reached within 0.02 by 1 of 1 specifications" in lines[1]
    assert "B (-0.3): reached within 0.02 by none of 1 specifications" in lines[2]
    assert "closest is 0.3000 (m, seed 0; at the pixel" in lines[2]
    assert "1 reach 1 of the 2 numbers at once" in lines[3]
    assert lines[4] == "At once in m, seed 0 (accuracy 0.900): A."
    assert "LOO 1e-14 on 20 images" in lines[5]


def test_findings_count_numbers_together_only_within_one_specification():
    both = rows(A=0.5, B=-0.3)
    assert "reach 2 of the 2 numbers" in say(both)[3]
    apart = [both[0], both[1] | {"pixels": "ink"}]
    assert "reach 1 of the 2 numbers" in say(apart)[3]
    other_level = [both[0], both[1] | {"level": "embedding"}]
    assert "reach 1 of the 2 numbers" in say(other_level)[3]


def test_findings_keep_inaccurate_networks_apart():
    lines = say([row | {"accuracy": 0.2} for row in rows(A=0.5, B=0.0)])
    assert lines[0].startswith("Test accuracy less than 0.80 (paper: 0.85): m, seed 0 0.200")
    assert "0 of them with accuracy of at least 0.80" in lines[1]


def test_findings_of_undefined_values_have_no_closest():
    lines = say(rows(A=float("nan"), B=float("nan")))
    assert lines[1].endswith("by none of 1 specifications.")
    assert lines[3] == "No specification reaches any of the 2 numbers."
