"""Finds the numbers of labels by name: classes and tags in the config, tokens by their text."""

from dataclasses import replace
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.numeric.models.heads import ANSWER, CLASSES, TAGS
from lrp_axioms.numeric.models.texts import tokenized
from lrp_axioms.numeric.spelling import did_you_mean, some
from lrp_axioms.numeric.targets import Label, Target, names, terms
from lrp_axioms.numeric.warning import warn_caller

NOUNS = {CLASSES: "class", TAGS: "tag"}


def resolve_names(
    model: PreTrainedModel,
    head: str,
    target: Label | Target,
    tokenizer: PreTrainedTokenizerBase | None,
    faults: list[str],
) -> Label | Target:
    """Replaces names in ``target`` by numbers; adds a line to ``faults`` for each unknown name."""
    if not isinstance(target, str | list | tuple | Target) or not any(map(names, terms(target))):
        return target
    known: dict[str, int] = {}
    for name in dict.fromkeys(x for term in terms(target) for x in names(term)):
        try:
            known[name] = _number(model, head, name, tokenizer)
        except ValueError as error:
            faults.append(f"target={name!r}: {error}")
            known[name] = 0

    def number(label: Any) -> Any:
        if isinstance(label, tuple):
            return tuple(map(number, label))
        return known[label] if isinstance(label, str) else label

    return Target(tuple(replace(term, label=number(term.label)) for term in terms(target)))


def _number(
    model: PreTrainedModel, head: str, name: str, tokenizer: PreTrainedTokenizerBase | None
) -> int:
    if head == ANSWER:
        raise ValueError(
            "an answer is named by columns; pass lrp_axioms.numeric.targets.answer(first, last)"
        )
    if head in NOUNS:
        return _label(model, NOUNS[head], name)
    if tokenizer is None:
        raise ValueError("a name of a token needs a tokenizer; pass tokenizer, or an id")
    return _token(tokenizer, name)


def label_numbers(model: PreTrainedModel, name: str) -> list[int]:
    """Lists the numbers of all classes or tags with this name."""
    return [n for n, label in _labels(model).items() if label == name]


def _labels(model: PreTrainedModel) -> dict[int, str]:
    known: Any = model.config.id2label
    return {int(n): str(x) for n, x in known.items()} if isinstance(known, dict) else {}


def _label(model: PreTrainedModel, noun: str, name: str) -> int:
    labels, found = _labels(model), label_numbers(model, name)
    if len(found) == 1:
        return found[0]
    what = f"numbers {some(found)} have this name" if found else f"no {noun} has this name"
    raise ValueError(
        f"{what}; pass a number or a name: {some([f'{n} ({x})' for n, x in labels.items()])}"
        f"{did_you_mean([name], [] if found else labels.values())}"
    )


def _token(tokenizer: PreTrainedTokenizerBase, name: str) -> int:
    if found := single_token(tokenizer, name):
        alone: Any = tokenizer.convert_tokens_to_ids(name)  # within a SentencePiece text
        others = {"after a space": single_token(tokenizer, f" {name}")}
        others["without a space"] = [] if alone in (None, tokenizer.unk_token_id) else [alone]
        said = [f"{where} it is {x[0]}" for where, x in others.items() if x not in ([], found)]
        if said:
            warn_caller(f"target={name!r} is token {found[0]}; {' and '.join(said)}")
        return found[0]
    parts, unknown = text_ids(tokenizer, name), tokenizer.unk_token_id
    if not parts or unknown in parts:
        raise ValueError(
            "the tokenizer has no such token; pass an id, or a token that `lrp-axioms vocabulary "
            f"MODEL` prints{did_you_mean([name], _words(tokenizer))}"
        )
    listed = some([repr(x) for x in tokenizer.convert_ids_to_tokens(parts)])
    raise ValueError(
        f"it is {len(parts)} tokens, {listed}; pass one of these, or an id"
        f"{did_you_mean([name], _words(tokenizer), alike=0.8)}"
    )


def single_token(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Returns a list with the id of the one token spelled or called ``text``; else []."""
    parts = text_ids(tokenizer, text)
    alone: Any = parts[0] if len(parts) == 1 else tokenizer.convert_tokens_to_ids(text)
    unknown = tokenizer.unk_token_id if text != tokenizer.unk_token else None
    return [] if alone is None or alone == unknown else [alone]


def text_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Returns the ids of a text without special tokens."""
    return list(tokenized(tokenizer, text, add_special_tokens=False)["input_ids"])


def _words(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Lists the tokens of the vocabulary, without their mark of a leading space."""
    special = {*tokenizer.all_special_tokens}
    return [token.lstrip("Ġ▁ ") for token in tokenizer.get_vocab() if token not in special]
