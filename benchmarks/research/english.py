"""Short stories in simple English, drawn by a grammar, and the words that follow from them."""

import random
from collections.abc import Callable
from typing import NamedTuple

WOMEN = ["Anna", "Clara", "Emma", "Julia", "Lucy", "Maria", "Nina", "Rosa", "Sara", "Zoe"]
MEN = ["Ben", "David", "Felix", "Hugo", "Jack", "Leo", "Max", "Oscar", "Paul", "Tom"]
THINGS = [
    "key", "ball", "hat", "cup", "book", "coin", "lamp", "pen",
    "ring", "shoe", "letter", "map", "knife", "spoon", "toy", "clock",
]  # fmt: skip
PLACES = [
    "box", "bag", "drawer", "kitchen", "garden", "car",
    "basket", "cupboard", "garage", "hall", "attic", "bath",
]  # fmt: skip
COLOURS = ["red", "blue", "green", "yellow", "black", "white", "brown", "grey"]
FOODS = ["apples", "bread", "cheese", "soup", "rice", "fish", "plums", "honey", "eggs", "nuts"]
ANIMALS = ["dog", "cat", "horse", "bird", "cow", "goat", "duck", "hen"]
SPOTS = ["house", "tree", "river", "wall", "road", "barn"]
OPPOSITES = dict(pair.split() for pair in (
    "hot cold", "old new", "big small", "open closed", "wet dry", "full empty", "clean dirty",
    "fast slow", "happy sad", "long short", "heavy light", "loud quiet",
))  # fmt: skip
OPPOSITES |= {value: key for key, value in OPPOSITES.items()}
ADJECTIVES = ["hungry", "tired", "young", "small", "quiet", "thirsty"]
REASONS = {
    "It is raining": "takes an umbrella",
    "It is cold": "wears a coat",
    "It is dark": "lights a candle",
    "It is late": "goes to bed",
    "It is sunny": "sits outside",
    "It is a holiday": "stays at home",
}
BETWEEN = (
    "It is a fine day .",
    "The birds sing .",
    "The sun is out .",
    "It is Sunday .",
    "Everyone is here .",
    "The street is quiet .",
)


class Story(NamedTuple):
    """Words of its facts, and sentences without their last word, which follows from the facts."""

    facts: list[str]
    asked: list[tuple[list[str], str]]

    @property
    def words(self) -> list[str]:
        return [*self.facts, *self.asked[0][0]]

    @property
    def answer(self) -> str:
        return self.asked[0][1]


def _story(facts: list[str], asked: list[tuple[str, str]], rng: random.Random) -> Story:
    """Puts facts and questions in any order, with a sentence that tells nothing now and then."""
    rng.shuffle(facts)
    rng.shuffle(asked)
    if rng.random() < 0.2:
        facts.insert(rng.randrange(len(facts) + 1), rng.choice(BETWEEN))
    return Story(" ".join(facts).split(), [(before.split(), answer) for before, answer in asked])


def _people(rng: random.Random, count: int) -> list[str]:
    return rng.sample(WOMEN + MEN, count)


def place(rng: random.Random) -> Story:
    """A thing is in the place where someone put it."""
    count = rng.randint(2, 3)
    rows = [
        *zip(_people(rng, count), rng.sample(THINGS, count), rng.sample(PLACES, count), strict=True)
    ]
    facts = [f"{who} put the {what} in the {where} ." for who, what, where in rows]
    return _story(facts, [(f"The {what} is in the", where) for _, what, where in rows], rng)


def gift(rng: random.Random) -> Story:
    """A thing belongs to the person to whom another person gave it."""
    people = _people(rng, 4)
    rows = [*zip(people[:2], rng.sample(THINGS, 2), people[2:], strict=True)]
    facts = [f"{giver} gave the {what} to {to} ." for giver, what, to in rows]
    return _story(facts, [(f"Now the {what} belongs to", to) for _, what, to in rows], rng)


def colour(rng: random.Random) -> Story:
    """A thing has the colour that stood before it."""
    rows = [*zip(rng.sample(COLOURS, 2), rng.sample(THINGS, 2), strict=True)]
    (first, one), (second, other) = rows
    fact = f"{rng.choice(WOMEN + MEN)} has a {first} {one} and a {second} {other} ."
    return _story([fact], [(f"The {thing} is", colour) for colour, thing in rows], rng)


def taste(rng: random.Random) -> Story:
    """People eat the food that they like."""
    rows = [*zip(_people(rng, 2), rng.sample(FOODS, 2), strict=True)]
    (one, first), (other, second) = rows
    fact = f"{one} likes {first} , but {other} likes {second} ."
    return _story([fact], [(f"So {who} eats", food) for who, food in rows], rng)


def agreement(rng: random.Random) -> Story:
    """A verb agrees with its subject, not with the noun beside it."""
    many, beside = rng.choice(["", "s"]), rng.choice(["", "s"])
    subject = f"The {rng.choice(ANIMALS)}{many} near the {rng.choice(SPOTS)}{beside}"
    return _story([], [(subject, "are" if many else "is")], rng)


def pronoun(rng: random.Random) -> Story:
    """A pronoun stands for the person who was named last."""
    who, adjective = rng.choice(WOMEN + MEN), rng.choice(ADJECTIVES)
    return _story([], [(f"{who} is {adjective} , so", "she" if who in WOMEN else "he")], rng)


def reason(rng: random.Random) -> Story:
    """The weather or the hour says how people spend their time."""
    why = rng.choice([*REASONS])
    start, answer = REASONS[why].rsplit(" ", 1)
    return _story([], [(f"{why} , so {rng.choice(WOMEN + MEN)} {start}", answer)], rng)


def opposite(rng: random.Random) -> Story:
    """A thing that is not hot is cold."""
    thing, adjective = rng.choice(THINGS), rng.choice([*OPPOSITES])
    fact = f"The {thing} is not {adjective} ."
    return _story([fact], [("It is", OPPOSITES[adjective])], rng)


KINDS: tuple[Callable[[random.Random], Story], ...] = (
    place, gift, colour, taste, agreement, pronoun, reason, opposite,
)  # fmt: skip
ENDS = {
    agreement: lambda rng: [rng.choice(ADJECTIVES)],
    pronoun: lambda rng: ["eats", rng.choice(FOODS)],
}
"""Kind of story -> words after its answer, before the full stop."""
LONGEST = 62  # words of a text


def text(rng: random.Random, shares: dict[str, float]) -> tuple[list[str], set[int]]:
    """Draws stories, by the ``shares`` of their kinds, until a text is full.

    Returns its words, and the positions of all that follow from others.
    """
    words: list[str] = []
    answers: set[int] = set()
    for kind in rng.choices(KINDS, [shares[kind.__name__] for kind in KINDS], k=3):
        story = kind(rng)
        new, found = list(story.facts), []
        for before, answer in story.asked:
            found.append(len(words) + len(new) + len(before))
            new += [*before, answer, *ENDS.get(kind, lambda _: [])(rng), "."]
        if len(words) + len(new) >= LONGEST:
            break
        answers.update(found)
        words += new
    return [*words, "</s>"], answers


SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")


def _vocabulary() -> list[str]:
    """Returns special tokens, then all words of the grammar in order of the alphabet."""
    phrases = [*WOMEN, *MEN, *THINGS, *PLACES, *COLOURS, *FOODS, *OPPOSITES, *ADJECTIVES, *BETWEEN]
    phrases += [*REASONS, *REASONS.values(), "put the in The is Now gave to belongs has a and"]
    phrases += [*ANIMALS, *SPOTS, *(f"{noun}s" for noun in ANIMALS + SPOTS), ", . likes but eats"]
    phrases += ["So near are so he she not It"]
    return [*SPECIAL, *sorted(set(" ".join(phrases).split()))]


VOCABULARY = _vocabulary()


def repeated(rng: random.Random) -> tuple[list[str], set[int]]:
    """Draws a row of words twice over: its second half follows from the first, word by word."""
    row = rng.sample(VOCABULARY[len(SPECIAL) :], rng.randint(4, LONGEST // 2))
    return row + row, {*range(len(row) + 1, 2 * len(row))}
