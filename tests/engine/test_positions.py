"""Relevance of position in stock models: its signed shares add up, and absolute ones do not.

The share that turned queries and keys leave to rotary position is compared with messages in
NumPy, which turn them, on a one-layer model.
"""

from functools import partial

import numpy as np
import pytest
import torch

from axioms.composites import ATTNLRP, Composite
from numeric import attribute
from numeric.engine.engine import Propagation
from numeric.methods import positions
from numeric.reference import rules
from tests.census.build import CAUSAL, with_inputs
from tests.census.measure import conditions
from tests.support import cases

ADDED = [*cases.ENCODERS, "gpt2", "vit"]
BESIDE = ("excess", "grid")
"""Details that are no share of the logit."""
TYPED = ["bert", "roberta", "electra", "albert"]


def total(details):
    """Over all shares, rotary over its layers: (batch,)."""
    return sum(part.flatten(1).sum(dim=1) for name, part in details.items() if name not in BESIDE)


def check_shares_add_up(name, explain):
    """By CP-LRP and without biases nothing is absorbed, so that the shares are the logit."""
    model, batch = cases.without_biases(name)
    got = explain(model, batch, "cp-lrp")
    torch.testing.assert_close(total(got.details), got.logit, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(got.residual, torch.zeros_like(got.logit), rtol=0, atol=1e-10)


signed = partial(attribute, positions="signed")


@pytest.mark.parametrize("name", [*ADDED, *cases.ROTARY])
def test_without_biases_the_signed_shares_add_up_to_the_logit(name):
    check_shares_add_up(name, signed)


@pytest.mark.filterwarnings("ignore::numeric.methods.amplification.AmplifiedRelevance")
@pytest.mark.parametrize("name", ADDED)
def test_absolute_shares_do_not_add_up(name):
    with pytest.raises(AssertionError):
        check_shares_add_up(name, partial(attribute, positions="absolute"))


@pytest.mark.parametrize("name", ADDED)
def test_what_is_added_to_words_splits_the_relevance_of_the_embedding(name):
    model, batch = cases.family(name)
    plain, split = attribute(model, batch), signed(model, batch)
    expected = {"word", "position"} | ({"token type"} if name in TYPED else set())
    parts = {key: part for key, part in split.details.items() if key not in BESIDE}
    assert parts.keys() == expected
    torch.testing.assert_close(sum(parts.values()), plain.relevance)
    torch.testing.assert_close(split.relevance, plain.relevance)
    torch.testing.assert_close(parts["word"], attribute(model, batch, share="word").relevance)
    for part in parts.values():
        assert part.abs().max() > 1e-4


def test_position_and_token_type_are_what_bert_looks_up():
    model, batch = cases.tiny_bert(), cases.tiny_batch()
    got = signed(model, batch)
    with Propagation(model, ATTNLRP) as rules, torch.enable_grad():
        logits = model(**batch).logits.gather(1, got.target[:, None])
    (c,) = torch.autograd.grad(logits.sum(), rules.entries.only.embedding)
    tables = model.bert.embeddings
    place = tables.position_embeddings.weight[: c.shape[1]].detach() * c
    kind = tables.token_type_embeddings.weight.detach()[batch["token_type_ids"]] * c
    mask = batch["attention_mask"]
    torch.testing.assert_close(got.details["position"], place.sum(-1) * mask)
    torch.testing.assert_close(got.details["token type"], kind.sum(-1) * mask)


def test_token_types_that_gpt2_looks_up_among_words_are_no_words():
    model, batch = cases.family("gpt2")
    types = torch.tensor([[4, 4, 4, 9, 9, 9], [4, 9, 9, 9, 0, 0]])
    table = model.transformer.wpe.weight.detach()
    with Propagation(model, ATTNLRP) as rules, torch.enable_grad():
        model(**batch, token_type_ids=types)
    torch.testing.assert_close(rules.entries.only.parts()["position"], table[:6].expand(2, -1, -1))


@pytest.mark.parametrize("epsilon", [1e-2, 0.25])
def test_at_a_finite_epsilon_the_shares_of_the_sum_are_stabilised(epsilon):
    model, batch = cases.family("bert")
    got = signed(model, batch, epsilon=epsilon)
    word = attribute(model, batch, epsilon=epsilon, share="word").relevance
    torch.testing.assert_close(got.details["word"], word)
    whole = attribute(model, batch, epsilon=epsilon).relevance
    assert (sum(got.details.values()) - whole).abs().max() > 1e-6  # the stabiliser's share


# rotary position


def by_messages(model, batch):
    """Relevance (batch, token) of (cos, sin) for one layer of LLaMA, from its readout's relevance.

    Eqs. 3 to 5 and the turn, example by example in NumPy.
    """
    kept = {}
    attention = model.model.layers[0].self_attn
    hooks = [
        attention.q_proj.register_forward_pre_hook(lambda _, args: kept.update(x=args[0])),
        attention.o_proj.register_forward_pre_hook(lambda _, args: kept.update(o=args[0])),
    ]
    with (
        Propagation(model, ATTNLRP, turns=True),
        torch.enable_grad(),
    ):
        logits = model(**batch).logits
        best = logits.gather(1, logits.argmax(dim=1, keepdim=True)).sum()
        (c,) = torch.autograd.grad(best, kept["o"])
    for hook in hooks:
        hook.remove()
    readouts = (kept["o"] * c).detach().numpy()
    named = zip(kept["x"].detach().numpy(), readouts, batch["attention_mask"].numpy(), strict=True)
    return np.stack([_one(attention, x, r, mask) for x, r, mask in named])


def _one(attention, x, r, mask):
    size = attention.head_dim
    q, k, v = (
        (x @ part.weight.detach().numpy().T + part.bias.detach().numpy())
        .reshape(len(x), -1, size)
        .transpose(1, 0, 2)
        for part in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    k, v = (np.repeat(part, len(q) // len(k), axis=0) for part in (k, v))
    angle = np.outer(np.arange(len(x)), 10000.0 ** (-np.arange(0, size, 2) / size))
    angle = np.concatenate([angle, angle], axis=1)
    turns = (np.cos(angle), np.sin(angle))
    turned = [sum(_terms(part, turns)) for part in (q, k)]
    z = rules.product("hjr,hir->hji", *turned) / np.sqrt(size)
    z = np.where(np.tri(len(x), dtype=bool) & (mask == 1), z, -np.inf)
    r = r.reshape(len(x), -1, size).transpose(1, 0, 2)
    r_a, _ = rules.bilinear_epsilon(rules.softmax(z), v, r, eps=0.0)
    r_z = rules.softmax_taylor(z, r_a)
    of_turned = rules.scores_epsilon(*turned, r_z, eps=0.0, scale=1 / np.sqrt(size))
    kept = [_of_turns(*each, turns) for each in zip((q, k), of_turned, strict=True)]
    return sum(kept).sum(axis=(0, 2)) * mask


def _terms(x, turns):
    """x cos and (a quarter turn of x) sin, whose sum is x turned; halves of channels are pairs."""
    first, second = np.split(x, 2, axis=-1)
    return x * turns[0], np.concatenate([-second, first], axis=-1) * turns[1]


def _of_turns(x, r, turns):
    """Relevance of cos and sin, channel by channel: Eq. 1 on the sum, half of each product."""
    of_terms = rules.add(_terms(x, turns), r, eps=0.0)
    return sum(
        rules.equal_split((x, turn), part)[1] for part, turn in zip(of_terms, turns, strict=True)
    )


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_rotary_position_receives_what_messages_through_the_turn_say(attention):
    model, batch = cases.family("llama", num_hidden_layers=1, attn_implementation=attention)
    got = signed(model, batch).details["rotary"]
    assert got.shape == (2, 1, 6)
    # cos and sin pass through float32 in the stock model
    np.testing.assert_allclose(got[:, 0], by_messages(model, batch), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", cases.ROTARY)
def test_what_rotary_position_keeps_reaches_no_word(name):
    model, batch = cases.family(name)
    got = signed(model, batch)
    assert got.details["rotary"].shape == (2, 2, 6)
    assert got.details["rotary"].abs().amax(dim=(0, 2)).min() > 1e-4  # in every layer
    assert not got.details["position"].any()  # nothing is added to words
    torch.testing.assert_close(
        got.relevance, got.details["word"] + got.details["rotary"].sum(dim=1)
    )
    fixed = attribute(model, batch)  # all of it goes on to words
    assert (got.relevance - fixed.relevance).abs().max() > 1e-4


@pytest.mark.parametrize("name", cases.ROTARY)
def test_value_only_attention_sends_rotary_position_nothing(name):
    model, batch = cases.family(name)
    assert not signed(model, batch, "cp-lrp").details["rotary"].any()


@pytest.mark.parametrize("name", [*ADDED, *cases.ROTARY])
def test_the_excess_of_absolute_values_is_reported(name):
    model, batch = cases.family(name)
    one, other = signed(model, batch), attribute(model, batch, positions="absolute")
    excess = other.details["excess"]
    assert excess.min() > 1e-3
    torch.testing.assert_close(other.residual, one.residual - excess)
    torch.testing.assert_close(other.details["word"], one.details["word"])
    for place in set(positions.PLACES) & other.details.keys():
        assert (other.details[place] >= one.details[place].abs() - 1e-12).all()


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_padding_has_no_position(name):
    model, batch = cases.family(name)
    for how in ("signed", "absolute"):
        for share, part in attribute(model, batch, positions=how).details.items():
            if share != "excess":
                assert not part[1, ..., 4:].any()


@pytest.mark.filterwarnings("ignore")  # of the architectures' own
@pytest.mark.parametrize("name", ["gptj", "roformer", "deepseek_v2", "mpt", "xlnet", "deepseek_v4"])
def test_position_that_enters_in_an_unknown_way_is_refused_and_not_given_0(name):
    with conditions():
        model, batch = with_inputs(name, CAUSAL)
        unknown = r"(neither adds positions|positions are turned, some) .*; pass positions=None"
        with pytest.raises(ValueError, match=unknown):
            signed(model, batch)
        assert attribute(model, batch).relevance.any()


def test_rules_that_do_not_split_products_are_refused_for_rotary_position():
    model, batch = cases.family("llama")
    gradient = Composite("mine", ATTNLRP.rules | {"product": "gradient"})
    with pytest.raises(ValueError, match=r"'mine' does not split products at .*layers\.1"):
        attribute(model, batch, gradient, positions="signed")
    attribute(model, batch, gradient)  # without it nothing is refused


def test_rotations_of_two_texts_are_refused():
    model, inputs = with_inputs("t5gemma")
    with pytest.raises(ValueError, match=r"rotates queries and keys of two texts.*leave it out"):
        attribute(model, inputs, positions="signed")
