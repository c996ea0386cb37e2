"""Perturbation curves against the loop over removal steps."""

import numpy as np
import pytest
import torch

from numeric import attribute
from numeric.evaluation import perturbation
from numeric.evaluation.perturbation import perturbation_curves
from numeric.models.inputs import prepare
from tests.support import cases

ORDERS = ("morf", "lerf")


def loop(model, batch, relevance, target, *, order, chunk):
    """The curve of every example, one forward pass per step, as lists of unequal length."""
    curves = []
    for row, mask in enumerate(batch["attention_mask"]):
        places = np.flatnonzero(mask)
        chunks = [places[n : n + chunk] for n in range(0, len(places), chunk)]
        total = [relevance[row, c].sum().item() for c in chunks]
        turn = -1 if order == "morf" else 1
        chunks = [chunks[n] for n in sorted(range(len(chunks)), key=lambda n: turn * total[n])]
        curve = []
        for step in range(len(chunks)):
            kept = mask.clone()
            for c in chunks[:step]:
                kept[c] = 0
            one = {key: value[[row]] for key, value in batch.items()}
            one["attention_mask"] = kept[None]
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


def perturbation_curve(model, batch, relevance, target, *, order, **options):
    (both,) = perturbation_curves(model, batch, [relevance], target, **options)
    return both[list(perturbation.ORDERS).index(order)]


def setting(tiny, batch):
    a = attribute(tiny, batch, "cp-lrp")
    return tiny, prepare(tiny, batch), a.relevance, a.target


@pytest.mark.parametrize("start", [1, 2])  # within two chunks of columns, or a whole one
@pytest.mark.parametrize("order", ORDERS)
def test_a_curve_around_a_hole_is_the_loop(tiny, batch, order, start):
    batch["attention_mask"][0, start : start + 2] = 0
    model, prepared, relevance, target = setting(tiny, batch)
    for chunk in (1, 2):
        want = loop(model, batch, relevance, target, order=order, chunk=chunk)
        options = {"order": order, "chunk": chunk}
        check(perturbation_curve(model, prepared, relevance, target, **options), want)


@pytest.mark.parametrize("chunk", [2, 3])
def test_chunks_are_of_the_text_and_not_of_its_padding(chunk):
    relevance = torch.tensor([0.5, -1.0, 2.0, 0.25, -3.0, 1.5, 0.75])
    weights = 2.0 ** torch.arange(7)  # tells all sets of tokens apart
    found = []
    for ends in ((0, 0), (4, 0), (0, 4)):
        padded = [torch.nn.functional.pad(x, ends)[None] for x in (relevance, weights)]
        run = lambda _, kept, by=padded[1][0]: kept.float() @ by
        (both,) = perturbation.curves(padded[1] > 0, padded[:1], run, chunk=chunk)
        found.append(torch.stack([curve.logits for curve in both]))
    assert torch.equal(found[1], found[0])
    assert torch.equal(found[2], found[0])


def test_a_logit_that_is_not_finite_ends_no_curve_silently(batch):
    present = batch["attention_mask"].bool()
    relevance = torch.rand(present.shape, generator=torch.Generator().manual_seed(0))
    few = lambda _, keep: torch.where(keep.sum(dim=1) == 2, torch.nan, 1.0)
    with pytest.raises(ValueError, match="without some tokens the model has no finite logit"):
        perturbation.curves(present, [relevance], few)


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
        assert_same(same, first)


def test_half_precision_gives_curves_in_float32(batch):
    model = cases.tiny_bert().to(torch.bfloat16)
    _, prepared, relevance, target = setting(model, batch)
    curve = perturbation_curve(model, prepared, relevance, target, order="morf")
    assert curve.logits.dtype == torch.float32


# Several maps at once


@pytest.fixture
def copies(monkeypatch):
    """How many masked copies each call evaluates."""
    counts, real = [], perturbation.masked_logits

    def counted(model, batch, example, keep, *arguments, **options):
        counts.append(len(example))
        return real(model, batch, example, keep, *arguments, **options)

    monkeypatch.setattr(perturbation, "masked_logits", counted)
    return counts


def some_maps(tiny, batch):
    a = attribute(tiny, batch, "cp-lrp")
    torch.manual_seed(0)
    others = [torch.randn(2, 6).double() for _ in range(3)]
    return a, [a.relevance, *others, torch.zeros(2, 6).double(), -a.relevance, a.relevance]


def assert_same(curve, want):
    torch.testing.assert_close(curve.logits, want.logits, rtol=1e-12, atol=0, equal_nan=True)


@pytest.mark.parametrize("chunk", [1, 2, 4, 16])
def test_several_curves_are_those_of_each_map_alone(tiny, batch, chunk):
    a, maps = some_maps(tiny, batch)
    prepared = prepare(tiny, batch)
    found = perturbation_curves(tiny, prepared, maps, a.target, chunk=chunk)
    for relevance, of_map in zip(maps, found, strict=True):
        for order, curve in zip(ORDERS, of_map, strict=True):
            options = {"order": order, "chunk": chunk}
            assert_same(curve, perturbation_curve(tiny, prepared, relevance, a.target, **options))
            check(curve, loop(tiny, batch, relevance, a.target, **options))
    padding = batch["attention_mask"] == 0
    unknown = [x.masked_fill(padding, torch.nan) for x in maps]
    again = perturbation_curves(tiny, prepared, unknown, a.target, chunk=chunk)
    assert str(again) == str(found)  # padding has no place in the order


def removed_sets(relevance, mask):
    """All that remains of a text along both curves."""
    kept = set()
    for turn in (-1, 1):
        order = sorted(mask.nonzero()[:, 0].tolist(), key=lambda n: turn * float(relevance[n]))
        kept |= {frozenset(order[step:]) for step in range(len(order))}
    return kept


def test_copies_that_are_equal_run_once(tiny, batch, copies):
    a, maps = some_maps(tiny, batch)
    perturbation_curves(tiny, prepare(tiny, batch), maps, a.target)
    distinct = [
        set().union(*(removed_sets(relevance[row], mask) for relevance in maps))
        for row, mask in enumerate(batch["attention_mask"])
    ]
    assert copies == [sum(map(len, distinct))]
    assert copies[0] < len(maps) * 2 * (6 + 3)  # each map, order, text and step by itself


def test_two_orders_of_one_map_share_the_whole_text_alone(tiny, batch, copies):
    a, maps = some_maps(tiny, batch)
    perturbation_curves(tiny, prepare(tiny, batch), [maps[1]], a.target)
    assert copies == [2 * (6 + 3) - 2]


def test_texts_with_the_same_tokens_left_are_not_confused(tiny, batch, copies):
    """Both remove the same places, but of different texts."""
    for key in batch:
        batch[key] = batch[key][:, :3]
    relevance = torch.tensor([[3.0, 2.0, 1.0]] * 2).double()
    target = torch.tensor([0, 1])
    curve = perturbation_curve(tiny, prepare(tiny, batch), relevance, target, order="morf")
    check(curve, loop(tiny, batch, relevance, target, order="morf", chunk=1))
    assert copies == [2 * (3 + 3 - 1)]


def test_more_tokens_than_one_byte_of_places_and_more_texts_than_one_byte_of_numbers():
    model = cases.tiny_bert()
    ids = torch.randint(0, 11, (300, 9), generator=torch.Generator().manual_seed(0))
    batch = prepare(model, {"input_ids": ids})
    relevance = torch.randn(300, 9, generator=torch.Generator().manual_seed(1)).double()
    target = torch.zeros(300, dtype=torch.long)
    (of_map,) = perturbation_curves(model, batch, [relevance], target)
    for row in (0, 255, 256, 299):
        part = {"input_ids": ids[[row]], "attention_mask": torch.ones(1, 9, dtype=torch.long)}
        (want,) = loop(model, part, relevance[[row]], target, order="lerf", chunk=1)
        np.testing.assert_allclose(of_map[1].logits[row], want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("place", [0, 1])
def test_a_bad_map_among_good_ones_is_refused(tiny, batch, place, copies):
    a, maps = some_maps(tiny, batch)
    for bad in (torch.zeros(2, 5), torch.full((2, 6), torch.inf)):
        given = [maps[0], bad][:: 1 if place else -1]
        with pytest.raises(ValueError, match="one finite value per token"):
            perturbation_curves(tiny, prepare(tiny, batch), given, a.target)
    with pytest.raises(ValueError, match="0 maps: pass"):
        perturbation_curves(tiny, prepare(tiny, batch), [], a.target)
    assert copies == []


BAD = {
    "chunk=0": {"chunk": 0},
    r"relevance of shape \(2, 5\)": {"relevance": torch.zeros(2, 5)},
    "one finite value per token": {"relevance": torch.full((2, 6), torch.nan)},
    r"target \[-1, 7\] out of range; the model has classes 0 to 2": {"target": [7, -1]},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_options_are_named(tiny, batch, message):
    options = {"order": "morf", "relevance": torch.zeros(2, 6), "target": [0, 0]} | BAD[message]
    relevance, target = options.pop("relevance"), torch.tensor(options.pop("target"))
    with pytest.raises(ValueError, match=message):
        perturbation_curve(tiny, prepare(tiny, batch), relevance, target, **options)
