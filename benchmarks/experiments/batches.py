"""Divides texts into batches by their lengths."""

from collections.abc import Sequence


def divided(
    order: Sequence[int], lengths: Sequence[int], texts: int, tokens: int, padding: int
) -> list[list[int]]:
    """Divides numbers of texts, in rising ``order`` of their lengths, by the most of a batch."""
    found: list[list[int]] = []
    for n in order:
        last = found[-1] if found else []
        size = (len(last) + 1) * lengths[n]
        padded = size - sum(lengths[x] for x in [*last, n])
        full = len(last) == texts or size > tokens or padded > padding
        found += [[]] if full or not last else []
        found[-1].append(n)
    return found
