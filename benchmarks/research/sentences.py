"""Sentences of the language of causes to train on, from a seed."""

import random

from lrp_axioms.benchmarks.experiments.causes.examples import draw
from lrp_axioms.benchmarks.experiments.causes.language import KIND, answer

LONGEST = 62  # words of a sentence


def sentence(task: str, rng: random.Random, *, size: float = 1.0) -> tuple[list[str], set[int]]:
    """Draws a prompt, its answer, further questions about its text, a full stop, and the end.

    Returns the words and the positions of all answers among them.
    """
    example = draw(task, rng, size=size)
    words, answers = [*example.words, example.answer], {len(example.words)}
    for asked, of in FURTHER.get(task, lambda *_: ())(example, rng):
        if len(words) + len(asked) > LONGEST:
            break
        words += [*asked, of]
        answers.add(len(words) - 1)
    return [*words, ".", "</s>"], answers


def _of_others(example, rng):
    """Asks about all other words of the question's kind in the text."""
    *text, _, asked = example.words
    others = [word for word in text if KIND.get(word) == KIND[asked] and word != asked]
    rng.shuffle(others)
    for word in others:
        yield [word], answer(example.task, (*text, ";", word))


def _copied_on(example, _rng):
    """Yields the words after the answer: each in turn has a known successor in the text."""
    *listed, _ = example.words
    rest = listed[max(example.carriers) + 1 :]
    return (([], word) for word in rest)


def _closed_on(example, _rng):
    """Yields the brackets that close the text after the answer."""
    text, closing = example.words[:-1], example.answer
    while closing:
        text = (*text, closing)
        if closing := answer("brackets", (*text, ";")):
            yield [], closing


FURTHER = {
    "recall": _of_others,
    "induction": _copied_on,
    "brackets": _closed_on,
    "negation": _of_others,
}
"""Task -> further questions about the text of an example, each with its answer."""
