"""Texts as tokens: each is tokenised once, and a long one only as far as a model has room.

If all steps of a tokenizer are known here, its tokens before a space that follows a plain letter
never depend on later text.  Other tokenizers read long texts as a whole.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from transformers import PreTrainedTokenizerBase

from lrp_axioms.benchmarks.sources.data import Texts
from lrp_axioms.numeric.models.texts import is_doubled, tokenized
from lrp_axioms.numeric.spelling import some

Tokens = dict[str, list[int]]  # of one text, by the names of a tokenizer, special_tokens_mask too

LETTERS = 16  # of a long text that are read first, for each token that there is room for
PLAIN = (  # letters and digits that no normalizer removes, splits off or joins with a space
    r"(?!\W)[0-9A-Za-z\u00c0-\u024f\u0386-\u052f\u05d0-\u05ea\u0620-\u064a\u0904-\u0939"
    r"\u3041-\u30ff\u4e00-\u9fff\uac00-\ud7a3]"
)
START = re.compile(rf".*{PLAIN}(?= )", re.DOTALL)

MARK = "\u2581"  # which stands for a space in the tokens of SentencePiece
NORMALIZERS = {
    *("BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled"),
    *("Prepend", "Strip", "StripAccents"),
}
"""Normalizers that change letters one by one, with their combining marks; and both ends."""
LETTERWISE = {"Digits", "Punctuation"}
"""Pre-tokenizers that look at single letters, and keep spaces."""
IN_WORDS = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit", "ByteLevel", "Metaspace", "Split"}
"""Pre-tokenizers that divide at least before every space behind a letter, by default."""
ENDINGS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}|{ENDINGS}"
    for digits in (r"\p{N}{1,3}", r"\p{N}")
}
"""Regular expressions that do so, of Llama 3 and of Qwen 2."""


@dataclass(frozen=True)
class Read(Texts):
    """Texts with the tokens of each."""

    tokens: Sequence[Tokens]

    @classmethod
    def of(
        cls, data: Texts, tokenizer: PreTrainedTokenizerBase, most: int, *, first: int = 0
    ) -> "Read":
        """Reads at most ``most`` tokens of each text; ``first`` texts were read before.

        Raises ValueError for texts without a token, and numbers texts from 1.
        """
        if twice := [first + n + 1 for n, x in enumerate(data.texts) if is_doubled(tokenizer, x)]:
            raise ValueError(
                f"{data.name}: text {some(twice)} begins or ends with special tokens that the "
                "tokenizer adds; remove them from the text"
            )
        tokens = tokenised(tokenizer, data.texts, most)
        if empty := [n for n, each in enumerate(tokens) if not each["input_ids"]]:
            raise ValueError(
                f"{data.name}: the tokenizer makes no token of text "
                f"{some([f'{first + n + 1} ({data.texts[n]!r})' for n in empty])}; leave out what "
                "it does not know"
            )
        return cls(**vars(data), tokens=tokens)


def tokenised(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], most: int) -> list[Tokens]:
    """Returns the first ``most`` tokens of each text, special ones included."""
    found: list[Tokens] = [{}] * len(texts)
    left, size = range(len(texts)), LETTERS * most
    while left:
        starts = [start(tokenizer, texts[n], size) for n in left]
        read = _read(tokenizer, starts, most)
        for n, tokens in zip(left, read, strict=True):
            found[n] = tokens
        whole = {n for n, part in zip(left, starts, strict=True) if len(part) == len(texts[n])}
        left = [n for n in left if n not in whole and len(found[n]["input_ids"]) < most]
        size *= 2
    return found


def _read(tokenizer, texts, most):
    options = {"truncation": True, "max_length": most, "return_special_tokens_mask": True}
    read = tokenized(tokenizer, texts, **options)
    return [{key: read[key][n] for key in read} for n in range(len(texts))]


def start(tokenizer: PreTrainedTokenizerBase, text: str, size: int) -> str:
    """Returns up to ``size`` letters of a text whose tokens are the text's first; or all of it.

    It is empty if there is no such place among them.
    """
    cut_behind = tokenizer.truncation_side == "right"
    if len(text) <= size or not (cut_behind and knows_no_future(tokenizer)):
        return text
    found = START.match(text[: size + 1])
    return found[0] if found else ""


@lru_cache(maxsize=4)
def knows_no_future(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether tokens before a space after a plain letter never depend on later text."""
    if not tokenizer.is_fast:
        return False
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    over_spaces = any(re.search(r"\S\s", added["content"]) for added in rules["added_tokens"])
    normalizers = _steps(rules["normalizer"], "normalizers")
    known = all(x["type"] in NORMALIZERS or _replaces_no_letter(x) for x in normalizers)
    if over_spaces or not known or not _keeps_letters(tokenizer.backend_tokenizer.normalizer):
        return False
    marked = any(x["type"] == "Replace" and x["content"] == MARK for x in normalizers)
    steps = _steps(rules["pre_tokenizer"], "pretokenizers")
    while len(steps) > 1 and steps[0]["type"] in LETTERWISE:
        steps = steps[1:]
    if all(x["type"] == "Metaspace" and not x.get("split", True) for x in steps):
        return (marked or bool(steps)) and _joins_no_words(rules["model"], tokenizer.get_vocab())
    known = all(step["type"] in IN_WORDS | LETTERWISE for step in steps)
    fits = steps[0]["type"] == "Metaspace" or not marked
    return known and fits and _divides(steps[0]) and not rules["model"].get("dropout")


def _steps(given, name):
    if given is None:
        return []
    return [x for each in given[name] for x in _steps(each, name)] if name in given else [given]


def _replaces_no_letter(step):
    if step["type"] != "Replace":
        return False
    pattern = step["pattern"].get("String")
    if pattern == " " or step["pattern"] == {"Regex": " {2,}"}:
        return step["content"] in (" ", MARK)
    return bool(pattern) and not any(x == " " or x.isalnum() for x in pattern)


def _keeps_letters(normalizer):
    """Whether none of the plain letters is lost: SentencePiece has tables of its own."""
    letters = [chr(n) for n in range(0x10000) if re.match(PLAIN, chr(n))]
    read = normalizer.normalize_str(" ".join(letters)) if normalizer else " ".join(letters)
    return len(read.replace(MARK, " ").split()) == len(letters)


def _joins_no_words(model, vocabulary):
    """Whether no token of a model that gets texts undivided has a space behind something else."""
    by_pieces = model["type"] in ("BPE", "Unigram")
    if not by_pieces or model.get("dropout") or model.get("end_of_word_suffix"):
        return False
    return not any(re.search(f"[^{MARK}]{MARK}", token) for token in vocabulary)


def _divides(step):
    if step["type"] == "Split":
        apart = step["behavior"] == "Isolated" and not step["invert"]
        return apart and step["pattern"].get("Regex") in PATTERNS
    return step["type"] in IN_WORDS and step.get("use_regex", True) and step.get("split", True)
