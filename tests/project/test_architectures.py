"""Tiny models of every architecture are general, and every measure of them can fail."""

import dataclasses
import time

import pytest
import torch

from numeric import attribute
from numeric.models.facts import NO_END, facts_of
from tests.census import measure, page
from tests.census.build import TASKS, UNFIT, Unfit, architectures, build, float64, with_inputs
from tests.census.measure import Found
from tests.census.sizes import END, kinds
from tests.support import all_commands
from tests.support.all_commands import NUMBERS, REFUSED, TRACEBACK, ends

CLASSES, ENTITIES, ANSWERS, MASKED, CAUSAL, IMAGES, _ = TASKS
SAMPLE = [
    ("bert", CLASSES), ("t5", CLASSES), ("mixtral", CLASSES), ("xlnet", CLASSES),
    ("deberta-v2", ENTITIES), ("splinter", ANSWERS), ("modernbert", MASKED),
    ("gemma3_text", CAUSAL), ("mamba", CAUSAL), ("deepseek_v3", CAUSAL), ("xglm", CAUSAL),
    ("swin", IMAGES), ("resnet", IMAGES),
]  # fmt: skip
"""Encoders, decoders, both, experts, latent attention, recurrence, convolutions."""


@pytest.mark.parametrize(("name", "task"), SAMPLE)
def test_a_tiny_model_runs_in_float64_and_nothing_of_it_is_zero(name, task):
    with measure.conditions():
        model, batch = with_inputs(name, task)
        found = model(**batch)
    logits = found.start_logits if task == ANSWERS else found.logits
    read = logits[batch["attention_mask"] == 1] if logits.shape[1:2] == (8,) else logits
    assert logits.dtype == torch.float64
    assert read.isfinite().all()
    assert len(read.unique()) == read.numel()
    assert sum(p.numel() for p in model.parameters()) < 2e6
    assert all(p.all() and len(p.unique()) == p.numel() for p in model.parameters())


def test_the_same_model_is_built_again():
    first, second = (build("bert", CLASSES).state_dict() for _ in range(2))
    assert all(torch.equal(x, second[name]) for name, x in first.items())


def test_every_architecture_that_is_unfit_belongs_to_a_task():
    assert set(UNFIT) <= {name for task in TASKS for name in architectures(task)}
    with pytest.raises(Unfit, match="boxes"):
        build("bros", ENTITIES)


def test_layers_of_each_kind_stay():
    assert kinds(["a", "a", "b", "a", "c"]) == ["a", "b"]
    assert kinds(["a", "a", "a"]) == ["a", "a"]


def test_casts_to_float32_stay_in_float64_for_the_while():
    x = torch.zeros(2, dtype=torch.float64)
    with float64():
        casts = [x.float(), x.to(torch.float32), torch.zeros(2), x.softmax(0, dtype=torch.float32)]
        assert {cast.dtype for cast in casts} == {torch.float64}
    assert x.float().dtype == torch.zeros(2).dtype == torch.float32


@pytest.fixture(scope="module")
def bert():
    with float64():
        return with_inputs("bert")


def test_shifts_are_zero_for_the_while(bert):
    model, _ = bert
    before = {name: x.clone() for name, x in model.state_dict().items()}
    with measure.without_shifts(model):
        zero = {name for name, x in model.state_dict().items() if not x.any()}
    assert zero == {name for name in before if name.endswith("bias")}
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())


@pytest.mark.parametrize("column", ["conserves", "audited", "Leave-One-Out"])
def test_relevance_that_is_wrong_is_noticed(bert, column, monkeypatch):
    run, most = measure.COLUMNS[column]
    assert run(*bert, CLASSES) <= most
    true = measure.attribute

    def wrong(*args, **options):
        found = true(*args, **options)
        r = found.relevance * (1 + 1e-5)
        return dataclasses.replace(found, relevance=r, residual=found.logit - r.sum(dim=1))

    monkeypatch.setattr(measure, "attribute", wrong)
    assert run(*bert, CLASSES) > most


@pytest.mark.parametrize(
    ("name", "task"),
    [("bert", CLASSES), ("t5", CLASSES), ("xlnet", CLASSES), ("deberta-v2", ENTITIES),
     ("splinter", ANSWERS), ("hrm_text", CAUSAL), ("cvt", IMAGES), ("resnet", IMAGES)],
)  # fmt: skip
def test_without_shifts_embeddings_of_zero_make_logits_of_zero(name, task):
    with measure.conditions(), torch.no_grad():
        model, batch = with_inputs(name, task)
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding):
                module.weight.zero_()
        if "pixel_values" in batch:
            batch["pixel_values"].zero_()
        read = slice(0, 1), slice(0, 8)  # the whole first example; padding may have any logit
        of = lambda found: (found.start_logits if task == ANSWERS else found.logits)[read]
        assert of(model(**batch)).any()
        with measure.without_shifts(model):
            assert not of(model(**batch)).any()


def test_what_takes_too_long_is_ended():
    with pytest.raises(TimeoutError, match="1 s"), measure.limit(1):
        time.sleep(60)


def test_what_cannot_be_measured_has_a_reason():
    assert measure.measure(("bros", ENTITIES)).refusal == "reads the boxes of words"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (measure.Unfit("reads boxes"), "reads boxes"),
        (ValueError("eps=-1: too small\nmore"), "eps=-1: too small\nmore"),
        (KeyError("rope"), "KeyError: 'rope'"),
    ],
)
def test_a_reason_keeps_what_the_error_says(error, reason):
    assert measure.reason(error) == reason


def test_a_page_has_a_line_for_each_architecture_and_counts_its_marks():
    good = Found("b", CLASSES, errors={"explained": 0.0, "conserves": 1e-9, "audited": 1e-12})
    lossy = Found(
        "a", CLASSES, errors={"explained": 0.0, "conserves": 0.3, "audited": "1 op:\n x|y"}
    )
    absent = Found("c", CLASSES, refusal="KeyError: no /usr/lib/site-packages/torch/x.py")
    lines = page.page([good, lossy, absent]).splitlines()
    assert f"| {CLASSES} | 3 | 2 | 2 | 1 | 1 | 0 |" in lines
    assert {"1. 1 op: x/y", "2. KeyError: no site-packages/torch/x.py"} <= {*lines}
    start = lines.index("| `a` | ✓ | ✗ | – | – | conserves: off by 3e-01; reason 1 |")
    assert lines[start + 1] == "| `b` | ✓ | ✓ | ✓ | – |  |"
    assert lines[start + 2] == "| `c` | – | – | – | – | reason 2 |"


LIMITS = {
    ("bert", CLASSES): 64, ("roberta", CLASSES): 63, ("xlnet", CLASSES): NO_END,
    ("t5", CLASSES): NO_END, ("gemma3", CLASSES): NO_END, ("mamba", CAUSAL): NO_END,
    ("mpt", CAUSAL): 64, ("whisper", CAUSAL): 64, ("gpt2", CAUSAL): 64,
    ("camembert", CLASSES): 63, ("llama", CLASSES): NO_END,
}  # fmt: skip
"""The greatest number of tokens that each tiny model takes."""


@pytest.mark.parametrize("item", LIMITS)
def test_a_text_may_have_as_many_tokens_as_a_model_has_positions_and_no_more(item):
    with measure.conditions():
        model = build(*item)
        most = facts_of(model).positions
        assert most == LIMITS[item]
        text = lambda count: {"input_ids": torch.tensor([[20] * (count - 1) + [END]])}
        found = attribute(model, text(min(most, 99)))
        assert found.relevance.isfinite().all()
        if most < NO_END:
            with pytest.raises(ValueError, match=f"text of {most + 1} tokens is longer than the"):
                attribute(model, text(most + 1))


PAIRS = all_commands.items()
ROTATED = [
    (*PAIRS[n], command)
    for n, command in enumerate([*all_commands.COMMANDS] * len(PAIRS))
    if n < len(PAIRS) and n % 5 == 0
]
ONCE_LOST = [
    *((name, CLASSES, "attribute") for name in ("bloom", "gemma3", "t5", "xlnet", "funnel")),
    *((name, CAUSAL, "attribute") for name in ("mpt", "mamba", "xlstm", "whisper")),
    *(("longformer", ANSWERS, command) for command in ("explain", "evaluate", "plan")),
    ("led", ANSWERS, "evaluate"),
]


@pytest.mark.parametrize(("name", "task", "command"), [*ROTATED, *ONCE_LOST])
def test_a_command_ends_with_numbers_or_one_error(name, task, command):
    """`python -m tests.support.all_commands` runs every architecture, task and command."""
    ((end, said),) = ends((name, task), (command,)).values()
    assert end != TRACEBACK, said
    assert end != NUMBERS or said.startswith('{"command"')
    assert end != REFUSED or said.count('"exit_code": 2') == 1


def test_a_command_that_ends_in_a_traceback_is_counted(monkeypatch):
    def fails(*_):
        raise AttributeError("max_position_embeddings")

    monkeypatch.setattr("benchmarks.experiments.text.limit", fails)
    ((end, said),) = ends(("bert", CLASSES), ("attribute",)).values()
    assert (end, said.partition(" (")[0]) == (TRACEBACK, "AttributeError: max_position_embeddings")
