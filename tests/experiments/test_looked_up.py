"""Table 1 with looked-up pixels: one function, exact removals, and all that is declared."""

import pytest
import torch

from benchmarks.experiments.table1 import mnist
from benchmarks.research import looked_up
from numeric.networks.linear_attention import FACTORIZATIONS
from tests.support.invented_digits import arrays, save

SIZES = {"training": {"images": 64, "epochs": 1, "batch": 16, "learning_rate": 1e-3}}
NETWORK = {"scale": ["none"], "pooling": ["last"], "bias": [False], "seed": [0, 1]}


@pytest.fixture(params=looked_up.DECLARED["network"]["pooling"])
def model(request):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = looked_up.LookedUp(scale="width", pooling=request.param, bias=True)
    return made.double().requires_grad_(requires_grad=False)


@pytest.fixture
def pixels():
    return torch.randint(0, 256, (2, 196), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("order", FACTORIZATIONS)
def test_sums_over_tokens_give_the_logits_of_both_orders(model, pixels, order):
    want = model.read(model.embed(model.words(pixels)), factorization=order)
    assert want.std() > 1e-3
    torch.testing.assert_close(model(pixels), want, rtol=1e-9, atol=1e-9)


def test_leave_one_out_is_one_forward_pass_per_replaced_embedding(model, pixels):
    x, start = model.embed(model.words(pixels)), model.position / 3
    target = model(pixels).argmax(dim=1)
    read = lambda y: model.read(y, factorization="qk_first").gather(1, target[:, None])[:, 0]
    found = looked_up.leave_one_out(model, x, start, target)
    for token in (0, 100, 195):
        without = x.clone()
        without[:, token] = start[token]
        want = read(x) - read(without)
        torch.testing.assert_close(found[:, token], want, rtol=1e-7, atol=1e-9)


def test_integrated_gradients_start_where_their_names_say(model, pixels):
    mean = torch.bincount(pixels.flatten(), minlength=256).double() / pixels.numel()
    found = looked_up.maps(model, pixels, mean)
    x, logits = model.embed(model.words(pixels)), model(pixels)
    everywhere = torch.zeros_like(x[:1])
    starts = {
        ("word", "zero pixel"): model.embed(model.words(torch.zeros_like(pixels[:1]))),
        ("word", "zero embedding"): model.position[None],
        ("word", "mean embedding"): model.words(pixels).mean(dim=(0, 1)) + model.position[None],
        ("sum", "zero embedding"): everywhere,
        ("sum", "mean embedding"): everywhere + x.mean(dim=(0, 1)),
    }
    for name, start in starts.items():
        drop = logits - model.read(start, factorization="kv_first")
        want = drop.gather(1, logits.argmax(dim=1, keepdim=True))[:, 0]
        got = torch.from_numpy(found["IG", *name].sum(axis=1))
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-8)


def test_every_network_and_pair_has_a_line(tmp_path, monkeypatch):
    analysis = looked_up.DECLARED["analysis"] | {"images": 3}
    declared = looked_up.DECLARED | SIZES | {"analysis": analysis, "network": NETWORK}
    monkeypatch.setattr(looked_up, "DECLARED", declared)
    save(tmp_path, arrays(train=64))
    lines = list(looked_up.sweep(mnist.load(data_dir=tmp_path)))
    pairs = 2 * (3 * 3 + 3 * 2 + 1)  # by level: starts and removals, orders and removals, orders
    maps = 2 * (3 + 3 + 2)
    assert len(lines) == 2 * (1 + maps + pairs)
    own = [line for line in lines if line.startswith("scale=none | pooling=last | bias=False | ")]
    assert len(own) == len(lines) / 2
    assert len({line.split(" ± ")[0].rsplit(" | ", 1)[0] for line in lines}) == len(lines)
