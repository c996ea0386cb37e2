"""Linear attention in two orders: LOO and IG cannot tell them apart, AttnLRP can (theorem 8)."""

import copy
import itertools
from functools import partial

import numpy as np
import pytest
import torch

from benchmarks.experiments.table1 import digits, methods
from benchmarks.experiments.table1.pixel_attention import (
    FACTORIZATIONS,
    GRADIENT,
    PixelAttention,
    Rules,
    relevance,
)
from numeric.evaluation.correlation import bootstrap_mean
from tests.oracles import linear_attention as reference

BOTH = tuple(FACTORIZATIONS)


def network(made=PixelAttention):
    return made(digits.NETWORK, tokens=9, width=5, classes=4).double()


@pytest.fixture(scope="module")
def model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return network().requires_grad_(requires_grad=False)


@pytest.fixture(scope="module")
def pixels():
    return torch.rand(6, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def target(model, pixels):
    return model(pixels).argmax(dim=1)


def assert_close(got, want, tol=1e-10):
    torch.testing.assert_close(got, want, rtol=tol, atol=tol)


def lrp(model, pixels, target, *, factorization, eps=0.0):
    rule = Rules(eps=eps)
    return relevance(model, pixels, target, factorization=factorization, rule=rule)["pixel"]


def read(model, pixels, *, factorization, rule):
    return model.read(model.embed(pixels, rule=rule), factorization=factorization, rule=rule)


def logits_without_an_order(model, pixels):
    """The function itself: no order of the products, no rule."""
    x = pixels[..., None] * model.direction + model.position
    q, k, v = (x @ layer.weight.mT for layer in (model.query, model.key, model.value))
    readout = torch.einsum("bjr,bir,bip->bp", q, k, v) / x.shape[1] ** 2
    return readout @ model.classifier.weight.mT + model.classifier.bias


@pytest.mark.parametrize("factorization", BOTH)
def test_every_order_computes_the_same_logits_with_and_without_rules(model, pixels, factorization):
    want = logits_without_an_order(model, pixels)
    assert_close(model(pixels, factorization=factorization), want)
    for rule in (GRADIENT, Rules(eps=0.0), Rules(eps=0.25)):
        assert_close(read(model, pixels, factorization=factorization, rule=rule), want)


def test_sums_over_pixels_give_the_logits_and_the_gradients_of_training(pixels):
    torch.manual_seed(2)
    model = network()
    found = []
    for logits in (model, partial(digits.from_sums, model)):
        out = logits(pixels)
        found.append((out, *torch.autograd.grad((out**2).sum(), tuple(model.parameters()))))
    for ours, stock in zip(*found, strict=True):
        assert_close(ours, stock, tol=1e-12)


@pytest.mark.parametrize("method", [methods.leave_one_out, methods.integrated_gradients])
def test_loo_and_ig_do_not_depend_on_the_order(model, pixels, target, method):
    left, right = (method(partial(model, factorization=name), pixels, target) for name in BOTH)
    assert left.abs().max() > 1e-3
    assert_close(left, right)


def test_attnlrp_depends_on_the_order(model, pixels, target):
    left, right = (lrp(model, pixels, target, factorization=name) for name in BOTH)
    assert (left - right).abs().max() > 0.05 * left.abs().max()


def test_leave_one_out_is_one_forward_pass_per_blanked_pixel(model, pixels, target):
    pixels = pixels.clone()
    pixels[0, 1] = 0
    got = methods.leave_one_out(model, pixels, target)
    for b, i in [(0, 0), (0, 1), (2, 5), (5, 8)]:
        blanked = pixels[b : b + 1].clone()
        blanked[0, i] = 0
        drop = model(pixels[b : b + 1]) - model(blanked)
        assert_close(got[b, i], drop[0, target[b]])


@pytest.mark.parametrize("factorization", BOTH)
def test_pixels_positions_and_bias_share_the_logit(model, pixels, target, factorization):
    model = copy.deepcopy(model)
    position, x = model.position.requires_grad_(), pixels[:1].clone().requires_grad_()
    logit = read(model, x, factorization=factorization, rule=Rules(eps=0.0))[0, target[0]]
    of_x, of_position = torch.autograd.grad(logit, [x, position])
    shares = (x * of_x).sum() + (position * of_position).sum() + model.classifier.bias[target[0]]
    assert_close(shares, logit)


def by_reference(model, x, target, *, factorization, eps):
    """The NumPy implementation of the rules, and Eq. 1 from the embedding to its pixel."""
    parameters = {name: value.numpy() for name, value in model.state_dict().items()}
    term = x.numpy()[:, None] * parameters["direction"]
    z = term + parameters["position"]
    relevance = reference.relevance(
        parameters, z, factorization=factorization, target=int(target), eps=eps
    ).x
    return (term / (z + eps * np.where(z >= 0, 1, -1)) * relevance).sum(axis=1)


# One is large: at 1e-6 a rule that was left out at one layer would not show.
@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.25])
@pytest.mark.parametrize("factorization", BOTH)
def test_relevance_is_that_of_the_reference_of_which_theorem_8_is_tested(
    model, pixels, target, factorization, eps
):
    got = lrp(model, pixels, target, factorization=factorization, eps=eps)
    want = [
        by_reference(model, x, t, factorization=factorization, eps=eps)
        for x, t in zip(pixels, target, strict=True)
    ]
    assert_close(got, torch.tensor(np.array(want)))


@pytest.mark.parametrize("factorization", BOTH)
def test_integrated_gradients_are_complete_and_the_exact_integral(
    model, pixels, target, factorization
):
    network = partial(model, factorization=factorization)
    got = methods.integrated_gradients(network, pixels, target)
    full, blank = (
        model(x).gather(1, target[:, None])[:, 0] for x in (pixels, torch.zeros_like(pixels))
    )
    assert_close(got.sum(dim=1), full - blank)
    nodes, weights = np.polynomial.legendre.leggauss(7)
    gradients = [
        torch.func.grad(lambda x: network(x).gather(1, target[:, None]).sum())(pixels * (t + 1) / 2)
        for t in nodes
    ]
    assert_close(got, pixels * sum(w / 2 * g for w, g in zip(weights, gradients, strict=True)))


def test_integrated_gradients_from_a_baseline_explain_the_difference_to_it(model, pixels, target):
    start = pixels.mean(dim=0)
    got = methods.integrated_gradients(model, pixels, target, baseline=start)
    ends = (model(x).gather(1, target[:, None])[:, 0] for x in (pixels, start.expand_as(pixels)))
    full, base = ends
    assert_close(got.sum(dim=1), full - base)
    at_the_start = methods.integrated_gradients(model, pixels, target, baseline=pixels)
    assert torch.equal(at_the_start, torch.zeros_like(pixels))


def test_incomplete_integrated_gradients_are_an_error(model, pixels, target):
    class Quartic(PixelAttention):
        def forward(self, pixels, **options):
            return super().forward(pixels, **options) * (1 + pixels.sum(dim=1, keepdim=True)) ** 3

    beyond = network(Quartic)
    beyond.load_state_dict(model.state_dict())
    with pytest.raises(ArithmeticError, match="not cubic"):
        methods.integrated_gradients(beyond, pixels, target)


def test_equal_seeds_train_equal_weights_and_leave_the_random_state_alone():
    state = torch.random.get_rng_state()
    first, again, other = (digits.train(seed=seed, epochs=1) for seed in (5, 5, 6))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first.position, again.position)
    assert not torch.equal(first.position, other.position)


@pytest.fixture(scope="module")
def small():
    return digits.measured(seed=1, epochs=1, count=12)


def cell(table, explainer, pair, maps="raw", pixels="all"):
    return bootstrap_mean(table.examples[f"{explainer} {pair} {maps} {pixels}"], seed=1)


def test_a_network_has_every_pair_of_maps_and_every_example(small):
    names = {f"{explainer} {pair}" for explainer, row in digits.PAPER.items() for pair in row}
    found = {name for name in small.examples if " vs " in name}
    scales = (f"{maps} {pixels}" for maps in ("raw", "sum to one") for pixels in ("all", "ink"))
    assert found == {f"{name} {scale}" for scale in scales for name in names}
    assert len(found) == 3 * 3 * 2 * 2
    assert {v.shape for v in small.examples.values()} == {(12,)}
    assert {v.shape for v in small.maps.values()} == {(12, 64)}
    assert 0 <= small.accuracy <= 1


def test_ink_leaves_blank_pixels_out(small):
    pixels = digits.images()["test"][0][:12].numpy()
    maps = (small.maps["AttnLRP L"], small.maps["LOO L"])
    want = [np.corrcoef(*(m[b, x > 0] for m in maps))[0, 1] for b, x in enumerate(pixels)]
    got = {name: small.examples[f"AttnLRP L vs LOO raw {name}"] for name in ("ink", "all")}
    np.testing.assert_allclose(got["ink"], want, rtol=1e-9)
    assert abs(got["all"] - want).max() > 0.01


@pytest.mark.parametrize("pixels", ["all", "ink"])
@pytest.mark.parametrize("maps", ["raw", "sum to one"])
def test_loo_and_ig_rows_are_invariant_and_attnlrp_is_not(small, maps, pixels):
    assert cell(small, "LOO", "L vs R", maps, pixels).low == pytest.approx(1, abs=1e-9)
    assert cell(small, "IG", "L vs R", maps, pixels).low == pytest.approx(1, abs=1e-9)
    assert cell(small, "AttnLRP", "L vs R", maps, pixels).mean < 0.999
    left, right = (cell(small, "IG", f"{side} vs LOO", maps, pixels) for side in "LR")
    assert left.mean == pytest.approx(right.mean, abs=1e-9)


def test_sum_to_one_turns_r_around_in_exactly_the_flipped_examples(small):
    for explainer, row in digits.PAPER.items():
        for pair, pixels in itertools.product(row, ("all", "ink")):
            raw, normalised = (
                small.examples[f"{explainer} {pair} {maps} {pixels}"]
                for maps in ("raw", "sum to one")
            )
            left, right = pair.split(" vs ")
            other = f"LOO {left}" if right == "LOO" else f"{explainer} {right}"
            sums = [small.examples[f"{name} sum"] for name in (f"{explainer} {left}", other)]
            flipped = (sums[0] < 0) ^ (sums[1] < 0)
            np.testing.assert_allclose(abs(normalised), abs(raw), rtol=1e-7)
            np.testing.assert_array_equal(flipped, raw * normalised < 0)


def test_a_row_has_the_share_of_images_whose_r_turns_around(small):
    for row in digits.table1(seeds=(1,), epochs=1, count=12).rows:
        both = (small.examples[f"{row['explainer']} {row['pair']} {m} all"] for m in methods.MAPS)
        assert row["flips"] == (np.prod([*both], axis=0) < 0).mean()


def test_no_test_image_is_a_training_image():
    splits = digits.images()
    train, test = ({tuple(x) for x in splits[name][0].tolist()} for name in ("train", "test"))
    assert not train & test
    assert [len(pixels) for pixels, _ in splits.values()] == [1437, 360]
