"""The command marks a line as amplified where ``attribute`` warns about its text alone."""

import warnings

import pytest
import torch

from benchmarks.experiments import explained
from benchmarks.experiments.rows import Row
from benchmarks.running import blocks
from benchmarks.sources import data, models
from numeric import attribute
from numeric.methods import amplification
from numeric.methods.mask_relevance import GRADIENTS
from tests.commands.test_attribute_command import saved

TEXTS = [*("a fine film", "dull", "a good film"), *("not bad", "far too long", "a film to be good")]
METHODS = ("loo", "cp-lrp", "gradient-x-input", "attnlrp")
ROW = Row(
    name="all", table="attribute", dataset="texts", model="any", curves=False,
    variants={method: {"method": method} for method in METHODS},
)  # fmt: skip


@pytest.fixture(params=["embedded", "gpt2", "gpt2 without padding"])
def classifier(request, tmp_path):
    """Models whose texts share batches, in part or not at all."""
    family, _, unpadded = request.param.partition(" ")
    if family == "embedded":
        return models.load()
    options = {"kind": "GPT2LMHeadModel", "pad": None if unpadded else 1}
    return models.load(str(saved(tmp_path / family, family, **options)))


def inputs_of(classifier, sentence):
    return classifier.tokenizer([sentence], return_tensors="pt")


def warns(classifier, sentence, method):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        attribute(classifier.model, inputs_of(classifier, sentence), method)
    return any(issubclass(each.category, amplification.AmplifiedRelevance) for each in found)


def beside_held(classifier, sentence, method):
    inputs = inputs_of(classifier, sentence)
    of = lambda rules: attribute(classifier.model, inputs, rules).relevance.abs().sum().item()
    return of(method) / of(GRADIENTS["held"])


def test_lines_are_those_of_the_warnings(classifier, monkeypatch):
    with amplification.left_out():
        each = [beside_held(classifier, x, m) for x in TEXTS for m in ("cp-lrp", "attnlrp")]
    for name, limit in (
        ("BESIDE_LOGIT", 0), ("BESIDE_GRADIENT", 0), ("BESIDE_HELD", sum(sorted(each)[5:7]) / 2),
    ):  # fmt: skip
        monkeypatch.setattr(amplification, name, limit)
    passes = []
    monkeypatch.setattr(
        explained, "attribute", lambda *given: passes.append(given) or attribute(*given)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", amplification.AmplifiedRelevance)
        found = explained.explain_block(ROW, classifier, "cpu", blocks.block(0, TEXTS)).to_pylist()
    want = [(n, m, warns(classifier, x, m)) for n, x in enumerate(TEXTS) for m in METHODS]
    assert [(row["example"], row["method"], row["amplified"]) for row in found] == want
    assert sum(row["amplified"] for row in found) == 6
    assert len(passes) == 2 * len(explained.text.shards(classifier, data.unlabelled("", TEXTS)))


def test_rows_without_amplified_relevance_take_no_pass(monkeypatch):
    monkeypatch.setattr(amplification, "BESIDE_LOGIT", torch.inf)
    monkeypatch.setattr(explained, "attribute", None)
    classifier = models.load()
    found = explained.explain_block(ROW, classifier, "cpu", blocks.block(0, TEXTS)).to_pylist()
    assert not any(row["amplified"] for row in found)


def test_the_command_counts_them(run, tmp_path, monkeypatch):
    for name in ("BESIDE_LOGIT", "BESIDE_HELD", "BESIDE_GRADIENT"):
        monkeypatch.setattr(amplification, name, 0)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), "utf-8")
    given = ("attribute", tmp_path / "texts.txt", "--output", tmp_path / "found")
    code, out, err = run(*given, "--method", "attnlrp,loo")
    assert (code, err) == (0, "")
    assert "lines with amplified relevance (column amplified): 6;" in " ".join(out.split())
    monkeypatch.undo()
    code, _, err = run(*given, "--method", "attnlrp,loo")
    assert (code, "amplified_beyond" in err) == (2, True)
