"""Small classifiers of other shapes: trained from a seed, and saved so that all can load them."""

import gzip
from types import SimpleNamespace

import pytest
import torch

from benchmarks.research.other_shapes import compare, train
from benchmarks.sources import models
from numeric import explain

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
            *("--output", str(tmp_path)),
        ]
    )
    lines = [
        [x.strip() for x in line.split("|")[1:-1]] for line in capsys.readouterr().out.split("\n")
    ]
    assert lines[0] == ["method", "passes", "tokens", *names]
    assert ["LOO", "8.0", "all", "1.000", "1.000"] in lines  # 5 and 9 tokens, and the whole text
    assert {"Mask relevance", "Budgeted LOO, 4"} < {line[0] for line in lines if line}


def test_a_method_keeps_its_line_whatever_a_model_pays_for_it(monkeypatch):
    ends = ("", " low", " high")
    row = lambda method, passes, r: {
        "method": method,
        "passes": passes,
        **{f"r {tokens}{end}": r for tokens in ("all", "content") for end in ends},
    }
    found = {
        "short": SimpleNamespace(rows=[row("LOO", 8, 1), row("Few", 9, 0.25)], notes=["Few."]),
        "long": SimpleNamespace(rows=[row("Few", 9, 0.5), row("LOO", 16, 1)], notes=[]),
    }
    monkeypatch.setattr(compare, "trade_off", lambda result: result)
    lines = [*compare.agreement(found)]
    cells = [[x.strip().partition(" ")[0] for x in line.split("|")[1:-1]] for line in lines]
    assert cells[2] == ["LOO", "8.0", "all", "1.000", "1.000"]
    assert cells[4] == ["Few", "9.0", "all", "0.250", "0.500"]
    assert "short: Few." in lines


def test_logits_of_a_teacher_are_kept_for_their_texts_alone(tmp_path):
    words = train.tokenizer()
    one, other = (train.encode([text], words) for text in ("a fine film", "a dull film"))
    first, again, second = (
        train.teacher(tmp_path, name, ids, words.pad_token_id)
        for name, ids in (("one", one), ("one", other), ("two", other))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
