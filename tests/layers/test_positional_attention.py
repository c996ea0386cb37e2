"""Nine ways to encode position: two implementations of their rules agree, and relevance adds up.

At eps = 0 and eps = 1/4, on random float64 inputs, to 1e-10: tokens, position leaves, and what
every operation absorbs (by formula in one text, by difference in the other).
"""

import inspect
from dataclasses import FrozenInstanceError, fields
from functools import cache

import numpy as np
import pytest
import torch

from numeric.networks.positional_attention import PositionalAttention, relevance
from numeric.networks.positions import FAMILIES
from numeric.reference import positional as reference_positional
from numeric.reference import positional_attention as reference

TOKENS, WIDTH, HEADS = 6, 8, 2
CLOSE = dict(rtol=1e-10, atol=1e-10)
BY_CONTENT = [name for name, family in FAMILIES.items() if family.given]


def layer(family):
    torch.manual_seed(0)
    return PositionalAttention(family, width=WIDTH, heads=HEADS, tokens=TOKENS)


def parameters_of(family):
    return {name: value.detach().numpy() for name, value in layer(family).state_dict().items()}


def embeddings():
    return torch.randn(3, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1)).double()


def by_place(absorbed):
    places = dict.fromkeys(place for place, _ in absorbed)
    return {p: sum(part for (place, _), part in absorbed.items() if place == p) for p in places}


def check_example(got, n, family, eps):
    parameters = parameters_of(family)
    one = embeddings()[n].numpy()
    want = reference.relevance(parameters, one, family=family, heads=HEADS, eps=eps)
    np.testing.assert_allclose(got.logit[n], want.logit, **CLOSE)
    np.testing.assert_allclose(got.tokens[n], want.tokens, **CLOSE)
    assert got.positions.keys() == want.positions.keys()
    for leaf, part in want.positions.items():
        np.testing.assert_allclose(got.positions[leaf][n], part, **CLOSE)
    absorbed = by_place(got.absorbed)
    for place, amount in want.absorbed.items():
        found = absorbed[place][n] if place in absorbed else 0.0
        np.testing.assert_allclose(found, amount, **CLOSE, err_msg=place)
    assert absorbed.keys() <= want.absorbed.keys()


@cache
def of_fast_text(family):
    return relevance(layer(family), embeddings(), eps=0.25)


def check_all():
    """One example of every family, at a finite eps; the fast implementation is run once."""
    for family in FAMILIES:
        check_example(of_fast_text(family), 0, family, 0.25)


@pytest.mark.parametrize("eps", [0.0, 0.25])
@pytest.mark.parametrize("family", FAMILIES)
def test_modified_gradients_are_the_messages(family, eps):
    got = relevance(layer(family), embeddings(), eps=eps)
    for n in range(len(embeddings())):
        check_example(got, n, family, eps)


@pytest.mark.parametrize("eps", [0.0, 0.25])
@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_positions_and_what_is_absorbed_add_up_to_the_logit(family, eps):
    got = relevance(layer(family), embeddings(), eps=eps)
    assert got.gap.abs().max() < 1e-10
    causes = {cause for _, cause in got.absorbed}
    assert causes == {"bias", "Taylor term"} | ({"stabiliser"} if eps else set())
    for part in got.positions.values():
        assert part.abs().max() > 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_the_rules_do_not_change_the_logit(family):
    model, x = layer(family), embeddings()
    np.testing.assert_allclose(
        relevance(model, x, eps=0.25).logit, model(x).detach(), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("eps", [0.0, 0.25])
@pytest.mark.parametrize("family", BY_CONTENT)
def test_position_given_by_tokens_hands_all_on_to_them_but_what_its_own_way_absorbs(family, eps):
    got = relevance(layer(family), embeddings(), eps=eps)
    leaves = sum(part.flatten(1).sum(dim=1) for part in got.positions.values())
    on_the_way = sum(got.absorbed_onward.values(), torch.zeros(()))
    np.testing.assert_allclose(got.onward.sum(dim=1) + on_the_way, leaves, **CLOSE)
    assert bool(got.absorbed_onward) == bool(eps)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in BY_CONTENT])
def test_position_that_no_token_gives_hands_nothing_on(family):
    got = relevance(layer(family), embeddings(), eps=0.0)
    assert not got.onward.any()
    assert got.absorbed_onward == {}


def test_a_layer_leaves_examples_alone():
    model, x = layer("householder"), embeddings()
    together, alone = relevance(model, x), relevance(model, x[1:2])
    np.testing.assert_allclose(together.tokens[1], alone.tokens[0], rtol=1e-12, atol=1e-14)


def test_every_family_of_one_text_is_a_family_of_the_other():
    assert list(FAMILIES) == list(reference_positional.FAMILIES)
    assert set(BY_CONTENT) == reference_positional.BY_CONTENT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"family": "alibi"}, "family='alibi': pass one of sinusoidal, "),
        ({"width": 6}, "width=6, heads=2: every head needs an even number"),
        ({"heads": 0}, "heads=0"),
    ],
)
def test_a_layer_that_cannot_be_built_is_refused(options, message):
    built = dict(family="rotary", width=WIDTH, heads=HEADS, tokens=TOKENS) | options
    with pytest.raises(ValueError, match=message):
        PositionalAttention(built.pop("family"), **built)


@pytest.mark.parametrize("eps", [-1.0, float("nan"), float("inf")])
def test_a_stabiliser_that_is_none_is_refused(eps):
    with pytest.raises(ValueError, match="the stabiliser must be finite and >= 0"):
        relevance(layer("rotary"), embeddings(), eps=eps)


def test_embeddings_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"x of shape \(3, 4, 8\): .* with 6 tokens of 8 channels"):
        relevance(layer("rotary"), embeddings()[:, :4])


def test_what_the_slow_text_returns_cannot_be_changed_afterwards():
    options = dict(family="sinusoidal", heads=HEADS, eps=0.0)
    parameters = parameters_of("sinusoidal")
    got = reference.relevance(parameters, embeddings()[0].numpy(), **options)
    setting = reference_positional.Setting(parameters, HEADS, 0.0)
    for record in (got, setting):
        for field in fields(record):
            with pytest.raises(FrozenInstanceError):
                setattr(record, field.name, None)


def test_the_slow_text_imports_nothing_of_the_fast_one():
    for text in (reference, reference_positional):
        source = inspect.getsource(text)
        assert "numeric.fast" not in source
        assert "torch" not in source
