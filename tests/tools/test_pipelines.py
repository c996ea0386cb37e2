"""Predictions of a Transformers pipeline are explained as by ``attribute``."""

import pytest
from transformers import pipeline

from numeric import attribute
from numeric.targets import OWN, logit
from numeric.tools.pipelines import explain
from tests.support.cases import close
from tests.support.tools import PROMPT, TEXT, bert, language_model

CHAT = [{"role": "user", "content": "a dull film"}]


def test_a_pipeline_of_a_classifier_says_why_its_classes(tokenizer):
    model = bert("SequenceClassification")
    pipe = pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=2)
    found = explain(pipe, PROMPT, "cp-lrp")
    assert [[x.result for x in found]] == pipe(PROMPT)
    inputs = tokenizer(PROMPT, return_tensors="pt")
    order = model(**inputs).logits[0].argsort(descending=True)
    for x, label in zip(found, order.tolist(), strict=False):
        assert x.result["label"] == f"LABEL_{label}"
        assert x.tokens == list(x.attribution.tokens[0]) == ["[CLS]", "a", "dull", "film", "[SEP]"]
        assert ">dull</span>" in x._repr_html_()
        close(x.relevance, attribute(model, inputs, "cp-lrp", label).relevance[0])
    (contrast,) = explain(pipe, PROMPT, "cp-lrp", logit(0) - logit(1))
    want = attribute(model, inputs, "cp-lrp", logit(0) - logit(1))
    close(contrast.relevance, want.relevance[0])


def test_a_pair_is_explained_by_the_class_names_of_the_pipeline(tokenizer):
    model = bert("SequenceClassification", num_labels=2, id2label={0: "no", 1: "yes"})
    model.config.label2id = {"no": 1, "yes": 0}  # which the pipeline does not read
    pipe = pipeline("text-classification", model=model, tokenizer=tokenizer)
    pair = {"text": "a dull film", "text_pair": "a fine film"}
    (found,) = explain(pipe, pair, "cp-lrp")
    assert found.result == pipe(pair)
    inputs = tokenizer([tuple(pair.values())], return_tensors="pt")
    close(found.relevance, attribute(model, inputs, "cp-lrp").relevance[0])


def test_a_pipeline_of_tags_says_why_its_tags_and_entities(tokenizer):
    labels = {0: "B-DISH", 1: "I-DISH", 2: "O"}
    model = bert("TokenClassification", id2label=labels)
    inputs = tokenizer(PROMPT, return_tensors="pt")
    tags = model(**inputs).logits[0].argmax(dim=1).tolist()
    pipe = pipeline("token-classification", model=model, tokenizer=tokenizer, ignore_labels=[])
    single = explain(pipe, PROMPT)
    assert [x.result["index"] for x in single] == [1, 2, 3]
    for n, x in enumerate(single, start=1):
        assert x.result["entity"] == labels[tags[n]]
        close(x.relevance, attribute(model, inputs, target=logit(tags[n], at=n)).relevance[0])
    pipe = pipeline(
        "token-classification", model=model, tokenizer=tokenizer, ignore_labels=[],
        aggregation_strategy="simple",
    )  # fmt: skip
    entities = explain(pipe, PROMPT)
    assert [x.result for x in entities] == pipe(PROMPT)
    close(sum(x.relevance for x in entities), sum(x.relevance for x in single))
    pipe = pipeline(
        "token-classification", model=model, tokenizer=tokenizer, aggregation_strategy="first",
        ignore_labels=[],
    )  # fmt: skip
    with pytest.warns(UserWarning, match="aggregation_strategy='first' gives a word one tag"):
        explain(pipe, PROMPT)


def test_a_pipeline_that_fills_masks_says_why(tokenizer):
    model = bert("MaskedLM")
    pipe = pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=2)
    inputs = tokenizer(TEXT, return_tensors="pt")
    first, second = explain(pipe, TEXT)
    top = model(**inputs).logits[0, 3].topk(2).indices.tolist()
    assert [first.result["token"], second.result["token"]] == top
    for x, token in zip((first, second), top, strict=True):
        close(x.relevance, attribute(model, inputs, target=logit(token, at=3)).relevance[0])
    two = explain(pipe, "[MASK] film [MASK]")
    assert len(two) == 4
    inputs = tokenizer("[MASK] film [MASK]", return_tensors="pt")
    target = logit(two[2].result["token"], at=3)
    close(two[2].relevance, attribute(model, inputs, target=target).relevance[0])


@pytest.mark.parametrize("text", [PROMPT, CHAT], ids=["text", "chat"])
def test_a_pipeline_that_writes_says_why_each_token(tokenizer, text):
    tokenizer.chat_template = "{{ messages[0]['content'] }} soup"
    model = language_model(eos_token_id=None)
    model.generation_config.update(max_new_tokens=3, do_sample=False, pad_token_id=0)
    pipe = pipeline("text-generation", model=model, tokenizer=tokenizer)
    found = explain(pipe, text)
    read, special = ("a dull film soup", False) if text is CHAT else (PROMPT, True)
    start = tokenizer(read, add_special_tokens=special, return_tensors="pt")["input_ids"]
    ids = model.generate(start)
    for n, column in enumerate(range(start.shape[1], ids.shape[1])):
        want = attribute(model, {"input_ids": ids}, target=logit(OWN, at=column - 1))
        close(found.logit[n], want.logit[0])
        close(found.relevance[n], want.relevance[0])
    (given,) = explain(pipe, text, target=logit(4))
    close(given.relevance, attribute(model, {"input_ids": start}, target=4).relevance[0])


def test_what_is_no_text_of_a_known_pipeline_is_refused(tokenizer):
    pipe = pipeline("feature-extraction", model=bert("MaskedLM").bert, tokenizer=tokenizer)
    with pytest.raises(ValueError, match="pipeline for 'feature-extraction'; those that can be"):
        explain(pipe, PROMPT)
    pipe = pipeline("fill-mask", model=bert("MaskedLM"), tokenizer=tokenizer)
    with pytest.raises(ValueError, match="text is a list; pass one text at a time"):
        explain(pipe, [TEXT, TEXT])
