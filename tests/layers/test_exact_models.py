"""Theorems 51 and 52, proved of models that are set by hand, hold of stock LLaMAs."""

import math

import pytest
import sympy as sp
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from axioms.composites import ATTNLRP, CP_LRP
from axioms.theorems import test_exact_models as exact
from numeric import attribute

CODES = torch.tensor(exact.CODES.tolist(), dtype=torch.float64)
NAMES, THINGS, FACTS = len(CODES), (1, -1), exact.FACTS
SHARP, WIDTH, HEAD = 2, 16, 16  # exp(s), so that e is 16
CODE, THING, ONE, ASKS, BEFORE, OUT = slice(0, 3), 3, 4, 5, slice(6, 9), slice(9, 12)
"""Channels: a name's code, a thing, 1, 1 in a question, the code before, and a head's output."""
SLOW = slice(2, 5)  # channels of a head that rotation leaves alone: to 1e-7 at this base
CLOSE = {"rtol": 1e-5, "atol": 1e-6}  # LLaMA's RMSNorm computes in float32


def llama(embeddings, answers, *, heads, norms):
    """A layer per head, with these weights; ``norms`` are the squared lengths of its input."""
    config = LlamaConfig(
        vocab_size=len(embeddings) + len(answers), hidden_size=WIDTH, intermediate_size=1,
        num_hidden_layers=len(heads), num_attention_heads=1, head_dim=HEAD, rms_norm_eps=0.0,
        rope_parameters={"rope_type": "default", "rope_theta": 1e30}, tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.model.embed_tokens.weight[: len(embeddings)] = embeddings
        model.lm_head.weight[len(embeddings) :] = answers
        model.model.norm.weight.fill_(1)
        for layer, head, norm in zip(model.model.layers, heads, norms, strict=True):
            layer.input_layernorm.weight.fill_((norm / WIDTH) ** 0.5)
            for name, entries in head.items():
                weight = getattr(layer.self_attn, f"{name}_proj").weight
                for out, read, value in entries:
                    weight[out, read] = value * (HEAD**0.5 if name == "q" else 1)
    return model


def each(into, read, value):
    """Entries of a weight that copies the three channels of a code."""
    channels = zip(range(*into.indices(WIDTH)), range(*read.indices(WIDTH)), strict=True)
    return [(out, channel, value) for out, channel in channels]


def recall(b=0.0, c=0.0):
    """Tokens 0 to 7 are facts, name by name, 8 to 11 questions; 12 and 13 are the answers."""
    facts = torch.zeros(NAMES * 2 + NAMES, WIDTH)
    facts[: 2 * NAMES, CODE], facts[2 * NAMES :, CODE] = CODES.repeat_interleave(2, 0), CODES
    facts[: 2 * NAMES, THING] = torch.tensor(THINGS * NAMES)
    facts[:, ONE], facts[2 * NAMES :, ASKS] = 1, 1
    answers = torch.zeros(2, WIDTH)
    answers[:, 9], answers[:, 10] = torch.tensor(THINGS), 1
    head = {
        "q": [*each(SLOW, CODE, math.log(SHARP)), (5, ONE, c), (6, ONE, 1)],
        "k": [*each(SLOW, CODE, 1), (5, ONE, 1), (6, ASKS, -1000)],
        "v": [(0, THING, 1), (1, ONE, b)],
        "o": [(9, 0, 1), (10, 1, 1)],
    }
    return llama(facts, answers, heads=[head], norms=[5])


def induction():
    """Tokens 0 to 3 are letters, 4 to 7 the same as questions, 8 to 11 as answers."""
    letters = torch.zeros(2 * NAMES, WIDTH)
    letters[:, CODE], letters[:, ONE] = CODES.repeat(2, 1), 1
    letters[NAMES:, ASKS], letters[:NAMES, 12] = 1, 1
    answers = torch.zeros(NAMES, WIDTH)
    answers[:, OUT] = CODES.float()
    before = {  # the first pair of channels turns by 1 from token to token, and the query back
        "q": [(0, ONE, 500 * math.cos(1)), (HEAD // 2, ONE, -500 * math.sin(1))],
        "k": [(0, ONE, 1)],
        "v": each(slice(0, 3), CODE, 1),
        "o": each(BEFORE, slice(0, 3), 1),
    }
    match = {
        "q": [*each(SLOW, CODE, math.log(SHARP)), (5, ONE, 1)],
        "k": [*each(SLOW, BEFORE, 1), (5, ASKS, -1000)],
        "v": each(slice(0, 3), CODE, 1),
        "o": each(OUT, slice(0, 3), 1),
    }
    return llama(letters, answers, heads=[before, match], norms=[5, 8])


def proved(swept, b=0, c=0):
    """Shares of the output that every fact and the question have by the theorem's own sweep."""
    output, facts, question = swept
    at = {exact.B: b, exact.P: SHARP, exact.F: sp.exp(c)}
    numbers = [sp.sympify(x).subs(at).evalf() for x in (output, *facts, question)]
    return torch.tensor([float(x / numbers[0]) for x in numbers[1:]], dtype=torch.float64)


@pytest.mark.parametrize("composite", [ATTNLRP, CP_LRP], ids=lambda composite: composite.name)
def test_a_llama_recalls_and_has_the_relevance_that_is_proved(composite):
    models = [(values, recall(**values)) for values in ({}, {"b": -0.5, "c": -10})]
    for things, asked in exact.PROMPTS:
        ids = [2 * n + THINGS.index(thing) for n, thing in enumerate(things)] + [8 + asked]
        inputs = {"input_ids": torch.tensor([ids])}
        answer = 12 + THINGS.index(things[asked])
        swept = exact.by_token(exact.prompt(things, asked), composite)
        for values, model in models:
            assert model(**inputs).logits[0, -1].argmax() == answer
            found = attribute(model, inputs, composite, 12)
            expected = proved(swept, **values)
            assert torch.allclose(found.relevance[0] / found.logit, expected, **CLOSE), values


def test_gradient_x_input_is_zero_at_every_fact():
    inputs = {"input_ids": torch.tensor([[0, 3, 5, 8]])}
    found = attribute(recall(), inputs, "gradient-x-input", 12)
    assert found.relevance[0, :FACTS].abs().max() < 1e-6 * found.logit.abs()


@pytest.mark.parametrize("composite", [ATTNLRP, CP_LRP], ids=lambda composite: composite.name)
def test_a_llama_continues_a_text_and_has_the_relevance_that_is_proved(composite):
    model = induction()
    root, point = exact.induction(exact.CODES[1, :])
    inputs = {"input_ids": torch.tensor([[0, 1, 2, 4 + 1]])}
    assert model(**inputs).logits[0, -1].argmax() == 8 + 2
    found = attribute(model, inputs, composite, 8 + 2)
    expected = proved(exact.by_token(point, composite, root))
    assert torch.allclose(found.relevance[0] / found.logit, expected, **CLOSE)
