"""How long work tells of its progress, to whoever wants to know."""

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass

Track = Callable[[Iterable, str], Iterable]
"""Shows progress over the items of an iterable under a description."""


def untracked(items: Iterable, _description: str) -> Iterable:
    return items


@dataclass(frozen=True)
class Counted:
    """Items that come one by one, as many as ``of`` has if that is known."""

    items: Iterator
    of: Iterable

    def __iter__(self) -> Iterator:
        return self.items

    def __length_hint__(self) -> int:
        return len(self.of) if isinstance(self.of, Sized) else NotImplemented
