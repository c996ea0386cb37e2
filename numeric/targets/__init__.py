"""Targets of explanations: logits, log-probabilities, and sums of them.

A ``Target`` is a sum of terms, each one number of a model's output.  Relevance is linear
in it, so that a sum of many costs one backward pass:

    logit(7)                          # class 7, or the token 7 that follows the text
    logit(7, at=3)                    # the token 7 behind column 3; the tag 7 of column 3
    logit(7) - logit(8)               # a contrast: why 7 rather than 8
    span(3, 6)                        # the text's own tokens 3, 4 and 5, each from earlier ones
    answer(3, 5)                      # an answer that starts at token 3 and ends at token 5
    log_probability(7)                # in place of the logit

Columns count in the batch, from 0; negative ones count from the last token that is no padding.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from lrp_axioms.numeric.methods.options import builtin
from lrp_axioms.numeric.spelling import NAME


class Own(Enum):
    """Stands for the label of the token that follows in the text itself."""

    OWN = "own"


OWN = Own.OWN
Numbers = int | tuple[int, ...] | None  # one for all examples, or one per example
Columns = int | Sequence[int] | Tensor | None  # as a user gives them
Name = str | Sequence[str]  # name of a label, or one name per example
Label = Columns | Name | Own
Labels = Numbers | str | tuple[int | str, ...] | Own
LONGEST = 2**16  # columns of a span: each takes a row of logits


@dataclass(frozen=True)
class Term:
    """One number of a head, times ``weight``.

    label: class, tag or token of the vocabulary, by number or name, or the column of the token
        that bounds an answer; None is the predicted label, OWN the next token of the text
    at: the column whose row of logits is read; None: the model's own choice
    of: "start" or "end" of an answer
    log: the logarithm of the label's probability instead of its logit
    """

    label: Labels = None
    at: Numbers = None
    of: str | None = None
    log: bool = False
    weight: float = 1.0


@dataclass(frozen=True)
class Target:
    """A sum of terms; targets can be added, subtracted, and multiplied by numbers."""

    terms: tuple[Term, ...]

    def __add__(self, other: "Target") -> "Target":
        return Target(self.terms + other.terms) if isinstance(other, Target) else NotImplemented

    def __radd__(self, other: object) -> "Target":  # of sum(), which starts at 0
        return self if other == 0 else NotImplemented

    def __mul__(self, factor: float) -> "Target":
        if not isinstance(factor, Real):
            return NotImplemented
        try:
            factor = float(factor)
        except OverflowError:
            raise ValueError("a target is multiplied by a number beyond float64") from None
        return Target(tuple(replace(x, weight=x.weight * factor) for x in self.terms))

    __rmul__ = __mul__

    def __neg__(self) -> "Target":
        return self * -1

    def __sub__(self, other: "Target") -> "Target":
        return self + -other if isinstance(other, Target) else NotImplemented


def logit(label: Label = None, *, at: Columns = None, of: str | None = None) -> Target:
    """Returns the logit of a label, by default the predicted one; label and ``at`` as in ``Term``.

    Both may have one entry per example.  ``at`` is, by default, the last token of a causal language
    model, and the mask of a masked one, by the tokenizer or else ``config.mask_token_id``; a tag
    has none.
    Raises ValueError for entries that are no whole numbers.
    """
    return Target((Term(_label(label), _numbers("at", at), of),))


def log_probability(label: Label = None, *, at: Columns = None, of: str | None = None) -> Target:
    """Returns the logarithm of the softmax of the logits at a label; arguments as of ``logit``.

    It is the logit minus the logarithm of the sum of all exponentials.  Its gradient times the
    logits is z_c - sum_j p_j z_j: rules that conserve add up to this, and it exceeds
    log p_c by the entropy of p, so that the residual of a log-probability contains minus that.
    """
    (term,) = logit(label, at=at, of=of).terms
    return Target((replace(term, log=True),))


def span(first: int, end: int | None = None, *, each: Callable[..., Target] = logit) -> Target:
    """Returns the sum over tokens ``first`` to ``end`` - 1 of the text itself, of a language model.

    Each is read from the row before it, ``each`` as ``logit`` or ``log_probability``.  ``span(-3)``
    are the last three.
    Raises ValueError for a span without a token, with the first token of the text, or of more than
    ``LONGEST`` columns.
    """
    first, end = builtin(first), builtin(end)
    last = 0 if end is None and type(first) is int and first < 0 else end
    if type(first) is not int or type(last) is not int or first == 0 or not first < last:
        raise ValueError(
            f"span({first!r}, {end!r}): pass the first column, at least 1, because nothing "
            "precedes column 0, and the one after the last; or a negative one, such as span(-3)"
        )
    if last - first > LONGEST:
        raise ValueError(f"span({first!r}, {end!r}): pass at most {LONGEST} columns")
    columns = (each(OWN, at=column - 1) for column in range(first, last))
    return Target(tuple(chain.from_iterable(target.terms for target in columns)))


def answer(
    first: Columns = None, last: Columns = None, *, each: Callable[..., Target] = logit
) -> Target:
    """Returns the sum of both ends of an answer from token ``first`` to ``last``.

    By default the predicted ends: for each the likeliest token that is no padding.
    Raises ValueError for an answer that ends before it starts.
    """
    starts, ends = _numbers("first", first), _numbers("last", last)
    if starts is not None and ends is not None and _any_below(ends, starts):
        raise ValueError(
            f"answer({first!r}, {last!r}) ends before it starts: pass its first token, and its last"
        )
    return each(first, of="start") + each(last, of="end")


def _label(value: object) -> Labels:
    if isinstance(value, str) and len(value) > NAME:
        raise ValueError(f"a label has {len(value)} letters; pass at most {NAME}")
    if isinstance(value, str | Own):
        return value
    _check_size("label", value)
    row = [*map(builtin, value)] if isinstance(value, list | tuple) else ()
    if {str} <= {str if isinstance(x, str) else type(x) for x in row} <= {str, int}:
        return tuple(row)
    return _numbers("label", value)


def names(term: Term) -> list[str]:
    """Lists the names among the labels of a term."""
    labels = term.label if isinstance(term.label, tuple) else (term.label,)
    return [x for x in labels if isinstance(x, str)]


def _numbers(name: str, value: object) -> Numbers:
    if value is None:
        return None
    _check_size(name, value)
    try:
        found = value if isinstance(value, Tensor) else torch.as_tensor(value, device="cpu")
    except (TypeError, ValueError, RuntimeError):  # neither numbers nor a table of numbers
        found = torch.empty((), device="cpu")
    no_number = found.is_floating_point() or found.is_complex() or found.dtype == torch.bool
    if no_number or found.ndim > 1:
        raise ValueError(f"{name}={value!r}: pass None, an int, or one int per example")
    return tuple(found.tolist()) if found.ndim else int(found)


def _check_size(name: str, value: object) -> None:
    if isinstance(value, list | tuple | range) and len(value) > LONGEST:
        raise ValueError(f"{name} has {len(value)} entries; pass at most {LONGEST}")


def _any_below(numbers: int | tuple[int, ...], others: int | tuple[int, ...]) -> bool:
    """Decides whether one of ``numbers`` is below its counterpart; one int counts for all."""
    rows = torch.tensor(numbers), torch.tensor(others)
    return len({x.shape for x in rows if x.ndim}) < 2 and bool((rows[0] < rows[1]).any())


def problems(targets: Sequence[object], size: int) -> list[str]:
    """Lists problems of ``targets`` for any model, and ``size`` examples."""
    return list(dict.fromkeys(x for target in targets for x in _problems(target, size)))


def _problems(target: object, size: int) -> Iterator[str]:
    whole = isinstance(target, Target)
    try:
        found = terms(target)
    except ValueError:
        found = ()
    if not found and target is not None:
        yield (
            f"target={repr(target)[:NAME]}: pass None, an int or a name, or one per example, such "
            "as the id of a token, or a target such as lrp_axioms.numeric.targets.logit(7, at=3)"
        )
    for name in ("label", "at"):
        for x in {getattr(term, name) for term in found}:
            if isinstance(x, tuple) and len(x) != size:
                said = name if whole else "target"
                yield f"{said} has {len(x)} entries for {size} examples; pass one per example"


def terms(target: Any) -> tuple[Term, ...]:
    """Returns the terms of a target without ``problems``; none for None, each head's default."""
    if target is None or isinstance(target, Target):
        return () if target is None else target.terms
    return logit(target).terms
