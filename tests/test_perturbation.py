"""Perturbation curves against the loop over removal steps."""

import numpy as np
import pytest
import torch

from numeric import attribute
from numeric.evaluation.perturbation import Curve, perturbation_curve
from numeric.inputs import prepare
from tests import cases

ORDERS = ("morf", "lerf")


def loop(model, batch, relevance, target, *, order, chunk):
    """The curve of every example, one forward pass per step, as lists of unequal length."""
    curves = []
    for row, mask in enumerate(batch["attention_mask"]):
        places = np.arange(len(mask))
        chunks = [places[n : n + chunk] for n in range(0, len(mask), chunk)]
        chunks = [c[mask[c].numpy() == 1] for c in chunks]
        chunks = [c for c in chunks if len(c)]
        total = [relevance[row, c].sum().item() for c in chunks]
        turn = -1 if order == "morf" else 1
        chunks = [chunks[n] for n in sorted(range(len(chunks)), key=lambda n: turn * total[n])]
        curve = []
        for step in range(len(chunks)):
            kept = mask.clone()
            for c in chunks[:step]:
                kept[c] = 0
            one = {key: value[[row]] for key, value in batch.items()} | {
                "attention_mask": kept[None]
            }
            with torch.no_grad():
                curve.append(model(**one).logits[0, target[row]].item())
        curves.append(curve)
    return curves


def check(curve, want):
    for row, values in enumerate(want):
        n = len(values)
        got = curve.logits[row].numpy()
        np.testing.assert_allclose(got[:n], values, rtol=1e-10, atol=1e-10)
        assert np.isnan(got[n:]).all()
        np.testing.assert_allclose(curve.mean[row], np.mean(values), rtol=1e-10)
        drop = values[0] - np.mean(values)
        np.testing.assert_allclose(curve.aopc[row], drop, rtol=1e-8, atol=1e-10)


def setting(tiny, batch):
    a = attribute(tiny, batch, "cp-lrp")
    return tiny, prepare(tiny, batch), a.relevance, a.target


@pytest.mark.parametrize("chunk", [1, 2, 4, 16])
@pytest.mark.parametrize("order", ORDERS)
def test_a_curve_is_the_loop(tiny, batch, order, chunk):
    model, prepared, relevance, target = setting(tiny, batch)
    want = loop(model, batch, relevance, target, order=order, chunk=chunk)
    for batch_size in (1, 3, 128):
        options = {"order": order, "chunk": chunk, "batch_size": batch_size}
        check(perturbation_curve(model, prepared, relevance, target, **options), want)


@pytest.mark.parametrize("order", ORDERS)
def test_a_curve_around_a_hole_is_the_loop(tiny, batch, order):
    batch["attention_mask"][0, 2:4] = 0  # a chunk of two without any token
    model, prepared, relevance, target = setting(tiny, batch)
    for chunk in (1, 2):
        want = loop(model, batch, relevance, target, order=order, chunk=chunk)
        check(
            perturbation_curve(model, prepared, relevance, target, order=order, chunk=chunk), want
        )


def test_the_other_order_is_rejected(tiny, batch):
    model, prepared, relevance, target = setting(tiny, batch)
    want = loop(model, batch, relevance, target, order="lerf", chunk=1)
    with pytest.raises(AssertionError):
        check(perturbation_curve(model, prepared, relevance, target, order="morf"), want)


def test_step_0_is_the_logit_and_ties_keep_the_order_of_the_text(tiny, batch):
    a = attribute(tiny, batch)
    zero, falling = torch.zeros(2, 6).double(), -torch.arange(12.0).double().view(2, 6)
    prepared = prepare(tiny, batch)
    first = perturbation_curve(tiny, prepared, zero, a.target, order="lerf")
    torch.testing.assert_close(first.logits[:, 0], a.logit)
    for relevance, order in ((zero, "morf"), (falling, "morf"), (-falling, "lerf")):
        same = perturbation_curve(tiny, prepared, relevance, a.target, order=order)
        assert torch.equal(same.logits, first.logits) or torch.allclose(
            same.logits, first.logits, rtol=1e-12, equal_nan=True
        )


def test_half_precision_gives_curves_in_float32(batch):
    model = cases.tiny_bert().to(torch.bfloat16)
    _, prepared, relevance, target = setting(model, batch)
    curve = perturbation_curve(model, prepared, relevance, target, order="morf")
    assert curve.logits.dtype == torch.float32


def test_mean_and_aopc_by_hand():
    curve = Curve(torch.tensor([[4.0, 1.0, 1.0], [2.0, 6.0, torch.nan]]))
    assert curve.mean.tolist() == [2.0, 4.0]
    assert curve.aopc.tolist() == [2.0, -2.0]


BAD = {
    "order='best'": {"order": "best"},
    "chunk=0": {"chunk": 0},
    "batch_size=0": {"batch_size": 0},
    r"relevance of shape \(2, 5\)": {"relevance": torch.zeros(2, 5)},
    "one finite value per token": {"relevance": torch.full((2, 6), torch.nan)},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_options_are_named(tiny, batch, message):
    options = {"order": "morf", "relevance": torch.zeros(2, 6)} | BAD[message]
    relevance = options.pop("relevance")
    with pytest.raises(ValueError, match=message):
        perturbation_curve(tiny, prepare(tiny, batch), relevance, torch.zeros(2).long(), **options)
