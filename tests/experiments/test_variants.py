"""Variants of mask relevance: what they change, what they learn, and who gains on every model."""

import gzip

import numpy as np
import torch
from transformers import BertForSequenceClassification, LlamaForSequenceClassification

from benchmarks.experiments.judges import budgets, learnt_weights, variants
from tests.support.cases import perturbed, tiny_batch


def test_all_variants_are_compared_on_training_texts(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(budgets, "WORDS", 3)
    lines = "a fine film\t1\na dull evening\t0\n" * 21
    text = gzip.compress(f"sentence\tlabel\n{lines}".encode())
    (tmp_path / "sst2_train.tsv.gz").write_bytes(text)
    variants.main(["embedded", "embedded-lm", "--data-dir", str(tmp_path), "--examples", "2"])
    head, _, *lines = (line for line in capsys.readouterr().out.splitlines() if line)
    assert head == "| all tokens | embedded | embedded-lm |"
    names = [line.split("|")[1].strip() for line in lines[: 1 + len(variants.NAMES)]]
    assert sorted(names) == sorted([*variants.NAMES, "its size, in that of LOO"])
    assert lines[len(names)].startswith("Gain on every model: ")


def test_a_variant_gains_where_its_interval_of_the_difference_is_above_zero():
    rng = np.random.default_rng(0)
    texts = []
    for _ in range(30):
        loo, noise = torch.tensor(rng.normal(size=(2, 12)))
        close, far = loo + 0.1 * noise, loo + noise
        own = dict.fromkeys(variants.NAMES, far) | {"AttnLRP": close, "CP-LRP": far + noise}
        texts.append(own | {"loo": loo, "content": torch.ones(12).bool()})
    worse = [x | {"CP-LRP": x["AttnLRP"], "without 1/(1 - A)": -x["loo"]} for x in texts]
    lines = [*variants.table({"one": texts, "other": worse})]
    assert lines.count("Gain on every model: AttnLRP.") == 2  # over all and over content tokens
    assert lines.count("Lose on every model: none.") == 2
    assert "Lose on every model: CP-LRP." in variants.table({"one": texts})
    same = "+0.000 [+.000, +.000]"
    assert f"| deviations held | {same} | {same} |" in lines


def test_rules_of_attention_change_no_gradient_behind_the_last_attention():
    model = perturbed(BertForSequenceClassification)
    heads = lambda name: variants.explained(
        model, tiny_batch(), 1, "mask-relevance", {"heads": True} | variants.METHODS[name][1]
    ).details["heads"]
    plain = heads(variants.BASE)
    for name in (variants.IN_HALVES, "attention weights held"):
        other = heads(name)
        assert torch.equal(other[:, -1], plain[:, -1])
        assert (other[:, :-1] - plain[:, :-1]).abs().amax() > 0.01 * plain.abs().amax()


def test_masks_that_keep_all_leave_the_gradient_as_it_is():
    model = perturbed(LlamaForSequenceClassification)
    relevance = lambda **options: (
        variants.explained(model, tiny_batch(), 1, "mask-relevance", options).relevance
    )
    plain, half = relevance(), relevance(midpoint=1)
    assert torch.allclose(relevance(midpoint=1, kept=1.0), plain, atol=1e-8)
    assert torch.equal(relevance(midpoint=1, kept=0.5), half)
    assert not torch.allclose(half, plain, rtol=1e-2)


def test_prompts_of_every_task_are_asked_and_each_once():
    texts = variants.prompts(36).texts
    assert len({*texts}) == 36
    assert {x.split()[-1] for x in texts} >= {";", "now"}
    assert texts == variants.prompts(36).texts


def test_learnt_weights_are_those_that_leave_one_out_was_made_of():
    rng = torch.Generator().manual_seed(0)
    weights, layers = torch.tensor([2.0, 0.0, 0.5]), torch.randn(3, 9, generator=rng)
    x = {"layers": layers, "loo": weights @ layers + 7}  # a mean of its own changes no r
    assert torch.allclose(learnt_weights.learnt([x]), weights.double(), atol=1e-5)
    assert torch.allclose(learnt_weights.weighted(x, weights.double()), weights @ layers)


def test_every_text_teaches_as_much_as_any_other():
    rng = torch.Generator().manual_seed(0)
    texts = [torch.rand(4, 9, generator=rng) for _ in range(3)]
    of_sizes = lambda sizes: learnt_weights.learnt(
        [{"layers": c * x[:3], "loo": c * x[3]} for c, x in zip(sizes, texts, strict=True)]
    )
    assert torch.allclose(of_sizes([1, 1, 1]), of_sizes([100, 1, 0.1]), atol=1e-5)


def test_no_learnt_weight_is_below_zero():
    layers = torch.eye(4)[:3]
    x = {"layers": layers, "loo": torch.tensor([1.0, -3.0, 2.0]) @ layers}
    weights = learnt_weights.learnt([x])
    assert weights[1] == 0
    assert weights[2] > weights[0] > 0


def test_maps_are_added_when_their_sizes_are_one():
    found = variants.SUMS["mask relevance + CP-LRP"](
        {"mask relevance": torch.tensor([3.0, -1.0]), "CP-LRP": torch.tensor([0.0, 0.5])}
    )
    assert found.tolist() == [0.75, 0.75]
