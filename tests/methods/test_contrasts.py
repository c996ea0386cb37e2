"""A contrast explains log P(written) - log P(contrast), the same as two calls of ``attribute``."""

import re

import pytest
import torch

from numeric import attribute, explain_generation
from numeric.generation.result import Generation
from numeric.targets import log_probability, logit
from tests.support.cases import close
from tests.support.program import printed
from tests.support.writers import PROMPT, TWO, model_of

pytestmark = pytest.mark.usefixtures("float64")
SHARED, WRITTEN, OTHER = [5, 8], [9, 4, 7], [6, 11]


def read(name, tokenizer, answer):
    """The text that is read before the last token of an answer, and the row of its first token."""
    ids = tokenizer(PROMPT)["input_ids"]
    before = [1] if name in TWO else ids
    text = torch.tensor([before + answer[:-1]])
    if name in TWO:
        return {"input_ids": torch.tensor([ids]), "decoder_input_ids": text}, 0, len(ids)
    return {"input_ids": text}, len(ids) - 1, 0


@pytest.mark.parametrize("method", ["attnlrp", "loo"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "t5"])
def test_rows_are_a_difference_of_logits_and_one_of_log_probabilities(name, method, tokenizer):
    model, answers = model_of(name), (SHARED + WRITTEN, SHARED + OTHER)
    written, other = answers
    found = explain_generation(
        model, tokenizer, PROMPT, answer=written, contrast=other, method=method
    )
    (own, at, source), (its, _, _) = (read(name, tokenizer, ids) for ids in answers)
    first = source + at + 1 + len(SHARED)
    assert (found.first, found.relevance.shape) == (first, (2, first + 2))
    differ = logit(WRITTEN[0], at=at + 2) - logit(OTHER[0], at=at + 2)
    differ = attribute(model, read(name, tokenizer, written[:3])[0], method, differ)
    close(found.relevance[0, :first], differ.relevance[0])
    assert not found.relevance[0, first:].any()
    rest = sum(log_probability(x, at=at + 3 + n) for n, x in enumerate(WRITTEN[1:]))
    rest = attribute(model, own, method, rest)
    less = attribute(model, its, method, log_probability(OTHER[1], at=at + 3))
    close(found.relevance[1, :first], rest.relevance[0, :first] - less.relevance[0, :first])
    differs = rest.relevance[0, first] - less.relevance[0, first]
    close(found.relevance[1, first:], torch.stack([differs, rest.relevance[0, first + 1 :].sum()]))
    close(found.residual, torch.cat([differ.residual, rest.residual - less.residual]))
    close(found.relevance.sum(1) + found.residual, found.logit)
    chances = [log_likelihood(model, *x, at=at) for x in ((written, own), (other, its))]
    close(found.logit.sum(), chances[0] - chances[1])


@torch.no_grad()
def log_likelihood(model, answer, text, *, at):
    rows = model(**text).logits[0, at:].log_softmax(dim=-1)
    return rows[torch.arange(len(answer)), torch.tensor(answer)].sum()


def test_a_contrast_is_minus_the_contrast_the_other_way_around(tokenizer):
    model = model_of("llama")
    there = explain_generation(model, tokenizer, PROMPT, answer=WRITTEN, contrast=OTHER)
    back = explain_generation(model, tokenizer, PROMPT, answer=OTHER, contrast=WRITTEN)
    close(there.relevance, -back.relevance)
    close(there.logit, -back.logit)
    ratio = there.probability.prod() / back.probability.prod()
    close(there.logit.sum(), ratio.log())


def test_one_token_each_is_one_row_and_the_end_token_ends_both(tokenizer):
    model = model_of("llama")
    one = explain_generation(model, tokenizer, PROMPT, answer=[9], contrast=[6])
    assert one.relevance.shape[0] == 1
    prompt = {"input_ids": tokenizer(PROMPT, return_tensors="pt")["input_ids"]}
    want = attribute(model, prompt, target=logit(9) - logit(6))
    close(one.relevance[:, :-1], want.relevance)
    close(one.logit, want.logit)
    ended = explain_generation(model, tokenizer, PROMPT, answer=[9, 2], contrast=[6])
    same = explain_generation(model, tokenizer, PROMPT, answer=[9, 2], contrast=[6, 2])
    close(ended.logit, same.logit)
    longer = explain_generation(model, tokenizer, PROMPT, answer=[9], contrast=OTHER)
    assert longer.written[1] == "…"
    assert longer.probability[1] == 1


def test_a_contrast_ends_where_the_answer_does(tokenizer, monkeypatch):
    model = model_of("llama")
    monkeypatch.setattr(model.generation_config, "eos_token_id", [3, 7])
    pairs = [([9, 7], [6]), ([9, 7], [6, 7]), ([9, 4], "he</s>"), ([9, 4], "he")]
    logits = [
        explain_generation(model, tokenizer, PROMPT, answer=answer, contrast=contrast).logit
        for answer, contrast in pairs
    ]
    close(logits[0], logits[1])
    close(logits[2], logits[3])


def test_texts_of_an_encoder_s_decoder_share_the_tokens_that_begin_them(tokenizer):
    model, ids = model_of("bart"), [tokenizer(x)["input_ids"] for x in ("fed a", "fed he")]
    found = explain_generation(model, tokenizer, PROMPT, answer="fed a", contrast="fed he")
    want = explain_generation(model, tokenizer, PROMPT, answer=ids[0], contrast=ids[1])
    assert found.tokens == want.tokens
    assert found.first > found.source + 1
    close(found.relevance, want.relevance)


def test_what_is_explained_is_named_saved_and_shown(tokenizer, tmp_path):
    model = model_of("llama")
    found = explain_generation(model, tokenizer, PROMPT, answer="fed a", contrast="he had")
    assert (found.contrast.strip(), found.scale) == ("he had", "log-probability difference")
    found.save(tmp_path / "found")
    assert Generation.load(tmp_path / "found").contrast == found.contrast
    said = " ".join(printed(found.terminal(200), 200).split())
    assert "why LlamaForCausalLM wrote 'fed a' and not 'he had'" in said
    assert f"{found.logit[0]:+.3g} (residual {found.residual[0]:+.3g})" in said
    page = found.html()
    assert "and not &#39;he had&#39;" in page
    assert '"scale": "log-probability difference"' in page
    whole = found.by("sentence")
    close(whole.relevance.sum() + whole.residual, whole.logit)
    close(whole.logit, found.logit.sum()[None])


@pytest.mark.parametrize("contrast", [[9, 4, 7], [9, 4], [9, 4, 7, 5]])
def test_the_answer_itself_or_its_beginning_is_no_contrast(contrast, tokenizer):
    says = f"contrast has the ids {contrast}, and the answer [9, 4, 7]: one begins with the whole"
    with pytest.raises(ValueError, match=re.escape(says)):
        explain_generation(model_of("llama"), tokenizer, PROMPT, answer=WRITTEN, contrast=contrast)


def test_shares_of_attention_have_no_contrast(tokenizer):
    given = {"answer": [9, 4], "contrast": [6, 11], "method": "attention-rollout"}
    with pytest.raises(ValueError, match="method='attention-rollout' has no logits to compare"):
        explain_generation(model_of("gpt2"), tokenizer, PROMPT, **given)
