"""A ratio that got worse is named; the page has the baseline's ratios, and no others."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.research.speed import machine, ratios, test_loo, test_repeated
from benchmarks.research.speed.groups import GROUPS
from benchmarks.research.speed.ratios import Ratio, compare, remarks, render

HERE = machine.Where(
    processor="Abacus 9", cores=2, threads=2, gpu=None, torch="2.13.0", transformers="5.23.0",
    python="3.11.7", commit="0123456789ab", date="2001-02-03",
)  # fmt: skip


def ratio(*values, name="one", group="time of LRP", better="lower", goal=None):
    return Ratio(name=name, group=group, values=values, better=better, goal=goal)


def kept(*found, **place):
    return {r.name: replace(r, where=replace(HERE, **place)) for r in found}


def test_the_median_and_the_quartiles_are_those_of_the_rounds():
    assert ratio(5.0, 1.0, 2.0, 4.0, 3.0).quartiles == (2.0, 3.0, 4.0)
    assert ratio(1.5).quartiles == (1.5, 1.5, 1.5)


WORSE = {
    "11 % slower": (ratio(1.0), ratio(1.11), "11 % worse"),
    "11 % less ahead": (ratio(1.0, better="higher"), ratio(0.89, better="higher"), "11 % worse"),
    "by its median alone": (ratio(1.0), ratio(1.0, 1.2, 1.3), "20 % worse"),
    "a goal is lost": (ratio(1.0), ratio(1.02, 1.05, 1.04, goal=1.02), "misses its goal ≤ 1.02"),
    "a higher goal is lost": (
        ratio(3.0, better="higher"),
        ratio(2.9, better="higher", goal=2.95),
        "misses its goal ≥ 2.95",
    ),
    "declared the other way": (ratio(1.0), ratio(1.0, better="higher"), "better='higher'"),
}


@pytest.mark.parametrize("case", WORSE)
def test_what_is_worse_is_named_with_both_values_and_the_next_step(case):
    old, new, words = WORSE[case]
    (complaint,) = compare([new], kept(old))
    assert complaint.startswith("one: ")
    assert words in complaint
    assert "make baseline" in complaint
    if old.better == new.better:
        assert str(old) in complaint
        assert str(new) in complaint


def test_all_that_is_worse_is_named_at_once():
    names = ("one", "two", "three")
    old = kept(*(ratio(1.0, name=name) for name in names))
    new = [ratio(value, name=name) for name, value in zip(names, (1.2, 1.0, 1.3), strict=True)]
    assert [line.split(":")[0] for line in compare(new, old)] == ["one", "three"]


def test_ten_percent_and_a_missed_goal_that_was_missed_before_are_two_complaints():
    assert len(compare([ratio(1.3, goal=1.1)], kept(ratio(1.0)))) == 2
    assert len(compare([ratio(1.3, goal=0.9)], kept(ratio(1.0)))) == 1


FINE = {
    "the same": (ratio(1.0), ratio(1.0)),
    "9 % slower": (ratio(1.0), ratio(1.09)),
    "9 % less ahead": (ratio(1.0, better="higher"), ratio(0.91, better="higher")),
    "twice as fast": (ratio(1.0), ratio(0.5)),
    "twice as far ahead": (ratio(1.0, better="higher"), ratio(2.0, better="higher")),
    "a goal at the favourable quartile": (ratio(1.0), ratio(1.0, 1.04, 1.06, goal=1.02)),
    "a goal that the baseline misses too": (ratio(1.2), ratio(1.2, goal=1.03)),
    "unknown to the baseline": (ratio(1.0, name="another"), ratio(9.0)),
}


@pytest.mark.parametrize("case", FINE)
def test_what_is_no_worse_passes(case):
    old, new = FINE[case]
    assert compare([new], kept(old)) == []


INVALID = {
    "no name": dict(name=""),
    "a name that breaks a table": dict(name="a|b"),
    "an unknown group": dict(group="luck"),
    "an unknown direction": dict(better="sideways"),
    "no round": dict(values=()),
    "a ratio of nothing": dict(values=(1.0, 0.0)),
    "not a number": dict(values=(float("nan"),)),
    "an infinite ratio": dict(values=(float("inf"),)),
    "a negative goal": dict(goal=-1.0),
    "a goal that is no number": dict(goal=float("nan")),
}


@pytest.mark.parametrize("case", INVALID)
def test_a_ratio_that_says_nothing_is_refused(case):
    with pytest.raises(ValueError, match=r"pass|must be"):
        replace(ratio(1.0), **INVALID[case])


def test_everything_wrong_with_a_ratio_is_said_at_once():
    with pytest.raises(ValueError, match=r"group='luck'.*better='up'.*values=\(\)"):
        ratio(group="luck", better="up")


def test_a_reader_is_told_what_does_not_fail():
    old = kept(ratio(1.0), ratio(1.0, name="moved"), ratio(1.0, name="gone"))
    old |= kept(ratio(1.0, name="far"), threads=64)
    new = [ratio(1.0), ratio(1.0, name="moved", goal=2.0), ratio(1.0, name="far")]
    said = "\n".join(remarks([*new, ratio(1.0, name="fresh")], old, HERE))
    assert "not in the baseline until `make baseline`: fresh" in said
    assert "moved: the goal is 2.0, in the baseline None" in said
    assert "1 of these ratios have a baseline from another machine" in said
    assert "64 threads; this one: Abacus 9, 2 cores, 2 threads" in said
    assert "1 ratios of the baseline were not measured now" in said
    assert remarks([ratio(1.0)], kept(ratio(1.0)), HERE) == []


PAGE = """
## Time of LRP

{time}

| what | median [quartiles] | rounds | goal |  |
| --- | --- | --- | --- | --- |
| batch 8 | 1.000 [1.000, 1.000] | 1 | ≤ 1.03 | met |
| batch 32 | 1.100 [1.050, 1.150] | 3 | ≤ 1.03 | NOT met |

## Sweep

{sweep}

| what | median [quartiles] | rounds | goal |  |
| --- | --- | --- | --- | --- |
| all mixes | 4.500 [4.500, 4.500] | 1 | ≥ 3 | met |
| memory | 1.200 [1.200, 1.200] | 1 | - |  |

## Where it was measured

Abacus 9, 2 cores, 2 threads; torch 2.13.0, transformers 5.23.0, Python 3.11.7; commit \
0123456789ab, 2001-02-03.
"""
SOME = [
    ratio(4.5, name="all mixes", group="sweep", better="higher", goal=3.0),
    ratio(1.2, name="memory", group="sweep"),
    ratio(1.0, 1.1, 1.2, name="batch 32", goal=1.03),
    ratio(1.0, name="batch 8", goal=1.03),
]


def test_the_page_shows_every_ratio_with_its_goal_by_group_and_in_order():
    groups = {"time": GROUPS["time of LRP"], "sweep": GROUPS["sweep"]}
    assert render(kept(*SOME)) == ratios.HEAD + PAGE.format(**groups)


def test_the_page_says_which_machine_measured_what():
    text = render(kept(*SOME[:2]) | kept(*SOME[2:], processor="Slide Rule", gpu="Lamp"))
    assert "| all mixes | 4.500 [4.500, 4.500] | 1 | ≥ 3 | met | 2 |" in text
    assert "| batch 8 | 1.000 [1.000, 1.000] | 1 | ≤ 1.03 | met | 1 |" in text
    assert "\n1. Slide Rule, Lamp, 2 cores" in text
    assert "\n2. Abacus 9, 2 cores" in text


def test_the_page_of_nothing_says_so():
    assert render({}).endswith("Nothing was measured yet.\n")


def test_every_benchmark_notes_into_a_group_of_the_page():
    sources = [path.read_text("utf-8") for path in ratios.BASELINE.parent.rglob("test_*.py")]
    used = {name for text in sources for name in re.findall(r'(?i:group) ?= ?"(.+?)"', text)}
    assert {"audit", "sweep"} < used <= set(GROUPS)


def test_the_committed_page_is_that_of_the_committed_baseline():
    assert ratios.PAGE.read_text("utf-8") == render(ratios.read(ratios.BASELINE))


def test_a_baseline_is_read_as_it_was_written_a_line_per_ratio(tmp_path):
    path = tmp_path / "baseline.json"
    ratios.write(path, kept(*SOME))
    assert ratios.read(path) == kept(*SOME)
    assert len(path.read_text("utf-8").splitlines()) == len(SOME) + 2
    assert (tmp_path / "RESULTS.md").read_text("utf-8") == render(kept(*SOME))
    first = path.read_bytes()
    ratios.write(path, dict(reversed(ratios.read(path).items())))
    assert path.read_bytes() == first


NO_BASELINE = {
    "no JSON": "{",
    "another thing": "[]",
    "a line without its group": '{"ratios": {"one": {"values": [1.0]}}}',
    "a machine without a name": json.dumps(
        {
            "ratios": {
                "one": {key: x for key, x in vars(ratio(1.0)).items() if key != "name"}
                | {"where": {key: x for key, x in vars(HERE).items() if key != "processor"}}
            }
        }
    ),
    "a ratio that says nothing": json.dumps(
        {"ratios": {"one": vars(ratio(1.0)) | {"values": [-1.0], "where": vars(HERE)}}}
    ),
}


@pytest.mark.parametrize("case", NO_BASELINE)
def test_what_is_no_baseline_is_refused_by_its_path(case, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(NO_BASELINE[case], "utf-8")
    with pytest.raises(ValueError, match=r"(?s)other\.json is no baseline:.*; restore it from"):
        ratios.read(path)


def test_here_has_all_that_is_compared_and_shown():
    place = machine.here()
    assert place.processor
    assert machine.same(place, place)
    assert not any(machine.same(place, replace(place, **{key: "other"})) for key in machine.SAME)


def test_a_tiny_ratio_is_kept_and_can_be_read(tmp_path):
    path = tmp_path / "baseline.json"
    ratios.write(path, kept(ratio(1.23456e-7)))
    assert ratios.read(path)["one"].values == (1.2346e-7,)


LISTED = [
    [f"Captum's default / ours, {texts}" for texts in test_loo.TEXTS],
    [f"Captum's best / ours, {texts}" for texts in test_loo.TEXTS],
    ["autolrp / AttnLRP, 128 tokens", "lxt / AttnLRP, 128 tokens"],
    [f"compiled / replayed AttnLRP, batch {size} tokens" for size in ("1, 32", "1, 128", "8, 128")],
]
"""Ratios of each row of the last table that has several decimals."""


def test_the_page_of_speed_shows_the_ratios_of_the_baseline():
    found = ratios.read(ratios.BASELINE)
    page = (Path(ratios.__file__).parents[3] / "docs" / "SPEED.md").read_text("utf-8")
    for tokens in (32, 128, 512):
        cells = [
            " / ".join(
                f"{found[f'{method}, batch {batch}, {tokens} tokens'].median:.2f}"
                for method in ("AttnLRP", "CP-LRP")
            )
            for batch in (1, 8, 32)
        ]
        assert f"| {tokens} tokens | {' | '.join(cells)} |" in page
    methods = "AttnLRP", "CP-LRP", "AttnLRP by rules"
    for where, tokens, _ in test_repeated.CASES:
        names = [f"{method}, {where}, 1 x {tokens}" for method in methods]
        cells = " | ".join(f"{found[name].median:.2f}" for name in names)
        assert f"| {where}, 1 × {tokens} | {cells} |" in page
    for names in LISTED:
        assert f"| {', '.join(f'{found[name].median:.2f}' for name in names)} |" in page
