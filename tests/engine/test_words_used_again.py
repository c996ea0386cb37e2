"""Words that a hook uses more than once are read where all paths begin, or at their sum."""

import pytest
import torch

from numeric import attribute, audit
from tests.support.cases import close
from tests.support.uses import case


def stepped(out, v):
    out = out.clone()
    step = 0.1 * (v - out)
    out += step
    return out


def added_in_place(out, v):
    out = 2 * out
    return out.sub_(0.55 * out).add_(0.1 * v)


TO_OTHER_WORDS = {
    "a step": lambda out, v: out + 0.1 * (v - out),
    "a step back": lambda out, v: out - 0.1 * (out - v),
    "a step with a factor": lambda out, v: torch.sub(out, out - v, alpha=0.1),
    "twice": lambda out, v: 0.45 * (out + out) + 0.1 * v,
    "in place": stepped,
    "by methods": added_in_place,
}
"""Spellings of 0.9 of the words and 0.1 of a vector."""


@pytest.mark.parametrize("spelled", TO_OTHER_WORDS)
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_words_that_are_used_twice_are_explained_as_their_sum(name, spelled):
    model, inputs = case(name)
    table = model.get_input_embeddings()
    v = torch.linspace(-1, 1, table.weight.shape[1], dtype=torch.float64)
    found = []
    for change in (TO_OTHER_WORDS[spelled], lambda out, v: 0.9 * out + 0.1 * v):
        hook = table.register_forward_hook(lambda _m, _i, out, change=change: change(out, v))
        signed = {"positions": "signed"} if name != "gpt2" else {}
        found.append([attribute(model, inputs, epsilon=epsilon) for epsilon in (0.0, 0.1)])
        found[-1] += [attribute(model, inputs, share="word"), attribute(model, inputs, **signed)]
        hook.remove()
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one.relevance, other.relevance)
        torch.testing.assert_close(one.details, other.details)


def turned(out):
    return out + out.roll(1, dims=1)


def halfway(out):
    double = 2 * out
    return out + double + double.tanh()


def by_parts(out):
    double = 2 * out
    return (out + double) * double.tanh().sigmoid()


BESIDE = {
    "a sum with positions": (None, lambda _, first, words: first + words),
    "tokens before": (turned, None),
    "a sum on the way": (halfway, None),
    "a factor on the way": (by_parts, None),
    "pairs of tokens": (lambda out: (out[:, ::2] + out[:, 1::2]).repeat_interleave(2, 1), None),
}
"""Changes of words, and of the first layer's output by its input and words."""


@pytest.mark.parametrize("name", BESIDE)
def test_words_that_are_used_beside_their_sum_have_all_paths(name):
    """Relevance is read at the words, times the derivative along all paths."""
    model, inputs = case("gpt2")
    inputs = {key: x[:, :6] for key, x in inputs.items()}
    of_words, of_layer = BESIDE[name]
    words = model.transformer.wte(inputs["input_ids"]).detach().requires_grad_()
    seen = []
    change = of_words or (lambda out: out)
    if of_layer:
        model.transformer.h[0].register_forward_hook(lambda m, i, out: of_layer(m, out, seen[-1]))
    given = lambda *_: seen.append(words) or change(words)
    hook = model.transformer.wte.register_forward_hook(given)
    model(**inputs).logits[:, 1].sum().backward()
    hook.remove()
    looked_up = lambda _m, _i, out: seen.append(out) or change(out)
    model.transformer.wte.register_forward_hook(looked_up)
    a = attribute(model, inputs, "gradient-x-input", 1)
    want = (words * words.grad).sum(dim=-1).detach() * inputs["attention_mask"]
    torch.testing.assert_close(a.relevance, want)
    one = {key: x[:1] for key, x in inputs.items()}
    for epsilon in (0.0, 0.1):
        audited = audit(model, one, target=1, epsilon=epsilon)
        found = attribute(model, one, target=1, epsilon=epsilon)
        close(found.relevance[0], torch.as_tensor(audited.relevance))
