"""A stream of texts in blocks; a block is measured, kept or lost as one piece."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

ROWS = 512, 2048, 4096  # most texts of the first block, of later ones, and for small models
WORK = 2**34  # texts times parameters of a first block that has more than ROWS[0] texts
LETTERS = 2**20  # most letters of a block; it has at least one text


@dataclass(frozen=True)
class Block:
    """Texts ``first`` to before ``end`` of a data set; ``content`` has one item per text."""

    first: int
    end: int
    content: object
    sha256: str

    def __str__(self):
        return f"texts {self.first + 1} to {self.end}"


def read_ahead(texts: Iterable[str]) -> Iterator[str]:
    """Returns all texts; reads about ``ROWS[0]`` of them at once."""
    texts, held, letters = iter(texts), [], 0
    for text in texts:
        held.append(text)
        letters += len(text)
        if len(held) == ROWS[0] or letters > LETTERS:
            break
    return chain(held, texts)


def rows(parameters: int) -> tuple[int, int]:
    """Returns the most texts of the first block, and of any, by the parameters of a model.

    Large blocks need less padding, and a small model soon explains one.
    """
    least, most, small = ROWS
    least = max(least, min(WORK // max(parameters, 1), small))
    return least, max(least, most)


def blocks(texts: Iterable[str], least: int, most: int) -> Iterator[Block]:
    """Yields blocks of texts; their ends depend only on the texts before them, and on two numbers.

    A block has a quarter as many texts as all blocks before it, from ``least`` to ``most``, so
    that at the end no worker waits long for another.
    """
    first, held, letters = 0, [], 0
    for text in texts:
        size = min(max(least, first // 4), most)
        if held and (len(held) == size or letters + len(text) > LETTERS):
            yield block(first, held)
            first, held, letters = first + len(held), [], 0
        held.append(text)
        letters += len(text)
    if held:
        yield block(first, held)


def block(first: int, content: list) -> Block:
    """Returns a block with the digest of ``content``, one item per text."""
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return Block(first, first + len(content), content, digest)
