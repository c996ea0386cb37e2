"""The language: its words by kind, and the answer to a prompt with its causes.

A prompt is a *text* and then a *question*, and ends right before its one-word answer:

    recall     anna apple bert pen ; anna                      apple
    induction  pen anna calm bert ink anna                     calm
    brackets   ( [ < > ;                                       ]
    agreement  the dog near the cats now                       is
    negation   anna is not calm and kind but truly bold ; kind no
    sums       add 3 skip 5 add 9 ;                            2   (modulo 10)

Causes are defined by replacing one word at a time with every other word of its kind, as long as the
prompt stays grammatical: a position is a *cause* if the answer changes or is lost, and its word
*carries* the answer if it stands in the text and another word there gives another answer.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

KINDS = {
    "name": "anna bert carl dora emil fred greta hugo",
    "thing": "apple bag coin drum egg ink lamp pen",
    "opening": "( [ { <",
    "closing": ") ] } >",
    "noun": "bear bears bird birds cat cats dog dogs",
    "preposition": "near behind above below",
    "adjective": "bold calm glad kind loud neat shy wise",
    "polarity": "not truly",
    "operator": "add skip",
    "digit": "0 1 2 3 4 5 6 7 8 9",
}
KINDS = {kind: tuple(words.split()) for kind, words in KINDS.items()}
VERBS, VERDICTS = ("is", "are"), ("no", "yes")
MARKS = ("the", "now", "and", "but", ",", ";", ".", *VERBS, *VERDICTS)
"""Words that are alone of their kind."""
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
VOCABULARY = (*SPECIAL, *MARKS, *(word for words in KINDS.values() for word in words))
ID = {word: n for n, word in enumerate(VOCABULARY)}
KIND = {word: kind for kind, words in KINDS.items() for word in words}
MODULUS = len(KINDS["digit"])

NO_ANSWER = ""
Words = tuple[str, ...]


@dataclass(frozen=True)
class Task:
    """A sort of prompt: its grammar, the start of its question, and its answer.

    ``grammar`` is a regular expression over kinds.  ``answer`` returns ``NO_ANSWER`` for a text
    without one, and None for a prompt that is ungrammatical though its kinds match.
    """

    grammar: str
    question: Callable[[Words], int]
    answer: Callable[[Words], str | None]


def answer(task: str, words: Words) -> str | None:
    """Returns the answer to a prompt, "" if its text holds none, None if it is ungrammatical."""
    kinds = " ".join(KIND.get(word, word) for word in words)
    return TASKS[task].answer(words) if re.fullmatch(TASKS[task].grammar, kinds) else None


def replacements(task: str, words: Words, position: int) -> Iterator[tuple[Words, str]]:
    """Yields grammatical prompts with another word of its kind at one position, with answers."""
    for word in KINDS.get(KIND.get(words[position], ""), ()):
        other = (*words[:position], word, *words[position + 1 :])
        if word != words[position] and (found := answer(task, other)) is not None:
            yield other, found


def _recall(words):
    start = words.index(";")
    names, things = words[0:start:2], words[1:start:2]
    if len({*names}) < len(names) or len({*things}) < len(things):
        return None
    return dict(zip(names, things, strict=True)).get(words[start + 1], NO_ANSWER)


def _induction(words):
    *listed, last = words
    if len({*listed}) < len(listed):
        return None
    where = listed.index(last) + 1 if last in listed else len(listed)
    return listed[where] if where < len(listed) else NO_ANSWER


def _brackets(words):
    closed_by = dict(zip(KINDS["opening"], KINDS["closing"], strict=True))
    expected = []
    for word in words[:-1]:
        if word in closed_by:
            expected.append(closed_by[word])
        elif not expected or expected.pop() != word:
            return None
    return expected[-1] if expected else NO_ANSWER


def _agreement(words):
    return VERBS[KINDS["noun"].index(words[1]) % 2]


def _negation(words):
    start, said, polarity = words.index(";"), {}, ""
    for word in words[2:start]:
        polarity = word if word in KINDS["polarity"] else polarity
        if word in KINDS["adjective"]:
            if word in said:
                return None
            said[word] = VERDICTS[KINDS["polarity"].index(polarity)]
    return said.get(words[-1], NO_ANSWER)


def _sums(words):
    added = [int(words[n + 1]) for n in range(0, len(words) - 1, 2) if words[n] == "add"]
    if len(added) > 2:
        return None
    return str(sum(added) % MODULUS) if len(added) == 2 else NO_ANSWER


_semicolon = lambda words: words.index(";")
_last = lambda words: len(words) - 1
_any = "(name|thing|adjective)"
_said = "polarity adjective( and adjective)*"

TASKS = {
    "recall": Task("name thing( name thing)* ; name", _semicolon, _recall),
    "induction": Task(f"{_any}( {_any})+", _last, _induction),
    "brackets": Task("((opening|closing) )+;", _semicolon, _brackets),
    "agreement": Task("the noun( preposition the noun)* now", _last, _agreement),
    "negation": Task(f"name is {_said}( but {_said})* ; adjective", _semicolon, _negation),
    "sums": Task("(operator digit )+;", _semicolon, _sums),
}
"""Name -> task, in the order of tables."""
