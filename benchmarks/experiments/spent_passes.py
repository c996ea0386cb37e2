"""What Leave-One-Out gives up when it may spend a share of its passes alone.

``python -m benchmarks.experiments.spent_passes`` prints the table of
docs/LONG_TEXTS.md, in about ten minutes.  Documents are embedded sentences in a random order, ten
each.
"""

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.sources import data, models
from numeric import attribute
from numeric.evaluation.correlation import bootstrap_mean, pearson

LENGTH = 10  # sentences of a document
SHARES = (0.25, 0.5, 0.75)  # of the passes that exact Leave-One-Out takes
LARGEST = 10


def documents(seed: int = 0) -> list[list[str]]:
    texts = list(data.load("embedded").texts)
    np.random.default_rng(seed).shuffle(texts)
    return [texts[n : n + LENGTH] for n in range(0, len(texts), LENGTH)]


def measured(clf, sentences: list[str]) -> Iterator[tuple[str, float, float, float]]:
    """Groups, share of the passes, Pearson's r with the exact losses, and largest tokens kept."""
    encoded = clf.tokenizer([" ".join(sentences)], return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping")[0].numpy()
    ends = np.cumsum([len(sentence) + 1 for sentence in sentences])
    sentence_of = np.searchsorted(ends, offsets[:, 0], side="right")
    sentence_of[offsets[:, 0] == offsets[:, 1]] = len(sentences)  # special tokens
    exact = attribute(clf.model, encoded, "loo")
    for share in SHARES:
        for name, groups in (("sentences", torch.tensor(sentence_of)[None]), ("neighbours", None)):
            options = {"budget": int(share * len(offsets)), "groups": groups}
            found = attribute(clf.model, encoded, "loo", target=exact.target, **options)
            maps = [x.relevance.double().numpy() for x in (found, exact)]
            r = pearson(*maps, np.ones_like(maps[0], dtype=bool))[0]
            tops = [set(np.argsort(-abs(x[0]))[:LARGEST]) for x in maps]
            yield name, share, r, len(set.intersection(*tops)) / LARGEST


def table() -> Iterator[str]:
    """Lines in Markdown, with 95 % bootstrap intervals."""
    clf, found = models.load("embedded"), {}
    for sentences in documents():
        for name, share, *values in measured(clf, sentences):
            found.setdefault((share, name), []).append(values)
    yield "| passes / tokens | groups | r | ten largest |"
    yield "|--:|---|--:|--:|"
    for (share, name), values in found.items():
        means = (bootstrap_mean(np.array(x), seed=0) for x in zip(*values, strict=True))
        shown = " | ".join(f"{m.mean:.2f} [{m.low:.2f}, {m.high:.2f}]" for m in means)
        yield f"| {share:.2f} | {name} | {shown} |"


if __name__ == "__main__":
    for line in table():
        print(line, flush=True)
