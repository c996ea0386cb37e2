"""``python -m benchmarks.research.pairs`` compares estimated pairs with exact pairs of texts.

It also prints how much single tokens, groups and pairs explain.  Texts of more than ``LONGEST``
tokens are left out, because each exact pair takes a pass.
"""

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lrp_axioms import interactions
from lrp_axioms.benchmarks.running.timing import one_thread
from lrp_axioms.benchmarks.sources import data, models
from lrp_axioms.numeric.evaluation.correlation import bootstrap_mean

LONGEST, FEWEST, TOP = 30, 8, 10
WAYS = (
    "estimates alone",
    "n/2 pairs with the largest estimates left out",
    "n pairs with the largest estimates left out",
    "oracle: the n largest pairs left out",
    "oracle: the n pairs with the largest errors left out",
)


@dataclass(frozen=True)
class Compared:
    """Estimates beside exact pairs of texts.

    r, top: (text, way) of ``WAYS``, Pearson's r over all pairs, and how many of the ``TOP`` largest
    pairs are among the ``TOP`` largest of the way   explained: (text, 3), shares of the variance by
    tokens, groups and pairs   sizes: (text,) the sum of |I| over the sum of |LOO|
    """

    r: np.ndarray
    top: np.ndarray
    explained: np.ndarray
    sizes: np.ndarray

    def rows(self) -> Iterator[list[str]]:
        """Yields the way, its mean r with a 95 % bootstrap interval, and its mean count."""
        for way, r, top in zip(WAYS, self.r.T, self.top.T, strict=True):
            x = bootstrap_mean(r, seed=0)
            yield [way, f"{x.mean:.3f} [{x.low:.3f}, {x.high:.3f}]", f"{top.mean():.1f}"]


def compare(classifier: models.Classifier, texts: Sequence[str]) -> Compared:
    """Measures the texts of ``FEWEST`` to ``LONGEST`` tokens, for their predicted classes."""
    found = []
    for text in texts:
        if FEWEST <= len(classifier.tokenizer(text)["input_ids"]) <= LONGEST:
            how = (classifier.model, classifier.tokenizer, text)
            exact = interactions(*how)
            guess = interactions(*how, pairs="estimated", budget=0)
            upper = np.triu_indices(len(exact.pairs), 1)
            truth, estimate = (x.pairs.double().numpy()[upper] for x in (exact, guess))
            ways = list(_ways(truth, estimate, len(exact.pairs)))
            r = [np.corrcoef(truth, x)[0, 1] for x in ways]
            top = [len(_largest(truth, TOP) & _largest(x, TOP)) for x in ways]
            sizes = np.abs(truth).sum() / exact.relevance.abs().sum().item()
            found.append((r, top, list(exact.explained.values()), sizes))
    return Compared(*map(np.array, zip(*found, strict=True)))


def _ways(truth: np.ndarray, estimate: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Yields the pairs by each of ``WAYS``: exact where a pair is left out, else estimated."""
    yield estimate
    chosen = (estimate, count // 2), (estimate, count), (truth, count), (truth - estimate, count)
    for by, most in chosen:
        known = np.isin(np.arange(len(truth)), list(_largest(by, most)))
        yield np.where(known, truth, estimate)


def _largest(values: np.ndarray, count: int) -> set[int]:
    """Returns the places of the largest values by size."""
    return {*np.argsort(-np.abs(values), kind="stable")[:count].tolist()}


def parsed() -> tuple[models.Classifier, Sequence[str]]:
    """Returns the model in float64 and the texts that the arguments name."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--dataset", default="sst2", help="sst2 or imdb")
    parser.add_argument("--data-dir", type=Path, help="folder of the data set; otherwise the Hub")
    parser.add_argument("--examples", type=int)
    given = parser.parse_args()
    texts = data.load(given.dataset, data_dir=given.data_dir)
    classifier = models.load(given.model)
    classifier.model.double()
    return classifier, texts.first(given.examples).texts


@one_thread()
def main() -> None:
    found = compare(*parsed())
    print(f"{len(found.r)} texts; r with the exact pairs, and how many of the {TOP} largest")
    for row in found.rows():
        print(": ".join(row))
    print("median shares of tokens, groups, pairs:", np.median(found.explained, axis=0).round(2))
    print(f"sum of |I| over sum of |LOO|: {found.sizes.mean():.2f}")


if __name__ == "__main__":
    main()
