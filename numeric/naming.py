"""Labels by name: classes and tags as the config calls them, tokens by their text."""

import warnings
from dataclasses import replace
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from numeric.heads import ANSWER, CLASSES, TAGS
from numeric.spelling import did_you_mean
from numeric.targets import Label, Target, names, terms

NOUNS = {CLASSES: "class", TAGS: "tag"}
SHOWN = 10  # labels or tokens that an error lists


def numbered(
    model: PreTrainedModel,
    head: str,
    target: Label | Target,
    tokenizer: PreTrainedTokenizerBase | None,
    faults: list[str],
) -> Label | Target:
    """``target`` with numbers in place of names; names that stand for nothing go to ``faults``."""
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
        raise ValueError("an answer has columns; pass numeric.targets.answer(first, last)")
    if head in NOUNS:
        return _label(model, NOUNS[head], name)
    if tokenizer is None:
        raise ValueError("only a tokenizer knows tokens by their text; pass tokenizer, or an id")
    return _token(tokenizer, name)


def called(model: PreTrainedModel, name: str) -> list[int]:
    """The numbers of the classes or tags of that name."""
    return [n for n, label in _labels(model).items() if label == name]


def _labels(model: PreTrainedModel) -> dict[int, str]:
    known: Any = model.config.id2label
    return {n: str(x) for n, x in known.items()} if isinstance(known, dict) else {}


def _label(model: PreTrainedModel, noun: str, name: str) -> int:
    labels, found = _labels(model), called(model, name)
    if len(found) == 1:
        return found[0]
    what = f"numbers {_some(found)} have this name" if found else f"no {noun} has it"
    raise ValueError(
        f"{what}; pass a number or a name: {_some([f'{n} ({x})' for n, x in labels.items()])}"
        f"{did_you_mean([name], [] if found else labels.values())}"
    )


def _token(tokenizer: PreTrainedTokenizerBase, name: str) -> int:
    if found := spelled(tokenizer, name):
        if (behind := spelled(tokenizer, f" {name}")) not in ([], found):
            said = f"target={name!r} is token {found[0]}; after a space it is {behind[0]}"
            warnings.warn(said, stacklevel=2)
        return found[0]
    parts, unknown = ids(tokenizer, name), tokenizer.unk_token_id
    if not parts or unknown in parts:
        raise ValueError(
            "the tokenizer has no token for it; `lrp-axioms vocabulary MODEL` prints those it has, "
            f"and an id is legal, too{did_you_mean([name], _words(tokenizer))}"
        )
    listed = _some([repr(x) for x in tokenizer.convert_ids_to_tokens(parts)])
    raise ValueError(
        f"it is {len(parts)} tokens, {listed}; pass one of these, or an id"
        f"{did_you_mean([name], _words(tokenizer), alike=0.8)}"
    )


def spelled(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The one token that spells a text, or that the vocabulary calls so, in a list; or nothing."""
    parts = ids(tokenizer, text)
    alone: Any = parts[0] if len(parts) == 1 else tokenizer.convert_tokens_to_ids(text)
    unknown = tokenizer.unk_token_id if text != tokenizer.unk_token else None
    return [] if alone is None or alone == unknown else [alone]


def ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The tokens of a text without special ones."""
    return list(tokenizer.encode(text, add_special_tokens=False))


def _words(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The tokens of a vocabulary without the signs that stand for a space."""
    special = {*tokenizer.all_special_tokens}
    return [token.lstrip("Ġ▁ ") for token in tokenizer.get_vocab() if token not in special]


def _some(values: list[Any]) -> str:
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return ", ".join(map(str, values[:SHOWN])) + more
