"""The networks of the sweep on MNIST, and the maps that its analyses compare."""

from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest
import torch

from benchmarks.experiments.table1 import analysis, methods, mnist
from benchmarks.experiments.table1.pixel_attention import (
    FACTORIZATIONS,
    PixelAttention,
    Rules,
    Specification,
    relevance,
)
from numeric.evaluation.correlation import pearson

GRID = mnist.declared()
MAIN = GRID.models["main", 0]
BOTH = tuple(FACTORIZATIONS)


# Networks


def network(specification, tokens=9):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = PixelAttention(specification, tokens=tokens, width=6, classes=4)
    return model.double().requires_grad_(requires_grad=False)


@pytest.fixture(scope="module")
def pixels():
    made = torch.rand(5, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    made[:, 2] = 0
    return made


@pytest.mark.parametrize("key", GRID.models, ids=str)
def test_pixels_and_embeddings_give_the_same_logits_in_both_orders(pixels, key):
    model = network(GRID.models[key])
    want = model.read(model.embed(pixels), factorization="qk_first")
    assert want.std() > 1e-4
    for order in BOTH:
        torch.testing.assert_close(model(pixels, factorization=order), want, rtol=0, atol=1e-12)
        for bias in ("inside", "outside"):
            rule = Rules(eps=0.25, bias=bias)
            got = model.read(model.embed(pixels, rule=rule), factorization=order, rule=rule)
            torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("key", GRID.models, ids=str)
@pytest.mark.parametrize("order", BOTH)
def test_embeddings_share_the_logit_only_if_no_bias_absorbs(pixels, key, order):
    model = network(GRID.models[key])
    logits, target = model(pixels).max(dim=1)
    shares = {
        bias: relevance(model, pixels, target, factorization=order, rule=Rules(eps=0, bias=bias))[
            "embedding"
        ].sum(dim=1)
        for bias in ("inside", "outside")
    }
    torch.testing.assert_close(shares["outside"], logits, rtol=1e-9, atol=1e-12)
    assert (shares["inside"] - logits).abs().max() > 1e-3


def test_positions_absorb_from_pixels_and_an_embedding_keeps_their_share(pixels):
    rule = Rules(eps=0, bias="outside")
    for positions, same in {"none": True, "learned": False, "sinusoidal": False}.items():
        model = network(replace(MAIN, positions=positions))
        target = model(pixels).argmax(dim=1)
        found = relevance(model, pixels, target, factorization="kv_first", rule=rule)
        assert torch.allclose(found["pixel"], found["embedding"], atol=1e-12) == same


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"pooling": "max"}, "pooling='max': pass one of mean, sum, last, flatten"),
        ({"positions": None}, "positions=None: pass one of none, learned, sinusoidal"),
        ({"embedding": "both"}, "embedding='both'"),
        ({"scale": 1}, "scale=1"),
        ({"input": "raw"}, "input='raw'"),
        ({"qkv_bias": "yes"}, "qkv_bias='yes'"),
    ],
)
def test_an_unknown_choice_is_refused_with_what_there_is(changed, says):
    with pytest.raises(ValueError, match=says):
        Specification(**asdict(MAIN) | changed)


# Analysis


@pytest.fixture(scope="module")
def analysed(pixels):
    model = network(replace(MAIN, embedding_bias=True))
    axes = GRID.analysis | {"forward": 3}
    ink = (pixels > 0).numpy()
    mean = torch.full((9,), 0.3, dtype=torch.float64)
    return model, analysis.analyse(model, pixels, axes, ink=ink, mean=mean, batch=2)


def test_every_declared_analysis_has_a_value_per_image(analysed):
    _, columns = analysed
    names = [analysis.column(settings) for settings in analysis.analyses(GRID.analysis)]
    assert len(set(names)) == len(names) == 3 * 2 * 2 * 2 * 2 + 3 * 2 * 2
    assert {columns[name].shape for name in names} == {(5,)}


def test_an_analysis_is_what_its_name_says(analysed, pixels):
    model, columns = analysed
    target = model(pixels).argmax(dim=1)
    every = np.ones((5, 9), dtype=bool)
    loo = methods.leave_one_out(model, pixels, target).numpy()
    lrp = {
        order: relevance(model, pixels, target, factorization=order, rule=Rules(bias="outside"))
        for order in BOTH
    }
    want = pearson(lrp["kv_first"]["embedding"], loo, every)
    np.testing.assert_allclose(
        columns["AttnLRP kv_first vs LOO, embedding, outside, raw, all"], want, atol=1e-9
    )
    pair = [lrp[order]["pixel"].numpy() for order in BOTH]
    want = pearson(*pair, (pixels > 0).numpy())
    np.testing.assert_allclose(columns["AttnLRP L vs R, pixel, outside, raw, ink"], want, atol=1e-9)
    embedded = methods.integrated_gradients(
        partial(model.read, factorization="kv_first"), model.embed(pixels), target
    )
    want = pearson(embedded.sum(dim=-1), loo, every)
    np.testing.assert_allclose(columns["IG vs LOO, zero embedding, raw, all"], want, atol=1e-9)


def test_absolute_sum_to_one_would_be_the_r_of_raw():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, 9))
    every = np.ones((4, 9), dtype=bool)
    scaled = (x / abs(x).sum(axis=1, keepdims=True) for x in (a, b))
    np.testing.assert_allclose(pearson(*scaled, every), pearson(a, b, every), rtol=1e-12)


@pytest.mark.parametrize("shift", [1e-9, 0.1, np.nan])
def test_maps_that_depend_on_the_order_are_an_error(shift):
    left = np.random.default_rng(0).normal(size=(3, 9))
    right = left.copy()
    analysis.difference("LOO", left, right + 1e-12)
    right[1, 4] += shift * abs(left[1]).max()
    with pytest.raises(ArithmeticError, match=r"LOO of image 1 .* qk_first and kv_first"):
        analysis.difference("LOO", left, right)
