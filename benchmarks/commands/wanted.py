"""What of a model a command explains, in the words of its head, or in numbers."""

import re
from collections.abc import Iterator, Sequence

from benchmarks.commands.output import note
from benchmarks.sources.faults import some
from numeric.spelling import did_you_mean
from numeric.targets import Target, answer, logit


def wanted(loaded, label: str | None, column: int | None, tokens: Sequence[str]):
    """A target for ``attribute`` and ``audit`` from ``--target`` and ``--column``.

    label: the number or the name of a class or tag; the id of a token, its text, or how the
        vocabulary spells it; the words of an answer
    column: of ``tokens``; by default a masked token is read at the one mask
    Raises ValueError that lists what is legal for this head, for both options at once.
    """
    if loaded.explains == "answer":
        return _answer(loaded, label, column, tokens)
    faults = list(_problems(loaded, column, tokens))
    found = None
    try:
        found = None if label is None else _number(loaded, label)
    except ValueError as error:
        faults.append(str(error))
    if faults:
        raise ValueError("\n".join(faults))
    if column is None and loaded.explains == "masked token" and loaded.tokenizer.mask_token:
        column = tokens.index(loaded.tokenizer.mask_token)
    return found if column is None else logit(found, at=column)


def _problems(loaded, column, tokens) -> Iterator[str]:
    """What is wrong with the column."""
    mask = loaded.tokenizer.mask_token if loaded.explains == "masked token" else None
    masks = [n for n, token in enumerate(tokens) if token == mask]
    if loaded.explains == "class":
        if column is not None:
            yield f"--column {column}: the class is of the whole input; leave it out"
    elif column is not None:
        if column >= len(tokens):
            yield f"--column {column}: the columns are 0 to {len(tokens) - 1}"
    elif loaded.explains == "tag":
        yield f"every token has a tag: pass --column, from 0 to {len(tokens) - 1}"
    elif mask and len(masks) != 1:
        where = f"at columns {some(masks)}" if masks else "nowhere"
        yield (
            f"{mask} stands {where} in the text: pass --column, from 0 to {len(tokens) - 1}, of "
            "the token whose prediction is explained"
        )


def _number(loaded, name: str) -> int:
    """The number of a class, tag or token; what reads as a number is one."""
    words = loaded.explains.endswith("token")
    if re.fullmatch(r"[+-]?\d+", name):
        called = _alone(loaded.tokenizer, name) if words else _called(loaded, name)
        others = [x for x in called if x != int(name)]
        if others:
            note(f"--target {name} is a number; what is called {name!r} is number {some(others)}")
        return int(name)
    return (_token if words else _label)(loaded, name)


def _called(loaded, name):
    """The numbers of the classes or tags of that name."""
    return [n for n, label in loaded.model.config.id2label.items() if str(label) == name]


def _label(loaded, name):
    labels = {n: str(label) for n, label in loaded.model.config.id2label.items()}
    found = _called(loaded, name)
    if len(found) == 1:
        return found[0]
    listed = some([f"{n} ({label})" for n, label in labels.items()])
    what = f"numbers {some(found)} have this name" if found else f"no {loaded.explains} has it"
    raise ValueError(
        f"--target {name!r}: {what}; pass a number or a name: {listed}"
        f"{did_you_mean([name], [] if found else labels.values())}"
    )


def _token(loaded, name):
    tokenizer = loaded.tokenizer
    if found := _alone(tokenizer, name):
        if (behind := _alone(tokenizer, f" {name}")) not in ([], found):
            note(f"--target {name!r} is token {found[0]}; after a space it is {behind[0]}")
        return found[0]
    spelled, unknown = _ids(tokenizer, name), tokenizer.unk_token_id
    if not spelled or unknown in spelled:
        raise ValueError(
            f"--target {name!r}: the tokenizer has no token for it; `lrp-axioms vocabulary "
            f"{loaded.name}` prints those it has, and an id is legal, too"
            f"{did_you_mean([name], _words(tokenizer))}"
        )
    listed = some([repr(x) for x in tokenizer.convert_ids_to_tokens(spelled)])
    raise ValueError(
        f"--target {name!r}: it is {len(spelled)} tokens, {listed}; pass one of these, or an id"
        f"{did_you_mean([name], _words(tokenizer), alike=0.8)}"
    )


def _alone(tokenizer, text):
    """The one token that spells a text, or that the vocabulary calls so, in a list; or nothing."""
    spelled = _ids(tokenizer, text)
    alone = spelled[0] if len(spelled) == 1 else tokenizer.convert_tokens_to_ids(text)
    unknown = tokenizer.unk_token_id if text != tokenizer.unk_token else None
    return [] if alone is None or alone == unknown else [alone]


def _words(tokenizer) -> list[str]:
    """The tokens of a vocabulary without the signs that stand for a space."""
    special = {*tokenizer.all_special_tokens}
    return [token.lstrip("Ġ▁ ") for token in tokenizer.get_vocab() if token not in special]


def _answer(loaded, words, column, tokens) -> Target | None:
    """The answer that is spelled by ``words``, at its one place or at ``column``."""
    if words is None:
        if column is None:
            return None
        raise ValueError(
            f"--column {column} says at which of several places an answer begins: pass its words "
            "as --target, too, or leave both out for the predicted answer"
        )
    ids = loaded.tokenizer.convert_tokens_to_ids(list(tokens))
    spellings = {tuple(_ids(loaded.tokenizer, x)) for x in (words, f" {words}")} - {()}
    places = {
        first: first + len(x) - 1
        for x in sorted(spellings, key=len)
        for first in range(len(ids))
        if tuple(ids[first : first + len(x)]) == x
    }
    if column in places or (column is None and len(places) == 1):
        first = next(iter(places)) if column is None else column
        return answer(first, places[first])
    at = f"begins at columns {some(sorted(places))}" if places else "stands nowhere in the text"
    advice = "pass one of them as --column" if places else "pass words of the context, as they are"
    raise ValueError(f"--target {words!r}: the answer {at}; {advice}")


def _ids(tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)
