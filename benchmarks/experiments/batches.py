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
def naming(texts: Sequence[str]) -> Iterator[None]:
    """Names the texts of a batch in a ValueError about its examples."""
    try:
        yield
    except ValueError as error:
        named = f"(examples count from 0 here: texts {', '.join(texts)})"
        raise ValueError(f"{error} {named}") from error
