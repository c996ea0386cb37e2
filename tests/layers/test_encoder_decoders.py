"""A token that an encoder and a decoder look up gets the relevance of both lookups."""

import pytest
import torch

from axioms.composites import CP_LRP, GRADIENT_X_INPUT
from numeric import attribute
from tests.census.build import with_inputs
from tests.census.measure import without_shifts
from tests.support import cases
from tests.support.cases import close
from tests.support.traces import contains, refused

pytestmark = pytest.mark.usefixtures("float64")
NAMES = ["bart", "mbart", "mvp", "plbart", "t5", "mt5", "umt5", "t5gemma2"]
STEP = 1e-5  # of central differences, whose error is its square times a third derivative


def by_hand(model, batch, number):
    """Word embedding x gradient of ``number(logits)`` at each lookup of encoder and decoder."""
    seen = []
    tables = {m for path, m in model.named_modules() if path.endswith(("embed_tokens", "shared"))}
    hooks = [m.register_forward_hook(lambda _m, _x, out: seen.append(out)) for m in tables]
    logits = model(**batch).logits
    for hook in hooks:
        hook.remove()
    found = torch.autograd.grad(number(logits), seen)
    encoder, decoder = ((x * c).sum(dim=-1).detach() for x, c in zip(seen, found, strict=True))
    return encoder, decoder


@pytest.mark.parametrize("name", NAMES)
def test_a_token_gets_the_sum_of_both_and_the_start_is_left_over(name):
    model, batch = with_inputs(name)
    a = attribute(model, batch, GRADIENT_X_INPUT, share="word")
    encoder, decoder = by_hand(model, batch, lambda y: y.gather(1, a.target[:, None]).sum())
    want = encoder.clone()
    want[:, :-1] += decoder[:, 1:]
    # RMSNorm of stock T5 passes through float32, where the rules do not.
    close(a.relevance, want * batch["attention_mask"], tolerance=1e-9)
    assert (a.relevance - encoder).abs().max() > 1e-3 * encoder.abs().max()
    left = a.logit - encoder.sum(dim=1) - decoder[:, 1:].sum(dim=1)
    assert torch.allclose(a.residual[0], left[0])


def test_what_a_model_writes_over_a_word_is_that_word():
    model, batch = with_inputs("t5gemma2")
    batch = {key: x[:1].clone() for key, x in batch.items()}
    model.config.image_token_index = model.config.vocab_size - 1  # no image has a place here
    batch["input_ids"][0, 2] = model.config.eoi_token_index  # the end of an image
    a = attribute(model, batch, GRADIENT_X_INPUT, share="word")
    factor, found = torch.ones_like(batch["input_ids"][0], dtype=torch.float64), []
    model.get_encoder().text_model.embed_tokens.register_forward_hook(
        lambda _m, _x, out: out * factor[:, None]
    )
    model.get_decoder().embed_tokens.register_forward_hook(
        lambda _m, _x, out: torch.cat([out[:, :1], out[:, 1:] * factor[:-1, None]], dim=1)
    )
    for column in range(len(factor)):
        for step in (STEP, -STEP):
            factor[column] = 1 + step
            with torch.no_grad():
                found.append(model(**batch).logits[0, a.target[0]])
        factor[column] = 1
    up, down = torch.stack(found).view(-1, 2).T
    want = (up - down) / (2 * STEP)
    assert want[2].abs() > 1000 * STEP
    assert torch.allclose(a.relevance[0], want, rtol=0, atol=STEP)


@pytest.mark.parametrize("name", NAMES)
def test_all_but_the_start_adds_up_without_biases(name):
    model, batch = with_inputs(name)
    batch = cases.first(batch)
    with without_shifts(model):
        a = attribute(model, batch, CP_LRP)
        lost = a.residual.abs() / a.logit.abs()
        seen = []
        table = model.get_decoder().embed_tokens
        hook = table.register_forward_hook(lambda _m, args, _out: seen.append(args[0]))
        with torch.no_grad():  # words of 0 are worth nothing
            model(**batch)
            model.get_input_embeddings().weight[seen[-1][0, 0]] = 0
        hook.remove()
        without = attribute(model, batch, CP_LRP, target=a.target)
    assert (lost > 1e-3).all()
    if name in ("t5", "mt5", "umt5"):  # in others position is added to the start, too
        close(without.relevance.sum(dim=1), without.logit, tolerance=1e-9)


def test_shares_of_position_add_up_over_both_lookups():
    model, batch = with_inputs("bart")
    a = attribute(model, batch, positions="signed")
    shares = a.details["word"] + a.details["position"]
    close(a.relevance, shares)
    assert (a.details["position"][0] != 0).all()


def test_a_decoder_that_reads_something_else_is_refused(monkeypatch):
    model, batch = with_inputs("t5")
    monkeypatch.setattr(model, "_shift_right", lambda ids: ids.flip(1))
    contains(refused(ValueError, model, batch), "ids (2, 8)", "shifted right by one", "explain")
