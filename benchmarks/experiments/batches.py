"""Divides texts into batches by their lengths."""

from collections.abc import Sequence


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
