"""The page of models names every architecture, adds up, and agrees with new measurements."""

import re

import pytest
import torch

from tests.census import named
from tests.census.build import DUAL, SOUNDS, TASKS, architectures
from tests.census.measure import COLUMNS, measure
from tests.census.named import PAGE
from tests.census.page import NO, YES, row

CLASSES, ENTITIES, ANSWERS, MASKED, CAUSAL, IMAGES, MIXED = TASKS
SAMPLE = [
    ("xlm-roberta", CLASSES), ("deberta-v2", CLASSES), ("t5", CLASSES), ("mpnet", CLASSES),
    ("opt", CLASSES), ("electra", ENTITIES), ("distilbert", ANSWERS), ("modernbert", MASKED),
    ("gemma2", CAUSAL), ("phi3", CAUSAL), ("mixtral", CAUSAL), ("bloom", CAUSAL), ("rwkv", CAUSAL),
    ("deit", IMAGES), ("convnext", IMAGES), ("llava", MIXED), ("qwen2_5_vl", MIXED),
]  # fmt: skip
LEAST = {
    CLASSES: (90, 80), ENTITIES: (90, 80), ANSWERS: (65, 50), MASKED: (45, 35), CAUSAL: (115, 90),
    IMAGES: (15, 0), MIXED: (45, 30),
}  # fmt: skip
"""How many are explained and how many conserve, at least."""


def rows(title):
    """The lines of one table of the page, by their first cell."""
    _, _, after = PAGE.read_text(encoding="utf-8").partition(title)
    lines = after.split("\n## ")[0].splitlines()
    return {x.split("|")[1].strip().strip("`"): x for x in lines if x.startswith("|")}


def of(task):
    lines = rows(f"\n## {task[0].upper()}{task[1:]}\n")
    return {name: line for name, line in lines.items() if name not in ("architecture", "---")}


def reasons():
    """The reasons of the page, by number."""
    text = PAGE.read_text(encoding="utf-8").partition("\n## Reasons\n")[2].split("\n## ")[0]
    return dict(re.findall(r"^(\d+)\. (.*)$", text, flags=re.MULTILINE))


def summary(task):
    numbers = rows("| task |")[task].split("|")[2:-1]
    return dict(zip(["architectures", "runs", *COLUMNS], map(int, numbers), strict=True))


@pytest.mark.parametrize("task", TASKS)
def test_every_architecture_of_transformers_is_on_the_page(task):
    assert list(of(task)) == sorted(architectures(task))


@pytest.mark.parametrize("task", TASKS)
def test_the_summary_counts_the_lines(task):
    cells = [line.split(" | ")[1 : 1 + len(COLUMNS)] for line in of(task).values()]
    counts = summary(task)
    assert counts["architectures"] == len(cells)
    assert [counts[x] for x in COLUMNS] == [x.count(YES) for x in zip(*cells, strict=True)]


@pytest.mark.parametrize("task", LEAST)
def test_at_least_so_many_are_explained_and_conserve(task):
    explained, conserving = LEAST[task]
    assert summary(task)["explained"] >= explained
    assert summary(task)["conserves"] >= conserving


def test_a_reason_is_listed_once_and_every_number_is_listed():
    listed = reasons()
    assert len({*listed.values()}) == len(listed) > 5
    named = re.findall(
        r"reason (\d+)", "".join(line for task in TASKS for line in of(task).values())
    )
    assert {*named} == listed.keys()


@pytest.mark.parametrize("task", TASKS)
def test_a_cross_says_what_keeps_the_relevance(task):
    for name, line in of(task).items():
        if line.split(" | ")[2] == NO:
            assert re.search(r"conserves: off by \S+ by \w", line), name


@pytest.mark.parametrize(("name", "task"), SAMPLE)
@pytest.mark.filterwarnings("ignore")  # of the architectures' own
def test_a_line_is_what_is_measured_now(name, task):
    sizes = re.compile(r"off by \S+")  # the last digit of an error may be the machine's
    line = re.sub(r"reason (\d+)", lambda found: reasons()[found[1]], of(task)[name])
    assert sizes.sub("", line) == sizes.sub("", row(measure((name, task))))


KINDS = {"dual encoders": 8, "classification of sounds": 11, "modules of one's own": 7}
"""Kind of model at named tensors -> how many are explained, at least."""
NAMED = [("clip", DUAL), ("wav2vec2", SOUNDS), ("GPT by hand", named.OWN)]


def test_models_at_named_tensors_are_those_of_transformers_and_of_the_tests():
    assert [*KINDS] == [*named.KINDS]
    text = PAGE.read_text("utf-8").partition(named.TITLE)[2]
    for kind, least in KINDS.items():
        part = text.partition(f"### {kind[0].upper()}{kind[1:]}\n")[2].split("\n###")[0]
        listed = re.findall(r"^\| `([^`]+)` \| (\S)", part, flags=re.MULTILINE)
        assert [name for name, _ in listed] == sorted(named.names(kind))
        assert sum(mark == YES for _, mark in listed) >= least


@pytest.mark.parametrize("item", NAMED)
@pytest.mark.filterwarnings("ignore")  # of the architectures' own
def test_a_line_of_named_tensors_is_what_is_measured_now(item):
    assert named.row(named.measure(item)) in PAGE.read_text("utf-8").splitlines()


@pytest.mark.filterwarnings("ignore")  # torch.jit is deprecated
def test_functions_of_torchscript_elsewhere_change_no_line_of_named_tensors():
    torch.jit.script(torch.nn.Identity())
    assert named.row(named.measure(NAMED[0])) in PAGE.read_text("utf-8").splitlines()


def test_a_measurement_at_named_tensors_can_fail():
    one = named.case("vision Transformer", named.OWN)
    assert named.conserved(one) < 1e-9
    torch.nn.init.normal_(one.model.cls_token, generator=torch.Generator().manual_seed(0))
    assert named.conserved(one) > 1e-3
    assert named.keeps(one)
