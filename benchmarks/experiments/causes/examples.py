"""Prompts of the language with their answers and causes, from a seed."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from lrp_axioms.benchmarks.experiments.causes.language import KINDS, TASKS, Words, answer

DISTANCES = {"near": (1, 5), "middle": (6, 11), "far": (12, 40)}
"""Name -> least and most words from the farthest carrier to the end of the prompt."""
LISTED = ("name", "thing", "adjective")  # induction lists words of these kinds


@dataclass(frozen=True)
class Example:
    """A prompt with its answer and causes; positions count words from 0."""

    task: str
    words: Words
    answer: str
    causes: frozenset[int]  # in the text: words that carry the answer, or lead to it
    carriers: frozenset[int]  # causes that must change for another answer
    question: int  # where it starts

    @property
    def distance(self) -> int:
        return len(self.words) - min(self.carriers)


Drawn = tuple[list[str], set[int], set[int]]  # words, causes, carriers


def examples(task: str, distance: str, count: int, *, seed: int) -> list[Example]:
    """Draws ``count`` prompts of a task, with carriers at a ``distance`` of their end."""
    least, most = DISTANCES[distance]
    rng = random.Random(f"{task} {distance} {seed}")
    found = []
    while len(found) < count:
        example = draw(task, rng)
        if least <= example.distance <= most:
            found.append(example)
    return found


def draw(task: str, rng: random.Random, *, size: float = 1.0) -> Example:
    """Draws a prompt of a task, of any length, and with its carriers anywhere.

    ``size``, above 0 and at most 1, shortens the longest prompts to that share.
    """
    words, causes, carriers = DRAW[task](rng, lambda most: max(1, round(size * most)))
    words = tuple(words)
    right, start = answer(task, words), TASKS[task].question(words)
    return Example(task, words, right, frozenset(causes), frozenset(carriers), start)


def _recall(rng, up_to) -> Drawn:
    count = rng.randint(1, up_to(7))
    names, things = (rng.sample(KINDS[kind], count) for kind in ("name", "thing"))
    asked = rng.randrange(count)
    words = [word for fact in zip(names, things, strict=True) for word in fact]
    return [*words, ";", names[asked]], {2 * asked, 2 * asked + 1}, {2 * asked + 1}


def _induction(rng, up_to) -> Drawn:
    words = [word for kind in LISTED for word in rng.sample(KINDS[kind], 7)]  # an eighth is left
    words = rng.sample(words, rng.randint(2, 1 + up_to(20)))
    asked = rng.randrange(len(words) - 1)
    return [*words, words[asked]], {asked, asked + 1}, {asked + 1}


def _brackets(rng, up_to) -> Drawn:
    """Draws closed brackets, open ones with the one that the answer closes, and closed text."""
    before = _closed(rng, 2)
    for _ in range(rng.randint(0, up_to(2))):
        before += [_open(rng), *_closed(rng, 2)]
    after = _closed(rng, up_to(rng.choice((1, 3, 10))))
    here = len(before)
    return [*before, _open(rng), *after, ";"], {here}, {here}


def _open(rng):
    return rng.choice(KINDS["opening"])


def _closed(rng, pairs: int, depth: int = 3) -> list[str]:
    """Draws at most so many pairs of brackets, nested no deeper than ``depth``."""
    words, expected = [], []
    for _ in range(2 * rng.randint(0, pairs)):
        if expected and (rng.random() < 0.5 or len(expected) == depth):
            words.append(expected.pop())
        else:
            n = rng.randrange(len(KINDS["opening"]))
            words.append(KINDS["opening"][n])
            expected.append(KINDS["closing"][n])
    return words + expected[::-1]


def _agreement(rng, up_to) -> Drawn:
    words = ["the", rng.choice(KINDS["noun"])]
    for _ in range(rng.choice((rng.randint(0, 2), rng.randint(0, up_to(9))))):
        words += [rng.choice(KINDS["preposition"]), "the", rng.choice(KINDS["noun"])]
    return [*words, "now"], {1}, {1}


def _negation(rng, up_to) -> Drawn:
    adjectives = rng.sample(KINDS["adjective"], rng.randint(1, up_to(7)))
    words, markers, places = [rng.choice(KINDS["name"]), "is"], [], []
    ends = rng.choice((0.3, 1))  # how probable it is that a polarity holds for no more words
    for n, adjective in enumerate(adjectives):
        if n == 0 or rng.random() < ends:
            words += ["but"] * (n > 0) + [rng.choice(KINDS["polarity"])]
            marker = len(words) - 1
        else:
            words.append("and")
        words.append(adjective)
        markers.append(marker)
        places.append(len(words) - 1)
    n = rng.randrange(len(adjectives))
    return [*words, ";", adjectives[n]], {markers[n], places[n]}, {markers[n]}


def _sums(rng, up_to) -> Drawn:
    count = rng.randint(2, 1 + up_to(rng.choice((3, 15))))
    added = sorted(rng.sample(range(count), 2))
    operators = ["add" if n in added else "skip" for n in range(count)]
    words = [word for name in operators for word in (name, rng.choice(KINDS["digit"]))]
    carriers = {2 * n + 1 for n in added}
    return [*words, ";"], carriers | {2 * n for n in added}, carriers


DRAW: dict[str, Callable[[random.Random, Callable[[int], int]], Drawn]] = {
    "recall": _recall,
    "induction": _induction,
    "brackets": _brackets,
    "agreement": _agreement,
    "negation": _negation,
    "sums": _sums,
}
