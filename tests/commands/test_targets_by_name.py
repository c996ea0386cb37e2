"""A target can be given in words of the head: a name, a token, an answer."""

from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE, Unigram
from tokenizers.pre_tokenizers import ByteLevel, Metaspace
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from benchmarks.commands.console import invocation
from benchmarks.commands.targets import parse_target
from numeric import attribute, explain, explain_generation
from numeric.targets import answer, logit
from tests.support.folders import WORDS
from tests.support.heads import HEADS

QUESTION, CONTEXT = "a film .", "a fine film . a dull film"


@pytest.fixture(autouse=True)
def _in_the_folder_of_heads(heads, monkeypatch):
    monkeypatch.chdir(heads)


def test_a_contrast_and_segments_are_of_what_is_generated(told, lm):
    call = ["explain", "embedded-lm", "anna apple bert pen ; anna", "--generate", 1]
    options = ["--contrast", "pen", "--segment", "facts=bert pen", "--by", "segment"]
    (found,) = told(*call, *options)["texts"]
    options = {"max_new_tokens": 1, "contrast": "pen", "segments": {"facts": "bert pen"}}
    want = explain_generation(lm.model, lm.tokenizer, call[2], **options).by("segment")
    assert found["relevance"] == want.relevance.tolist()
    assert found["segments"] == list(want.segments) == ["rest", "facts"]
    assert (found["contrast"], found["scale"]) == (" pen", "log-probability difference")


def test_a_contrast_is_subtracted_in_explanations_and_audits(told, loaded):
    call = ["embedded", "not a bad film", "--target", "positive", "--contrast", "negative"]
    (found,) = told("explain", *call)["texts"]
    want = explain(loaded.model, loaded.tokenizer, call[1], target=logit(1) - logit(0))
    assert found["relevance"] == want.relevance[0].tolist()
    assert (found["target"], found["said"]) == ([1, 0], "positive rather than negative")
    assert found["logit"] == want.logit.item()
    audited = told("audit", *call)
    assert audited["logit"] == pytest.approx(want.logit.item(), rel=1e-5)
    assert audited["label"] == "positive rather than negative"


def test_the_contrast_of_a_predicted_token_is_a_token(told, lm):
    call = ["embedded-lm", "anna apple bert pen ; anna", "--contrast", "pen"]
    (found,) = told("explain", *call)["texts"]
    assert found["said"].split() == ["apple", "rather", "than", "pen"]
    target = logit() - logit("pen")
    want = explain(lm.model, lm.tokenizer, call[1], target=target)
    assert found["relevance"] == want.relevance[0].tolist()


def test_a_contrast_is_of_the_tag_at_the_column(told):
    call = ["tags", "a film", "--column", 2, "--target", "dull", "--contrast", 1]
    (found,) = told("explain", *call)["texts"]
    of = model_of("tags"), words("tags"), ["a film"]
    want = explain(*of, target=logit("dull", at=2) - logit(1, at=2))
    assert found["relevance"] == want.relevance[0].tolist()


def model_of(name):
    return HEADS[name].from_pretrained(name).eval()


def words(name):
    return AutoTokenizer.from_pretrained(name)


SAME = {
    "a class": (["classes", "a film", "--target", "dull"], 0),
    "a tag": (["tags", "a film", "--column", 2, "--target", "dull"], 0),
    "a word at the mask": (["masked", "a [MASK] film", "--target", "fine"], WORDS.index("fine")),
    "a word in the spelling of the vocabulary": (
        ["embedded-lm", "add 3 add 5 ;", "--target", "<s>"], 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SAME)
def test_a_name_is_the_number_that_it_stands_for(told, case):
    (*call, name), number = SAME[case]
    (by_name,) = told("explain", *call, name)["texts"]
    (by_number,) = told("explain", *call, number)["texts"]
    assert by_name == by_number
    assert by_name["target"] == number


@pytest.mark.parametrize("column", [None, 9])
def test_an_answer_is_named_by_its_words_and_where_several_stand_by_its_first_column(told, column):
    spelled, first = ("fine film", 6) if column is None else ("a", column)
    at = [] if column is None else ["--column", column]
    (found,) = told("explain", "answers", QUESTION, CONTEXT, "--target", spelled, *at)["texts"]
    last = first + len(spelled.split()) - 1
    assert found["tokens"][first : last + 1] == spelled.split()
    want = explain(
        model_of("answers"), words("answers"), [(QUESTION, CONTEXT)], target=answer(first, last)
    )
    assert found["target"] == [first, last]
    assert found["relevance"] == want.relevance[0].tolist()
    audited = told("audit", "answers", QUESTION, CONTEXT, "--target", spelled, *at)
    assert audited["target"] == [first, last]
    assert audited["logit"] == pytest.approx(want.logit.item(), rel=1e-5)


def test_a_number_is_a_number_and_the_token_that_is_called_so_is_noted(told):
    found = told("explain", "embedded-lm", "add 3 add 5 ;", "--target", "3")
    assert found["texts"][0]["target"] == 3
    assert found["notes"] == ["--target 3 is read as a number; the name '3' has number 66"]


def test_a_token_that_has_another_one_behind_a_space_is_noted(lm):
    vocabulary = {x: n for n, x in enumerate([*sorted(ByteLevel.alphabet()), "fi", "Ġfi"])}
    made = Tokenizer(BPE(vocab=vocabulary, merges=[("f", "i"), ("Ġ", "fi")]))
    made.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made)
    loaded = SimpleNamespace(explains="next token", tokenizer=tokenizer, model=lm.model)
    for label, number, says in (
        ("fi", 256, ["--target 'fi' is token 256; after a space it is 257"]),
        (" fi", 257, []),
        ("Ġfi", 257, []),
    ):
        invocation.begin("explain", json=False, quiet=True, full=False)
        assert parse_target(loaded, label, None, ["f"]) == number
        assert parse_target(loaded, label, None, ["f", "i"]) == number
        assert invocation.notes == says
    with pytest.raises(ValueError, match=r"it is 2 tokens, 'i', 'f'; pass one of these, or an id"):
        parse_target(loaded, "if", None, ["f"])


def test_a_token_that_has_another_one_without_a_space_is_noted(lm):
    vocabulary = [("<unk>", 0.0), ("▁,", -1.0), (",", -2.0), ("▁film", -3.0)]
    made = Tokenizer(Unigram(vocabulary, unk_id=0))
    made.pre_tokenizer = Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")
    loaded = SimpleNamespace(explains="next token", tokenizer=tokenizer, model=lm.model)
    for label, number, says in (
        (",", 1, ["--target ',' is token 1; without a space it is 2"]),
        ("film", 3, []),
    ):
        invocation.begin("explain", json=False, quiet=True, full=False)
        assert parse_target(loaded, label, None, ["film"]) == number
        assert invocation.notes == says


def test_one_of_several_masks_is_chosen_by_its_column(told):
    text = "a [MASK] film [MASK] ."
    (found,) = told("explain", "masked", text, "--column", 4, "--target", "dull")["texts"]
    inputs = words("masked")([text], return_tensors="pt")
    want = attribute(model_of("masked"), inputs, target=logit(WORDS.index("dull"), at=4))
    assert found["relevance"] == want.relevance[0].tolist()
    audited = told("audit", "masked", text, "--column", 4, "--target", "dull")
    assert audited["logit"] == pytest.approx(want.logit.item(), rel=1e-5)


LEGAL = "pass a number or a name: 0 (dull), 1 (fine), 2 (fine)"
WRONG = {
    "an unknown class": (["explain", "classes", "film", "--target", "dul"],
        ["--target 'dul': no class has this name", LEGAL, "did you mean 'dull'?"]),
    "a name of two": (["audit", "classes", "film", "--target", "fine"],
        ["--target 'fine': numbers 1, 2 have this name", LEGAL]),
    "a tag, and no column of it": (["explain", "tags", "a film", "--target", "soup"],
        ["every token has a tag: pass --column, from 0 to 3", "--target 'soup': no tag", LEGAL]),
    "two masks": (["audit", "masked", "[MASK] [MASK] film", "--target", "fine"],
        ["[MASK] stands at columns 1, 2 in the text: pass --column, from 0 to 4"]),
    "no mask, and no token": (["explain", "masked", "a film", "--target", "fine film"],
        ["[MASK] stands nowhere in the text", "it is 2 tokens, 'fine', 'film'; pass one of these"]),
    "an unknown token": (["explain", "masked", "a [MASK]", "--target", "cinema"],
        ["no such token; pass an id, or a token that `lrp-axioms vocabulary MODEL` prints"]),
    "a token that is misspelt": (["explain", "masked", "a [MASK]", "--target", "fime"],
        ["did you mean 'fine'?"]),
    "nothing": (["explain", "masked", "a [MASK]", "--target", ""], ["no such token"]),
    "no such answer": (["explain", "answers", QUESTION, CONTEXT, "--target", "soup"],
        ["--target 'soup': the answer stands nowhere in the text"]),
    "an answer in two places": (["audit", "answers", QUESTION, CONTEXT, "--target", "film"],
        ["the answer begins at columns 2, 7, 11; pass one of them as --column"]),
    "a column without an answer": (["explain", "answers", QUESTION, CONTEXT, "--column", 6],
        ["--column 6 says at which of several places an answer begins: pass its words"]),
    "a question alone": (["audit", "answers", QUESTION], ["2 texts, not 1"]),
    "no question": (["audit", "answers"], ["2 texts, not 0"]),
    "texts of no question": (["audit", "classes", "film", "dull"],
        ["2 texts: pass one, in quotes"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_no_head_can_explain_is_refused_with_what_is_legal(run, case):
    call, says = WRONG[case]
    code, out, err = run(*call)
    assert (code, out) == (2, "")
    for part in says:
        assert part in " ".join(err.split())
