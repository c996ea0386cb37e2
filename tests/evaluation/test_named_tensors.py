"""Faithfulness of maps over named tensors of any torch module, against loops by hand."""

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau, pearsonr
from torch import nn

from numeric import attribute, evaluate
from tests.support.own_modules import IDS, Encoder, make, read


def by_hand(module, ids, keep):
    """The numbers of copies whose embeddings are 0 where ``keep``, (batch, token), is False."""

    def hide(_module, _inputs, output):
        return output * torch.as_tensor(keep)[:, :, None]

    with module.embed.register_forward_hook(hide), torch.no_grad():
        return read(module(ids)).numpy()


@pytest.fixture(scope="module")
def case():
    module, ids = make(Encoder).double(), IDS
    maps = {
        name: attribute(module, ids, name, of="embed", read=read, axes=-1).relevance.numpy()
        for name in ("attnlrp", "cp-lrp")
    }
    return module, ids, maps


def test_measures_equal_a_loop_by_hand(case):
    module, ids, maps = case
    found = evaluate(module, ids, maps, of="embed", read=read, axes=-1, top=2)
    count, size = ids.shape
    everything = np.ones((count, size), dtype=bool)
    logit = by_hand(module, ids, everything)
    loo = np.stack([logit - by_hand(module, ids, everything & (np.arange(size) != n))
        for n in range(size)], axis=1)  # fmt: skip
    for name, relevance in maps.items():
        order = np.argsort(-relevance, axis=1, kind="stable")
        rank = order.argsort(axis=1)
        falling = [by_hand(module, ids, rank >= k) for k in range(size)]
        rising = [by_hand(module, ids, size - 1 - rank >= k) for k in range(size)]
        for n in range(count):
            got = {key: x[n] for key, x in found[name].items()}
            want = {
                "r": pearsonr(relevance[n], loo[n]).statistic,
                "tau": kendalltau(relevance[n], loo[n]).statistic,
                "MoRF": np.mean([x[n] for x in falling]),
                "LeRF": np.mean([x[n] for x in rising]),
                "top drop": logit[n] - falling[2][n],
            }
            assert {key: got[key] for key in want} == pytest.approx(want, abs=1e-12)
            assert got["Δ"] == pytest.approx(want["LeRF"] - want["MoRF"], abs=1e-12)
    assert "soft sufficiency" not in found["cp-lrp"]


def test_gradient_x_input_is_exact_for_linear_modules_whatever_stays_in_place():
    module = nn.Sequential(nn.Conv1d(3, 4, 1), nn.Flatten(), nn.Linear(20, 2)).double().eval()
    x = torch.randn(2, 3, 5).double()
    a = attribute(module, x, "gradient-x-input", of="input", read=read, axes=1)
    found = evaluate(module, x, a.relevance, of="input", read=read, axes=1)["relevance"]
    assert [*found["r"], *found["tau"], *found["LDS"], *found["explained"]] == pytest.approx(
        [1] * 8
    )
    base = evaluate(module, x, a.relevance, of="input", read=read, axes=1, baseline=3.0)
    assert base["relevance"]["r"] != pytest.approx(1)
    of_numpy = {"baseline": np.float32(3), "seed": np.int64(0)}
    same = evaluate(module, x, a.relevance, of="input", read=read, axes=1, **of_numpy)
    np.testing.assert_equal(same, base)


BAD = {
    "a soft measure": ({"measures": "soft sufficiency"}, "unknown measure 'soft sufficiency'"),
    "a target": ({"target": 1}, "are of texts: leave them out"),
    "a memory": ({"memory": "all of it"}, "are of texts: leave them out"),
    "a baseline": ({"baseline": float("nan"), "axes": "x"}, "axes='x': .*\nbaseline=nan: pass"),
    "another map": ({"axes": ()}, r"of shape .*; pass numbers \(batch, token\), here"),
    "a name": ({"of": "embedding"}, "did you mean"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_call_is_refused_with_the_next_step(case, name):
    module, ids, maps = case
    options, said = BAD[name]
    call = {"of": "embed", "read": read, "axes": -1} | options
    with pytest.raises(ValueError, match=said):
        evaluate(module, ids, maps, **call)
