"""Values in place of texts, prompts, models and tokenizers are taken, or refused with advice."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

from axioms.composites import ATTNLRP
from numeric import (
    assert_conserves,
    attribute,
    attribute_each,
    audit,
    compiled,
    evaluate,
    explain,
    explain_generation,
    plan,
    propagation,
    sweep,
)
from numeric.targets import logit
from tests.support import all_commands
from tests.support.traces import said

TEXTS = ["a fine film", "dull"]
ALLOWED = {
    "a generator": lambda: (x for x in TEXTS), "a tuple of three": lambda: (*TEXTS, "a film"),
    "an array": lambda: np.array(TEXTS), "strings of NumPy": lambda: [np.str_(x) for x in TEXTS],
    "a series": lambda: pd.Series(TEXTS, index=[7, 3]),
}  # fmt: skip


@pytest.fixture(scope="module")
def listed(loaded):
    return explain(loaded.model, loaded.tokenizer, TEXTS)


@pytest.mark.parametrize("name", ALLOWED)
def test_texts_may_come_in_any_order_that_is_one(loaded, listed, name):
    found = explain(loaded.model, loaded.tokenizer, ALLOWED[name]())
    assert torch.equal(found.relevance[:2], listed.relevance)


CHAT = [{"role": "user", "content": "good"}]
ENCODED = "it is encoded already; pass it to attribute(model, inputs, tokenizer=tokenizer)"
LIST = "pass a text, a list of texts, or a list of pairs"
REFUSED = {
    "a dict": ({"a": "b"}, f"texts is a dict; {LIST}"),
    "an encoded text": ({"input_ids": [[1]]}, f"texts is a dict; {ENCODED}"),
    "bytes": (b"good", f"texts is a bytes; {LIST}"),
    "a path": (Path("x"), "texts is a ...Path; pass the texts in the file"),
    "a table": (pd.DataFrame({"text": ["good"]}), f"texts is a DataFrame; {LIST}"),
    "a set": ({"a", "b"}, f"texts is a set; {LIST}"),
    "nothing": (None, f"texts is a NoneType; {LIST}"),
    "no text among texts": (["a", None, 3], "texts[1]=None ..., texts[2]=3 (int in place of text)"),
    "an array that is one text": (np.array("a film"), "texts is an array of 0 dimensions: pass"),
    "a table of words": (np.array([["a", "b"]]), "texts is an array of 2 dimensions: pass"),
    "a text that is NA": (pd.array(["a", pd.NA], dtype="string"), "texts[1]=<NA> (NAType in place"),
    "half a pair that is NA": ([("a", pd.NA)], "texts[0]=('a', <NA>) (NAType in place of text)"),
    "no texts": ([], "texts is empty; pass a text"),
    "three words": ([["a", "b", "c"]], "texts[0]=['a', 'b', 'c'] (list in place of text): pass a"),
    "a chat": (CHAT, "texts[0]=...(dict in place of text): a chat becomes a text by tokenizer.app"),
    "ids": ([101, 5], "texts[0]=101 (int...), texts[1]=5 (int...): for ids, call attr"),
    "a list of ids": ([[101, 5, 7]], "texts[0]=[101, 5, 7] (list...): for ids, call attr"),
    "a tensor": (torch.ones(1, 2), "texts is a Tensor; for ids, call attribute("),
    "two texts, or a pair": (("a", "b"), "texts=('a', 'b'): pass [(a, b)] for a pair, or [a, b]"),
    "an empty text": ("", f"texts[0]='' (no text): {LIST}"),
    "blanks in a pair": (["a", ("b", " ")], f"texts[1]=('b', ' ') (no text): {LIST}"),
    "half a letter": ("\udcff", "texts[0]='\\udcff' (half a character (a lone surrogate)): pass"),
    "special tokens": ("[CLS] good [SEP]", "texts[0]='[CLS] good [SEP]': the text begins or"),
    "one of them": (["good", "good [SEP]"], "texts[1]='good [SEP]': the text begins or"),
    "one behind a space": (" [CLS] good", "texts[0]=' [CLS] good': the text begins or"),
    "one before a line's end": ("good [SEP]\n", "texts[0]='good [SEP]\\n': the text begins"),
    "one that a pair begins with": ([("[CLS] a", "b")], "texts[0]=('[CLS] a', 'b'): the text "),
    "one that a pair ends with": ([("a", "b [SEP]")], "texts[0]=('a', 'b [SEP]'): the text "),
    "one inside a pair": ([["a", "[SEP] b"]], "texts[0]=['a', '[SEP] b']: the text begins"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_text_is_refused_with_what_to_pass(loaded, name):
    texts, says = REFUSED[name]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        explain(loaded.model, loaded.tokenizer, texts)
    said(str(caught.value), says)


def test_a_special_token_that_the_tokenizer_does_not_add_is_a_part_of_the_text(loaded):
    tokens = explain(loaded.model, loaded.tokenizer, "[MASK] film [MASK]").tokens[0]
    assert tokens == ("[CLS]", "[MASK]", "film", "[MASK]", "[SEP]")


PROMPT = "anna apple bert pen ; anna"
PROMPTS = {
    "a text of a template": lambda _: "<s> " + PROMPT,
    "a template that begins with a line": lambda _: "\n<s> " + PROMPT,
    "a batch": lambda of: of(PROMPT),
    "a batch of tensors": lambda of: of(PROMPT, return_tensors="pt"),
    "ids": lambda of: of(PROMPT)["input_ids"],
    "a list of one": lambda of: [of(PROMPT)["input_ids"]],
    "an array": lambda of: np.array(of(PROMPT)["input_ids"]),
    "a generator": lambda of: (x for x in of(PROMPT)["input_ids"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def prompted(lm):
    return explain_generation(lm.model, lm.tokenizer, PROMPT, max_new_tokens=1)


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_is_read_as_its_text_with_one_token_that_begins_it(lm, prompted, name):
    prompt = PROMPTS[name](lm.tokenizer)
    found = explain_generation(lm.model, lm.tokenizer, prompt, max_new_tokens=1)
    assert found.tokens == prompted.tokens
    assert torch.equal(found.relevance, prompted.relevance)


NO_PROMPT = {
    "bytes": b"good", "a path": Path("x"), "nothing": None, "a number": 3, "a dict": {"a": "b"},
    "texts": ["a", "b"], "two prompts": torch.ones(2, 3, dtype=int), "chat": CHAT, "floats": [1.5],
    "half a letter": "\udcff", "true": [True], "padding": {"input_ids": [0, 5],
    "attention_mask": [0, 1]}, "a table": pd.DataFrame({"text": ["good"]}),
}  # fmt: skip


@pytest.mark.parametrize("place", ["prompt", "answer"])
@pytest.mark.parametrize("name", NO_PROMPT)
def test_what_is_no_prompt_is_refused(lm, name, place):
    given = {"prompt": PROMPT} | {place: NO_PROMPT[name]}
    if given.get("answer", "") is None or (name, place) == ("chat", "prompt"):
        return  # the default, and a prompt
    says = rf"(?s){place}=.*: pass one {place}, as a text or as its ids"
    says += "; a chat becomes a text by tokenizer.apply_chat_template" * (name == "chat")
    with pytest.raises(ValueError, match=says):
        explain_generation(lm.model, lm.tokenizer, **given)


def test_ids_and_lengths_that_a_model_has_not_are_refused_before_it_writes():
    model = all_commands.build("gpt2", "causal language modelling").float()
    of = model, all_commands.tokenizer()
    with pytest.raises(ValueError, match="token id out of range at 1 places, first 99"):
        explain_generation(*of, [5, 99])
    with pytest.raises(ValueError, match="text of 65 tokens is longer than the model's 64 posi"):
        explain_generation(*of, [5] * 65)
    model.generation_config.eos_token_id = None
    found = explain_generation(*of, [5] * 62, max_new_tokens=20)
    assert len(found.written) == 3  # the last token needs no position


# Models


ENTRANCES = {
    "attribute": attribute, "audit": audit, "plan": plan, "assert_conserves": assert_conserves,
    "attribute_each": lambda *given: attribute_each(*given, targets=[0]),
    "evaluate": lambda *given: evaluate(*given, torch.ones(1, 3)),
    "sweep": lambda *given: sweep(*given, [ATTNLRP]),
    "propagation": lambda model, _: propagation(model),
    "compiled": lambda model, _: compiled(model).__enter__(),
    "explain": lambda *given: explain(*given, "good"),
    "explain_generation": lambda *given: explain_generation(*given, "good"),
}  # fmt: skip
INSTEAD = "pass the Transformers model in it, model."
AROUND = {
    "compiled": (torch.compile, f"model is a OptimizedModule; {INSTEAD}_orig_mod"),
    "parallel": (nn.DataParallel, f"model is a DataParallel; {INSTEAD}module"),
    "in a list": (nn.Sequential, f"model is a Sequential; {INSTEAD}get_submodule('0')"),
    "a pipeline": (lambda x: SimpleNamespace(model=x), "model is a SimpleNamespace; pass a Transf"),
    "a name": (lambda _: "bert-base-uncased", "model is a str; pass a Transformers model"),
    "nothing": (lambda _: None, "model is a NoneType; pass a Transformers model"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch[.]")  # torch.compile raises it
@pytest.mark.parametrize("name", ENTRANCES)
@pytest.mark.parametrize("around", AROUND)
def test_what_is_around_a_model_is_refused_by_every_entrance(loaded, name, around):
    wrap, says = AROUND[around]
    given = loaded.tokenizer
    if not name.startswith("explain"):
        given = given("good", return_tensors="pt")
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        ENTRANCES[name](wrap(loaded.model), given)
    said(str(caught.value), says)


@pytest.mark.parametrize("run", [explain, explain_generation])
def test_a_model_and_its_tokenizer_are_refused_in_the_wrong_order(loaded, run):
    model, tokenizer = loaded.model, loaded.tokenizer
    for given in ((tokenizer, model), (tokenizer, tokenizer), (model, model)):
        with pytest.raises(ValueError, match="pass the model first, and then its tokenizer"):
            run(*given, "good")
    for odd, inside in (
        ("bert", ""),
        (SimpleNamespace(tokenizer=tokenizer), ", its attribute tok"),
    ):
        with pytest.raises(ValueError, match=f"pass the model's tokenizer{inside}"):
            run(model, odd, "good")
        with pytest.raises(ValueError, match=f"pass the model's tokenizer{inside}"):
            attribute(model, tokenizer("good", return_tensors="pt"), tokenizer=odd)


def test_a_model_that_also_sees_is_explained_as_a_language_model_where_it_reads_a_text_alone():
    text = dict(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, bos_token_id=1, eos_token_id=2,
        rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[1, 1, 2]),
    )  # fmt: skip
    sight = dict(depth=1, embed_dim=32, hidden_size=32, num_heads=4)
    torch.manual_seed(0)
    config = Qwen2VLConfig(text_config=text, vision_config=sight, bos_token_id=1, eos_token_id=2)
    model, tokenizer = Qwen2VLForConditionalGeneration(config).eval(), all_commands.tokenizer()
    ids = torch.tensor([[1, 10, 11, 12]])
    with torch.no_grad():
        want = model(input_ids=ids).logits[0, -1]
    torch.testing.assert_close(attribute(model, {"input_ids": ids}, target=5).logit, want[5:6])
    found = explain_generation(model, tokenizer, ids, answer=[7, 9])
    one = attribute(model, {"input_ids": torch.tensor([[1, 10, 11, 12, 7]])}, target=logit(9))
    torch.testing.assert_close(found.relevance[1, :5], one.relevance[0])
