"""Parses --target and --column: the explained output, in words of the head or in numbers."""

import re
from collections.abc import Iterator, Sequence

from lrp_axioms.benchmarks.commands.output import note, noting
from lrp_axioms.benchmarks.sources.faults import some
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.spelling import text_fault
from lrp_axioms.numeric.targets import Target, answer, logit
from lrp_axioms.numeric.targets.naming import label_numbers, resolve_names, single_token, text_ids


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
    given = {"--target": name, "--contrast": contrast}
    wrong = {
        key: fault for key, x in given.items() if (x or "").strip() and (fault := text_fault(x))
    }
    if wrong:
        raise ValueError("\n".join(f"{x} {given[x]!r}: {wrong[x]}; pass a name" for x in wrong))
    if contrast is not None:
        return _difference(loaded, name, column, tokens, contrast)
    if loaded.explains == "answer":
        return _answer(loaded, name, column, tokens)
    faults = list(_problems(loaded, column, tokens))
    given = None if name is None else _number(loaded, name)
    with noting():
        found = resolve_names(
            loaded.model, facts_of(loaded.model).head, given, _tokenizer(loaded), faults
        )
    if faults:
        raise ValueError("\n".join(faults))
    if column is None and loaded.explains == "masked token" and loaded.tokenizer.mask_token:
        column = tokens.index(loaded.tokenizer.mask_token)
    label = found.terms[0].label if isinstance(found, Target) else found
    return label if column is None else logit(label, at=column)


def _difference(loaded, name, column, tokens, contrast) -> Target:
    if loaded.explains == "answer":
        raise ValueError(f"--contrast {contrast!r}: an answer has none; leave it out")
    one = parse_target(loaded, name, column, tokens)
    try:
        other = parse_target(loaded, contrast, column, tokens)
    except ValueError as error:
        raise ValueError(f"--contrast {contrast!r}: {error}") from error
    one, other = (x if isinstance(x, Target) else logit(x) for x in (one, other))
    return one - other


def said_of(loaded, label: int | list[int], tokens: Sequence[str]) -> str:
    """Describes an explained label in words; ValueError for one that is its own contrast."""
    said = loaded.said(label, tokens)
    if loaded.explains != "answer" and isinstance(label, list) and label[1:] == label[:1]:
        raise ValueError(f"the contrast is the target itself, {said!r}: pass another as --contrast")
    return said


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


def _number(loaded, name: str) -> int | str:
    """Returns the number of a class, tag or token, or ``name`` if it is no number."""
    if not re.fullmatch(r"[+-]?\d+", name):
        return name
    words = loaded.explains.endswith("token")
    known = single_token(loaded.tokenizer, name) if words else label_numbers(loaded.model, name)
    if others := [x for x in known if x != int(name)]:
        note(f"--target {name} is read as a number; the name {name!r} has number {some(others)}")
    return int(name)


def _tokenizer(loaded):
    return getattr(loaded, "tokenizer", None)  # an image classifier has none


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
