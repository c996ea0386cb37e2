"""The embedded sentences agree with their card, and every check rejects a wrong file."""

import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

ASSETS = Path(__file__).parents[2] / "benchmarks" / "assets"
TEXT = (ASSETS / "sentences.tsv").read_bytes().decode()
CARD = (ASSETS / "README.md").read_text(encoding="utf-8")
COLUMNS = ["sentence", "label", "phenomenon"]


def rows(text):
    """(sentence, label, phenomenon) of each line after the header."""
    return [tuple(line.split("\t")) for line in text.split("\n")[1:-1]]


def words(sentence):
    return re.findall(r"[a-z0-9'-]+", sentence.lower())


def card_table(first_column, card=CARD):
    """The card's table whose header starts with ``first_column``: {first cell: other cells}."""
    lines = iter(card.splitlines())
    next(line for line in lines if line.startswith(f"| {first_column} |"))
    next(lines)  # the ruler
    table = {}
    for line in lines:
        if not line.startswith("|"):
            return table
        key, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        table[key] = cells
    return table


def header_columns_and_labels(text):
    header, *lines, last = text.split("\n")
    assert header.split("\t") == COLUMNS
    assert last == ""
    for number, line in enumerate(lines, start=2):
        assert len(line.split("\t")) == 3, f"line {number}: {line!r}"
        assert line.split("\t")[1] in ("0", "1"), f"line {number}: {line!r}"


def ascii_without_quotes(text):
    """Printable ASCII, so that csv, pandas and a plain split read the same sentences."""
    assert set(text) <= {"\t", "\n"} | set(map(chr, range(32, 127))) - {'"'}


def two_hundred_rows(text):
    assert len(rows(text)) == 200


def labels_alternate(text):
    assert [label for _, label, _ in rows(text)] == ["1", "0"] * (len(rows(text)) // 2)


def labels_are_balanced_within_each_phenomenon(text):
    count = Counter((phenomenon, label) for _, label, phenomenon in rows(text))
    for phenomenon, _ in count:
        assert count[phenomenon, "0"] == count[phenomenon, "1"], phenomenon


def every_phenomenon_has_twenty_to_sixty(text):
    for phenomenon, n in Counter(phenomenon for *_, phenomenon in rows(text)).items():
        assert 20 <= n <= 60, f"{phenomenon}: {n}"


def six_to_forty_words(text):
    for sentence, *_ in rows(text):
        assert 6 <= len(sentence.split()) <= 40, sentence


def no_duplicates(text):
    count = Counter(tuple(words(sentence)) for sentence, *_ in rows(text))
    assert max(count.values()) == 1, count.most_common(1)


def no_shared_five_gram(text):
    seen = defaultdict(set)
    for number, (sentence, *_) in enumerate(rows(text)):
        w = words(sentence)
        for gram in zip(*(w[k:] for k in range(5)), strict=False):
            seen[gram].add(number)
    assert [gram for gram, where in seen.items() if len(where) > 1] == []


def counts_are_the_cards(text):
    count = Counter((phenomenon, label) for _, label, phenomenon in rows(text))
    card = card_table("phenomenon")
    assert {phenomenon for phenomenon, _ in count} == set(card)
    for phenomenon, (_, negative, positive) in card.items():
        assert count[phenomenon, "0"] == int(negative), phenomenon
        assert count[phenomenon, "1"] == int(positive), phenomenon


def lengths_are_the_cards(text):
    lengths = [len(sentence.split()) for sentence, *_ in rows(text)]
    card = card_table("words")
    assert sum(int(n) for (n,) in card.values()) == len(lengths)
    for interval, (n,) in card.items():
        low, high = map(int, interval.split("-"))
        assert sum(low <= x <= high for x in lengths) == int(n), interval


CHECKS = (
    header_columns_and_labels,
    ascii_without_quotes,
    two_hundred_rows,
    labels_alternate,
    labels_are_balanced_within_each_phenomenon,
    every_phenomenon_has_twenty_to_sixty,
    six_to_forty_words,
    no_duplicates,
    no_shared_five_gram,
    counts_are_the_cards,
    lengths_are_the_cards,
)

HEADER, FIRST, SECOND, *REST = TEXT.splitlines(keepends=True)
SENTENCE = FIRST.split("\t")[0]


def with_first(sentence):
    return TEXT.replace(SENTENCE, sentence, 1)


WRONG = {
    "no header": (header_columns_and_labels, TEXT.removeprefix(HEADER)),
    "columns swapped": (header_columns_and_labels, TEXT.replace("label\tphen", "phen\tlabel", 1)),
    "last line not ended": (header_columns_and_labels, TEXT.rstrip("\n")),
    "tab inside a sentence": (header_columns_and_labels, TEXT.replace(" ", "\t", 1)),
    "label in words": (header_columns_and_labels, TEXT.replace("\t1\t", "\tpositive\t", 1)),
    "curly apostrophe": (ascii_without_quotes, TEXT.replace("'", "\u2019", 1)),
    "quoted sentence": (ascii_without_quotes, with_first(f'"{SENTENCE}"')),
    "Windows line ends": (ascii_without_quotes, TEXT.replace("\n", "\r\n")),
    "a row missing": (two_hundred_rows, HEADER + SECOND + "".join(REST)),
    "a row too many": (two_hundred_rows, TEXT + FIRST),
    "positives first": (labels_alternate, HEADER + "".join(sorted([FIRST, SECOND, *REST]))),
    "label flipped": (labels_are_balanced_within_each_phenomenon,
        TEXT.replace("\t1\tplain", "\t0\tplain", 1)),
    "balanced overall only": (labels_are_balanced_within_each_phenomenon,
        TEXT.replace("\t1\tplain", "\t0\tplain", 1).replace("\t0\tirony", "\t1\tirony", 1)),
    "misspelt phenomenon": (every_phenomenon_has_twenty_to_sixty,
        TEXT.replace("\thedging", "\thedgeing", 1)),
    "two phenomena in one": (every_phenomenon_has_twenty_to_sixty,
        TEXT.replace("\tnegation", "\tplain")),
    "five words": (six_to_forty_words, with_first("A warm and funny film.")),
    "forty-one words": (six_to_forty_words, with_first("very " * 41)),
    "sentence twice": (no_duplicates, with_first(SECOND.split("\t")[0])),
    "same but for case and stop": (no_duplicates, with_first(SECOND.split("\t")[0][:-1].upper())),
    "near duplicate": (no_shared_five_gram,
        with_first(" ".join(SECOND.split("\t")[0].split()[:-1]) + " morning.")),
    "phenomenon renamed": (counts_are_the_cards, TEXT.replace("\tirony", "\tsarcasm")),
    "a pair moved": (counts_are_the_cards,
        TEXT.replace("\t1\tplain", "\t1\tirony", 1).replace("\t0\tplain", "\t0\tirony", 1)),
    "a sentence lengthened": (lengths_are_the_cards, with_first(f"Well, {SENTENCE} " + "ha " * 9)),
}  # fmt: skip


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_sentences_are_what_the_card_says(check):
    check(TEXT)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_rejected(name):
    check, text = WRONG[name]
    with pytest.raises(AssertionError):
        check(text)


def test_every_check_has_a_wrong_file():
    assert {check for check, _ in WRONG.values()} == set(CHECKS)


def assert_accuracy_is_the_cards(count):
    """The card's counts are exact: the smallest margin is 0.01 logits, float32 noise about 1e-5."""
    total = Counter(phenomenon for *_, phenomenon in rows(TEXT)) | {"sentences.tsv": 200}
    card = card_table("data")
    assert set(card) == {"SST-2 dev", *total}
    for name, (correct, sentences, accuracy) in card.items():
        assert accuracy == f"{int(correct) / int(sentences):.3f}", name
        if name != "SST-2 dev":  # measured on data that is not embedded
            assert (count[name], total[name]) == (int(correct), int(sentences)), name


@pytest.fixture(scope="module")
def correct_labels():
    """How many labels the embedded model hits: {phenomenon: count}, and the sum over the file."""
    folder = ASSETS / "bert12-sst2"
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    count = Counter()
    for sentence, label, phenomenon in rows(TEXT):
        with torch.no_grad():
            logits = model(**tokenizer(sentence, return_tensors="pt")).logits
        count[phenomenon] += int(logits.argmax()) == int(label)
    return count | {"sentences.tsv": count.total()}


def test_the_embedded_model_is_as_accurate_as_its_card_says(correct_labels):
    assert_accuracy_is_the_cards(correct_labels)


@pytest.mark.parametrize("name", sorted(set(card_table("data")) - {"SST-2 dev"}))
def test_one_label_more_or_less_does_not_match_the_card(correct_labels, name):
    for off in (-1, 1):
        with pytest.raises(AssertionError):
            assert_accuracy_is_the_cards({**correct_labels, name: correct_labels[name] + off})
