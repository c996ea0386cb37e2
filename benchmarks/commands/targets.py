"""Parses --target and --column: the explained output, in words of the head or in numbers."""

import re
from collections.abc import Callable, Iterator, Sequence

from lrp_axioms.benchmarks.commands.output import note
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.spelling import some, text_fault
from lrp_axioms.numeric.targets import Target, answer, logit
from lrp_axioms.numeric.targets.naming import label_numbers, resolve_names, single_token, text_ids
from lrp_axioms.numeric.targets.readout import NOUNS
from lrp_axioms.numeric.warning import telling


def parse_target(
    loaded,
    name: str | None,
    column: int | None,
    tokens: Sequence[str],
    contrast: str | None = None,
):
    """Returns a target for ``attribute`` and ``audit`` from ``--target`` and ``--column``.

    name: the number or name of a class or tag; the id, text or vocabulary entry of a token; the
        words of an answer
    column: of ``tokens``; by default a masked token is read at the one mask
    contrast: named like the target; its logit is subtracted
    Raises one ValueError for both options, which lists the legal values for this head.
    """
    given = {"target": name, "contrast": contrast}
    wrong = {
        key: fault for key, x in given.items() if (x or "").strip() and (fault := text_fault(x))
    }
    if wrong:
        raise ValueError("\n".join(f"--{x} {given[x]!r}: {wrong[x]}; pass a name" for x in wrong))
    if loaded.explains == "answer":
        if contrast is not None:
            raise ValueError(f"--contrast {contrast!r}: an answer has none; leave it out")
        return _answer(loaded, name, column, tokens)
    faults = list(_problems(loaded, column, tokens))
    one, other = (_label(loaded, key, x, faults) for key, x in given.items())
    if faults:
        raise ValueError("\n".join(faults))
    if column is None and loaded.explains == "masked token" and loaded.tokenizer.mask_token:
        column = tokens.index(loaded.tokenizer.mask_token)
    if contrast is not None:
        return logit(one, at=column) - logit(other, at=column)
    return one if column is None else logit(one, at=column)


def _label(loaded, option: str, name: str | None, faults: list[str]) -> int | None:
    """Returns the number of a label; adds a fault of a name or number that the head lacks."""
    if name is None:
        return None
    if re.fullmatch(r"[+-]?\d+", name):
        return _number(loaded, option, name, faults)
    head, tokenizer = facts_of(loaded.model).head, getattr(loaded, "tokenizer", None)
    own = lambda said: said.replace("target=", f"--{option} ", 1)
    wrong, said = [], []
    with telling(said.append):
        found = resolve_names(loaded.model, head, name, tokenizer, wrong)
    for each in said:
        note(own(each))
    faults += map(own, wrong)
    return found.terms[0].label


def said_of(loaded, label: int | list[int], tokens: Sequence[str]) -> str:
    """Describes an explained label in words; ValueError for one that is its own contrast."""
    if loaded.explains == "answer" and isinstance(label, list):
        return " ".join(tokens[label[0] : label[1] + 1])
    said = rather(loaded.label, label)
    if isinstance(label, list) and label[1:] == label[:1]:
        raise ValueError(f"the contrast is the target itself, {said!r}: pass another as --contrast")
    return said


def rather(name: Callable[[int], str], label: int | list[int]) -> str:
    """Returns the name of a label, "one rather than other" for two."""
    return " rather than ".join(map(name, label if isinstance(label, list) else [label]))


def _problems(loaded, column, tokens) -> Iterator[str]:
    """Yields faults of the column."""
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


def _number(loaded, option: str, name: str, faults: list[str]) -> int:
    """Returns a label that is given by its number, and notes another one that is called so."""
    words, number = loaded.explains.endswith("token"), float(name)  # int() refuses many digits
    rows = getattr(loaded.model.get_output_embeddings(), "weight", ()) if words else ()
    size = len(rows) if words else loaded.model.config.num_labels
    if not 0 <= number < (size or 2**53):
        nouns = NOUNS[facts_of(loaded.model).head]
        faults.append(f"--{option} {name} is out of range; the model has {nouns} 0 to {size - 1}")
        return 0
    known = single_token(loaded.tokenizer, name) if words else label_numbers(loaded.model, name)
    if others := [x for x in known if x != number]:
        note(f"--{option} {name} is read as a number; the name {name!r} has number {some(others)}")
    return int(number)


def _answer(loaded, words, column, tokens) -> Target | None:
    """Returns the answer that ``words`` spell, at its one place or at ``column``."""
    if words is None:
        if column is None:
            return None
        raise ValueError(
            f"--column {column} says at which of several places an answer begins: pass its words "
            "as --target, too, or leave both out for the predicted answer"
        )
    text = loaded.tokenizer.convert_tokens_to_ids(list(tokens))
    spellings = {tuple(text_ids(loaded.tokenizer, x)) for x in (words, f" {words}")} - {()}
    places = {
        first: first + len(x) - 1
        for x in sorted(spellings, key=len)
        for first in range(len(text))
        if tuple(text[first : first + len(x)]) == x
    }
    if column in places or (column is None and len(places) == 1):
        first = next(iter(places)) if column is None else column
        return answer(first, places[first])
    at = f"begins at columns {some(sorted(places))}" if places else "stands nowhere in the text"
    advice = "pass one of them as --column" if places else "pass words of the context, as they are"
    raise ValueError(f"--target {words!r}: the answer {at}; {advice}")
