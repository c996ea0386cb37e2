"""Maps of a written text are judged by its log-probability without tokens of the prompt."""

import numpy as np
import pytest
import torch

from numeric import attribute, evaluate, explain_generation
from numeric.targets import log_probability, span
from tests.support import writers
from tests.support.writers import model_of

pytestmark = pytest.mark.usefixtures("float64")
PROMPT, ANSWER = [1, 5, 8, 9, 4], [7, 4, 11]
TARGET = span(-len(ANSWER), each=log_probability)
FIXED = [[False] * len(PROMPT) + [True] * len(ANSWER)]
GIVEN = {"target": TARGET, "fixed": FIXED}


@torch.no_grad()
def likelihood(model, kept):
    """log P(ANSWER) where the mask leaves these columns of the prompt, by the stock model."""
    mask = torch.tensor([[n in kept for n in range(len(PROMPT))] + [True] * len(ANSWER)]).long()
    rows = model(input_ids=torch.tensor([PROMPT + ANSWER]), attention_mask=mask).logits[0]
    rows = rows[len(PROMPT) - 1 : -1].log_softmax(dim=1)
    return rows[torch.arange(len(ANSWER)), torch.tensor(ANSWER)].sum().item()


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_tokens_of_the_prompt_are_removed_and_the_answer_stays(name):
    model, inputs = model_of(name), {"input_ids": torch.tensor([PROMPT + ANSWER])}
    why = explain_generation(
        model, writers.tokenizer(), PROMPT, answer=ANSWER, scale="log-probability"
    )
    x = why.relevance.sum(dim=0)
    measures = ["MoRF", "LeRF", "Δ", "top drop", "r"]
    found = evaluate(model, inputs, x[None], **GIVEN, measures=measures)["relevance"]
    order = np.argsort(-x[: len(PROMPT)].numpy(), kind="stable").tolist()
    falling = [likelihood(model, order[n:]) for n in range(len(PROMPT))]
    rising = [likelihood(model, order[: len(PROMPT) - n]) for n in range(len(PROMPT))]
    assert found["MoRF"] == pytest.approx(np.mean(falling))
    assert found["LeRF"] == pytest.approx(np.mean(rising))
    assert found["Δ"] == pytest.approx(np.mean(rising) - np.mean(falling))
    assert found["top drop"] == pytest.approx(falling[0] - falling[3])
    loo = attribute(model, inputs, "loo", TARGET)
    assert loo.logit.item() == pytest.approx(falling[0])
    prompt = slice(len(PROMPT))
    assert found["r"] == pytest.approx(np.corrcoef(loo.relevance[0, prompt], x[prompt])[0, 1])


def test_a_fixed_first_token_is_not_left_out():
    model, inputs = model_of("llama"), {"input_ids": torch.tensor([PROMPT])}
    x, tokens = torch.randn(1, len(PROMPT)), len(PROMPT)
    first, target = np.arange(tokens)[None] == 0, span(1, tokens, each=log_probability)
    found = evaluate(model, inputs, x, target=target, fixed=first, measures="r")["relevance"]
    keeps = torch.ones(tokens, tokens, dtype=torch.int64) - torch.eye(tokens, dtype=torch.int64)
    numbers = []
    with torch.no_grad():
        for mask in keeps[1:]:
            rows = model(**inputs, attention_mask=mask[None]).logits[0, :-1].log_softmax(dim=1)
            numbers.append(rows[torch.arange(tokens - 1), torch.tensor(PROMPT[1:])].sum().item())
    assert found["r"] == pytest.approx(np.corrcoef(numbers, -x[0, 1:])[0, 1])


def test_values_at_the_answer_do_not_matter_and_all_measures_say_something():
    model, inputs = model_of("llama"), {"input_ids": torch.tensor([PROMPT + ANSWER])}
    one = torch.randn(1, len(PROMPT + ANSWER))
    other = one.clone()
    other[:, len(PROMPT) :] = 100
    found = evaluate(model, inputs, {"one": one, "other": other}, **GIVEN)
    for measure, (value,) in found["one"].items():
        assert found["other"][measure] == pytest.approx(value, nan_ok=True), measure
    assert np.isfinite([found["one"][x] for x in ("MoRF", "LeRF", "LDS", "tau")]).all()


def test_a_soft_measure_of_ones_and_zeros_keeps_the_words_of_the_answer():
    model, inputs = model_of("llama"), {"input_ids": torch.tensor([PROMPT + ANSWER])}
    chosen = torch.tensor([[0.0, 1, 1, 0, 1, 0, 0, 0]])
    measures = ["soft sufficiency", "soft comprehensiveness"]
    found = evaluate(model, inputs, chosen, **GIVEN, measures=measures)["relevance"]
    words = model.get_input_embeddings()(inputs["input_ids"]).detach()

    @torch.no_grad()
    def probability(shares):
        factor = torch.cat([torch.as_tensor(shares), torch.ones(len(ANSWER))]).to(words)
        rows = model(inputs_embeds=words * factor[None, :, None]).logits[0, len(PROMPT) - 1 : -1]
        return rows.softmax(dim=1)[torch.arange(len(ANSWER)), torch.tensor(ANSWER)].prod().item()

    shares = chosen[0, : len(PROMPT)]
    whole, stays, goes, nothing = map(probability, (shares * 0 + 1, shares, 1 - shares, shares * 0))
    assert whole > nothing
    want = np.clip([(stays - nothing), (whole - goes)], 0, None) / (whole - nothing)
    assert [found[x][0] for x in measures] == pytest.approx(want.clip(max=1).tolist())


def test_each_text_of_a_padded_batch_has_its_own_answer():
    model, pad = model_of("llama"), [0, 0]
    both = {"input_ids": torch.tensor([PROMPT + ANSWER, PROMPT[2:] + ANSWER + pad])}
    both["attention_mask"] = torch.tensor([[1] * 8, [1] * 6 + pad])
    fixed, x = torch.tensor([*FIXED, [*FIXED[0][2:], True, True]]), torch.randn(2, 8)
    measures = ["r", "Δ", "top drop", "LDS"]
    found = evaluate(model, both, x, target=TARGET, fixed=fixed, measures=measures)["relevance"]
    for n, length in enumerate((8, 6)):
        one = {"input_ids": both["input_ids"][n : n + 1, :length]}
        given = {"target": TARGET, "fixed": fixed[n : n + 1, :length], "measures": measures}
        alone = evaluate(model, one, x[n : n + 1, :length], **given)["relevance"]
        assert [found[m][n] for m in measures] == pytest.approx([alone[m][0] for m in measures])
