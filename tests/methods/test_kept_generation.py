"""A generation that is kept in a folder goes on after a kill, to the same bits, or is refused."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.sources import models
from numeric import explain_generation, explain_generations
from numeric.results.result import Attribution

ROOT = Path(__file__).parents[2]
PROMPT = "anna apple bert pen"
ANSWER = "; anna apple ; bert pen ; anna apple ; bert pen ;"

KILLED = """
import os, signal, sys
from benchmarks.sources import models
from numeric import explain_generation
lm = models.load("embedded-lm")
def each(number, row):
    if number == 9:
        os.kill(os.getpid(), signal.SIGKILL)
prompt, answer, keep = sys.argv[1:]
explain_generation(lm.model, lm.tokenizer, prompt, answer=answer, keep=keep, each=each)
"""


def call(lm, **options):
    how = options if options.keys() & {"answer", "max_new_tokens"} else {"answer": ANSWER} | options
    if "generation_config" in how:
        del how["answer"]
    return explain_generation(lm.model, lm.tokenizer, PROMPT, **how)


def are_equal(x, y):
    parts = ("relevance", "logit", "residual", "probability")
    return all(torch.equal(getattr(x, name), getattr(y, name)) for name in parts) and (
        x.tokens == y.tokens
    )


@pytest.fixture(scope="module")
def plain(lm):
    """A call that tells its rows, so that they are found in the same groups."""
    return call(lm, each=lambda _number, _row: None)


def test_each_prompt_of_several_is_kept_in_a_folder_of_its_own(lm, tmp_path):
    prompts, answers = [PROMPT, PROMPT], ["; anna", "; bert"]
    how = {"answers": answers, "keep": tmp_path}
    one = explain_generations(lm.model, lm.tokenizer, prompts, **how)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["text-1", "text-2"]
    again = explain_generations(lm.model, lm.tokenizer, prompts, **how)
    for x, y in zip(one, again, strict=True):
        assert are_equal(x, y)


def test_a_kept_call_that_was_changed_is_refused(lm, tmp_path):
    call(lm, keep=tmp_path)
    (file,) = tmp_path.glob("*.json")
    data = json.loads(file.read_bytes())
    for wrong in ({"call": []}, {"text": [["1"], [2]]}, {"text": [[1]]}, {"text": 3}):
        file.write_text(json.dumps(data | wrong))
        with pytest.raises(ValueError, match=r"was changed .*pass another folder"):
            call(lm, keep=tmp_path)


def test_rows_are_told_as_they_are_found(lm, plain):
    rows = []
    found = call(lm, each=lambda number, row: rows.append((number, row)))
    assert are_equal(found, plain)
    at_once = call(lm)
    assert torch.allclose(found.relevance, at_once.relevance, rtol=1e-5, atol=1e-6)
    assert [number for number, _ in rows] == list(range(len(plain.written)))
    for number, row in rows:
        assert isinstance(row, Attribution)
        assert torch.equal(row.logit[0], plain.logit[number])


def test_a_killed_call_goes_on_to_the_same_bits(lm, plain, tmp_path):
    folder = tmp_path / "kept"
    made = subprocess.run(
        [sys.executable, "-c", KILLED, PROMPT, ANSWER, folder], cwd=ROOT, check=False
    )
    assert made.returncode == -signal.SIGKILL
    kept = sorted(folder.glob("row-*"))
    assert len(kept) == 10 < len(plain.written)  # two of the second group
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in kept}
    (folder / ".row-000099.safetensors.1@elsewhere.0123456789abcdef.draft").write_bytes(b"mine")
    found = call(lm, keep=folder)
    assert are_equal(found, plain)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in kept} == before
    assert len(list(folder.glob("row-*"))) == len(plain.written)
    assert are_equal(call(lm, keep=folder), plain)


def test_what_was_sampled_is_kept(lm, tmp_path):
    from transformers import GenerationConfig

    config = GenerationConfig(do_sample=True, temperature=5.0, max_new_tokens=6)
    first = call(lm, keep=tmp_path / "a", generation_config=config)
    assert are_equal(call(lm, keep=tmp_path / "a", generation_config=config), first)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"method": "cp-lrp"}, "method is 'cp-lrp'"),
        ({"epsilon": 0.1}, "epsilon is 0.1, and was None"),
        ({"scale": "log-probability"}, "scale is"),
        ({"max_new_tokens": 3}, "max_new_tokens is 3, and was 2"),
        ({"answer": "apple pen"}, "answer is"),
    ],
)
def test_another_call_is_refused_and_the_folder_stays(lm, tmp_path, change, said):
    folder = tmp_path / "kept"
    call(lm, keep=folder, max_new_tokens=2)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match="keeps another call: ") as error:
        call(lm, keep=folder, **{"max_new_tokens": 2} | change)
    assert said.replace("'", "") in str(error.value).replace("'", "").replace('"', "")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_another_model_or_prompt_is_refused(lm, tmp_path):
    call(lm, keep=tmp_path, max_new_tokens=2)
    with pytest.raises(ValueError, match="input_ids changed"):
        explain_generation(lm.model, lm.tokenizer, "pen", max_new_tokens=2, keep=tmp_path)
    other = models.load("embedded-lm")
    with torch.no_grad():
        other.model.lm_head.weight[5] += 1e-4
    with pytest.raises(ValueError, match="weights changed"):
        call(other, keep=tmp_path, max_new_tokens=2)
    half = models.load("embedded-lm")
    half.model.double()
    with pytest.raises(ValueError, match=r"weights changed; dtype is torch.float64"):
        call(half, keep=tmp_path, max_new_tokens=2)


def test_other_settings_of_the_model_that_writes_are_refused(lm, tmp_path, monkeypatch):
    call(lm, keep=tmp_path, max_new_tokens=2)
    call(lm, keep=tmp_path, max_new_tokens=2)
    monkeypatch.setattr(lm.model.generation_config, "repetition_penalty", 1.3)
    with pytest.raises(ValueError, match="generation_config of the model changed"):
        call(lm, keep=tmp_path, max_new_tokens=2)
    call(lm, keep=tmp_path / "given", answer="pen")
    monkeypatch.undo()
    call(lm, keep=tmp_path / "given", answer="pen")


def test_a_call_that_is_refused_keeps_no_text(lm, tmp_path):
    lm.model.train()
    try:
        with pytest.raises(ValueError, match="train mode"):
            call(lm, keep=tmp_path, max_new_tokens=2)
    finally:
        lm.model.eval()
    for how, error in (({"method": "lpr"}, ValueError), ({"steps": 3}, TypeError)):
        with pytest.raises(error, match=r"unknown method|has no option"):
            call(lm, keep=tmp_path, max_new_tokens=2, **how)
    assert not [*tmp_path.iterdir()]


def test_a_hook_that_no_digest_sees_is_refused(lm, tmp_path):
    call(lm, keep=tmp_path, max_new_tokens=2)
    hook, says = lm.model.model.layers[0].mlp.register_forward_hook, "row-000000.safetensors is not"
    with hook(lambda _m, _a, out: 1.001 * out), pytest.raises(ValueError, match=says):
        call(lm, keep=tmp_path, max_new_tokens=2)
    with hook(lambda _m, _a, out: None):
        call(lm, keep=tmp_path, max_new_tokens=2)


def test_folders_that_hold_other_or_changed_files_are_refused(lm, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds 'notes\.txt' and no call\.json"):
        call(lm, keep=tmp_path)
    assert [x.name for x in tmp_path.iterdir()] == ["notes.txt"]
    folder = tmp_path / "kept"
    call(lm, keep=folder, max_new_tokens=3)
    row = folder / "row-000001.safetensors"
    content = row.read_bytes()
    row.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"row-000001\.safetensors: its attribution was changed"):
        call(lm, keep=folder, max_new_tokens=3)
    row.write_bytes(content)
    for changed in (b"{", json.dumps({"call": {}, "text": [["a"], []]}).encode()):
        (folder / "call.json").write_bytes(changed)
        with pytest.raises(ValueError, match=r"call\.json was changed"):
            call(lm, keep=folder, max_new_tokens=3)


def test_options_that_cannot_be_kept_are_refused_before_anything_is_written(lm, tmp_path):
    with pytest.raises(ValueError, match="a contrast has at most two rows"):
        call(lm, keep=tmp_path, contrast="pen")
    with pytest.raises(ValueError, match=r"removal=<function .*cannot be compared"):
        call(lm, keep=tmp_path / "new", method="loo", removal=lambda x: x)
    assert not list(tmp_path.iterdir())


def test_the_command_keeps_each_text_and_goes_on(run, tmp_path):
    words = ["explain", "embedded-lm", PROMPT, "add 3 skip 5 ;", "--generate", 2, "--json"]
    code, first, _ = run(*words, "--keep", tmp_path)
    assert code == 0
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.parent.name for path in kept} == {"text-1", "text-2"}
    again, plain = run(*words, "--keep", tmp_path)[1], run(*words)[1]
    assert first == again
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    for one, other in zip(json.loads(first)["texts"], json.loads(plain)["texts"], strict=True):
        assert one["tokens"] == other["tokens"]
        assert torch.allclose(*(torch.tensor(x["relevance"]) for x in (one, other)), atol=1e-5)


LOST = [("attnlrp", {"at": "*mlp"}), ("cp-lrp", {"channels": True}),
        ("attnlrp", {"positions": "signed"}), ("mask-relevance", {"heads": True})]  # fmt: skip


@pytest.mark.parametrize(("method", "options"), LOST)
def test_tensors_that_a_generation_has_no_place_for_are_refused(lm, method, options):
    given = {"method": method, "max_new_tokens": 1, **options}
    with pytest.raises(ValueError, match="a Generation has no place for it"):
        explain_generation(lm.model, lm.tokenizer, PROMPT, **given)


def test_a_whole_number_of_numpy_is_kept(lm, tmp_path):
    given = {"method": "loo", "keep": tmp_path / "rows"}
    numbers = {"max_new_tokens": 1, "budget": 9}
    of_type = lambda kind: given | {name: kind(n) for name, n in numbers.items()}
    found = [
        explain_generation(lm.model, lm.tokenizer, PROMPT, **of_type(kind)).relevance
        for kind in (np.int64, int)
    ]
    assert torch.equal(*found)


def test_an_answer_of_numbers_of_numpy_is_kept(lm, tmp_path):
    of_type = lambda kind: {"answer": [kind(4), kind(5)], "keep": tmp_path / "rows"}
    for kind in (np.int64, int):
        found = explain_generation(lm.model, lm.tokenizer, PROMPT, **of_type(kind))
        assert len(found.written) == 2
