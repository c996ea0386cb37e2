"""Small classifiers of other shapes: trained from a seed, and saved so that all can load them."""

import gzip
import json

import numpy as np
import pytest
import torch

from benchmarks.experiments import trade_off
from benchmarks.experiments.judges import (
    budgets,
    calibration,
    compare,
    long_texts,
    train,
)
from benchmarks.sources import models
from numeric import attribute, explain

TEXTS = [("a fine film", 1), ("a dull evening , all in all", 0), ("warm and funny", 1)] * 50


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of two runs with the seeds 0 and 1, and of one more with the seed 0."""
    folder = tmp_path_factory.mktemp("judges")
    lines = "".join(f"{text}\t{label}\n" for text, label in TEXTS)
    for split in ("train", "dev"):
        (folder / f"sst2_{split}.tsv.gz").write_bytes(
            gzip.compress(f"sentence\tlabel\n{lines}".encode())
        )
    run = ["--data-dir", str(folder), "--epochs", "1", "--seeds"]
    train.main([str(folder / "first"), *run, "0", "1"])
    train.main([str(folder / "again"), *run, "0"])
    return folder


def weights(folder):
    return models.load(str(folder)).sha256


@pytest.mark.parametrize("shape", train.SHAPES)
def test_a_seed_gives_one_model_and_another_seed_another(trained, shape):
    first = weights(trained / "first" / f"{shape}-s0")
    assert first == weights(trained / "again" / f"{shape}-s0")
    assert first != weights(trained / "first" / f"{shape}-s1")


@pytest.mark.parametrize("shape", train.SHAPES)
def test_what_is_saved_is_a_classifier_that_can_be_explained(trained, shape):
    loaded = models.load(str(trained / "first" / f"{shape}-s0"))
    assert loaded.model.config.model_type == shape
    found = explain(loaded.model, loaded.tokenizer, "a fine film", method="loo")
    assert found.tokens[0] == ("[CLS]", "a", "fine", "film", "[SEP]")
    assert found.relevance.abs().min() > 0


@pytest.mark.parametrize("shape", train.SHAPES)
def test_training_takes_the_logits_closer_to_those_of_the_teacher(shape):
    words = train.tokenizer()
    texts, labels = zip(*TEXTS[:3], strict=True)
    ids = train.encode(texts * 40, words)
    taught = train.logits(models.load().model, ids, words.pad_token_id)
    model = train.untrained(shape, seed=0)
    far = lambda: (train.logits(model, ids, words.pad_token_id) - taught).square().mean().item()
    before = far()
    train.train(model, ids, taught, torch.tensor(labels * 40), words=words, epochs=20)
    assert far() < before / 2


@pytest.mark.parametrize("shape", train.SHAPES)
def test_padding_changes_no_logit(shape):
    words = train.tokenizer()
    model, ids = train.untrained(shape, seed=0), train.encode([x for x, _ in TEXTS[:3]], words)
    alone = torch.cat([train.logits(model, [x], words.pad_token_id) for x in ids])
    together = train.logits(model, ids, words.pad_token_id)
    assert torch.allclose(alone, together, atol=1e-5)


def test_models_are_asked_side_by_side(trained, tmp_path, capsys):
    names = ["roberta-s0", "llama-s0"]
    compare.main(
        [
            *(str(trained / "first" / name) for name in names),
            *("--dataset", "sst2", "--data-dir", str(trained), "--examples", "2"),
            *("--output", str(tmp_path), "--curves"),
        ]
    )
    lines = [
        [x.strip() for x in line.split("|")[1:-1]] for line in capsys.readouterr().out.split("\n")
    ]
    assert lines[0] == ["method", "passes", "tokens", *names]
    assert ["LOO", "8.0", "all", "1.000", "1.000"] in lines  # 5 and 9 tokens, and the whole text
    assert {"Mask relevance", "Budgeted LOO, 4"} < {line[0] for line in lines if line}
    faithful = [line for line in lines if line[:1] == ["llama-s0"]]
    assert {line[1] for line in faithful} >= {"LOO", "AttnLRP", "CP-LRP", "Mask relevance"}


def test_bases_spend_equal_passes_on_training_sentences(trained, monkeypatch, capsys):
    monkeypatch.setattr(budgets, "WORDS", 6)
    folder = str(trained / "first" / "roberta-s0")
    budgets.main([folder, "--data-dir", str(trained), "--examples", "2"])
    found = capsys.readouterr().out.partition("\n\n")[2].splitlines()
    spent = [tuple(int(cell) for cell in line.split("|")[1:4]) for line in found[2::2]]
    assert spent[:3] == [(7, 0, 4), (7, 1, 3), (7, 2, 1)]
    for passes, midpoint, budget in spent:
        label = f"Mask relevance, midpoint {midpoint}" if midpoint else "Mask relevance"
        assert trade_off.passes(label, np.array([50])) + 1 + budget == passes


def test_an_error_is_judged_by_its_estimate(trained, capsys):
    folder = str(trained / "first" / "llama-s0")
    calibration.main([folder, "--data-dir", str(trained), "--examples", "2"])
    head, _, *lines = (line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines())
    assert [line[1].strip() for line in lines] == ["None", *map(str, calibration.TOLERANCES)]
    assert all(len(line) == len(head) for line in lines)


def test_what_is_judged_is_what_budgeted_leave_one_out_gives(trained):
    model = models.load(str(trained / "first" / "roberta-s0"))
    texts = ["a dull evening , all in all", "warm , funny , and not at all dull or long"]
    inputs = model.tokenizer(texts, return_tensors="pt", padding=True)
    exact = attribute(model.model, inputs, "loo").relevance
    tolerances = (None, 0.01, 0.001)
    for tolerance, found in calibration.measured(model, inputs, tolerances).items():
        want = attribute(model.model, inputs, "budgeted-loo", tolerance=tolerance)
        assert torch.equal(found["left out"], want.details["passes"])
        assert torch.allclose(found["largest"], (want.relevance - exact).abs().amax(1), atol=1e-5)


def test_errors_are_counted_by_hand():
    relevance, exact = torch.tensor([[1.0, 2.0, 3.0, 0.0]]), torch.tensor([[1.0, 1.75, 3.25, 0.0]])
    error, known = torch.tensor([[0.0, 0.5, 0.1, 0.0]]), torch.tensor([[True, False, False, False]])
    present = torch.tensor([[True, True, True, False]])
    for tolerance, allowed in ((0.2, False), (0.3, True), (None, True)):
        judged = calibration.judged(relevance, error, known, exact, present, tolerance)
        assert judged["within"].tolist() == [0.5]
        assert judged["texts"].tolist() == [allowed]
        assert judged["largest"].tolist() == [0.25]
        assert judged["left out"].tolist() == [1]
        assert judged["of all"].tolist() == pytest.approx([1 / 3])


def test_ways_to_spend_passes_on_long_texts_meet_where_all_tokens_are_left_out(
    trained, monkeypatch, capsys
):
    reviews = [{"text": f"{text} . " * 3, "label": label} for text, label in TEXTS[:8]]
    lines = "".join(json.dumps(each) + "\n" for each in reviews).encode()
    (trained / "imdb_small_train.jsonl.gz").write_bytes(gzip.compress(lines))
    monkeypatch.setattr(long_texts, "BUDGETS", (4, 20))
    folder = str(trained / "first" / "llama-s0")
    few = ["--data-dir", str(trained), "--tokens", "20", "--examples", "2"]
    long_texts.main([folder, *few])
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()[2:]]
    found = {(int(n), way.strip()): [float(x) for x in r.split()] for n, way, r in rows}
    assert {n for n, _ in found} == {0, 4, 20}
    assert found[20, "single tokens"] == found[20, "groups alone"] == [1, 1]
    assert all(a < b for a, b in zip(found[0, "mask relevance"], [1, 1], strict=True))


def test_chunks_share_out_what_they_lose(trained):
    judge = models.load(str(trained / "first" / "roberta-s0"))
    inputs = judge.tokenizer(["a dull evening , all in all"], return_tensors="pt")
    base = attribute(judge.model, inputs, "mask-relevance")
    found = long_texts._shared(judge, inputs, base.target, base.relevance[0], 3)
    chunk = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 2]])
    want = attribute(judge.model, inputs, "loo", base.target, budget=3, groups=chunk).relevance
    sums = [x.reshape(3, 3).sum(dim=1) for x in (found, want)]
    assert torch.allclose(*sums, atol=1e-5)


PARTS = {
    "loo": torch.tensor([1.0, 2.0, 3.0, 4.0]),
    "R": torch.tensor([0.5, 1.0, -1.5, 0.0]),
    "heads": torch.tensor([[[0.5, 1.0, -1.5, 3.0]], [[0.0, 0.0, 0.0, -3.0]]]),
    "content": torch.tensor([False, True, True, False]),
    "read": torch.tensor(0),
}


@pytest.mark.parametrize(
    ("order", "fill", "want"),
    [
        ("flow by head", "as it is", [0.5, 1.0, 3.0, 4.0]),
        ("size of R", "as it is", [0.5, 2.0, 3.0, 0.0]),
        ("what is read, flow by head", "as it is", [1.0, 1.0, -1.5, 4.0]),
        ("what is read, size of R", "by least squares", [1.0, -1.6, 3.0, 0.0]),
    ],
)
def test_a_budget_goes_to_what_comes_first(order, fill, want):
    found = budgets.with_budget(PARTS, order, fill, 2)
    assert torch.allclose(found, torch.tensor(want))
