"""Divides texts into batches by their lengths, and names them in errors."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def divided(
    order: Sequence[int], lengths: Sequence[int], texts: int, tokens: int, padding: int
) -> list[list[int]]:
    """Divides numbers of texts, in rising ``order`` of their lengths, by the most of a batch."""
    found: list[list[int]] = [[]]
    held = 0  # tokens of the last batch, without padding
    for n in order:
        size, held = (len(found[-1]) + 1) * lengths[n], held + lengths[n]
        full = len(found[-1]) == texts or size > tokens or size - held > padding
        if full and found[-1]:
            found.append([])
            held = lengths[n]
        found[-1].append(n)
    return [x for x in found if x]


@contextmanager
def naming(numbers: Sequence[int]) -> Iterator[None]:
    """Names the texts of a batch, of these ``numbers``, in a ValueError about its examples."""
    try:
        yield
    except ValueError as error:
        texts = ", ".join(str(n + 1) for n in numbers)
        raise ValueError(f"{error} (examples count from 0 here: texts {texts})") from error
