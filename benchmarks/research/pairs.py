"""``python -m benchmarks.research.pairs`` compares estimated pairs with exact pairs of texts.

It also prints how much single tokens, groups and pairs explain.  Texts of more than 30 tokens are
left out, because exact pairs take a pass each.
"""

from argparse import ArgumentParser

import numpy as np

from lrp_axioms import interactions
from lrp_axioms.benchmarks.research.specifications import parsed
from lrp_axioms.benchmarks.running.threads import one_thread
from lrp_axioms.numeric.evaluation.correlation import bootstrap_mean
from lrp_axioms.numeric.methods.pair_losses import largest

LONGEST, FEWEST, TOP = 30, 8, 10
BUDGETS = (0, 0.5, 1)  # pairs that are left out, for each token


def agreement(found, exact) -> tuple[float, float]:
    """Returns r of all pairs, and how many of the ``TOP`` largest ones are found."""
    places = np.triu_indices(len(exact.pairs), 1)
    r = np.corrcoef(*(x.pairs.numpy()[places] for x in (found, exact)))[0, 1]
    top = [{tuple(x) for x in largest(each.pairs, TOP).mT.tolist()} for each in (found, exact)]
    return r, len(top[0] & top[1])


@one_thread()
def main() -> None:
    _, classifier, texts = parsed(ArgumentParser(description=__doc__))
    rows, shares, sums = [], [], []
    for text in texts.texts:
        tokens = len(classifier.tokenizer(text)["input_ids"])
        if not FEWEST <= tokens <= LONGEST:
            continue
        exact = interactions(classifier.model, classifier.tokenizer, text)
        estimates = [
            interactions(
                classifier.model, classifier.tokenizer, text, target=int(exact.target[0]),
                pairs="estimated", budget=round(share * tokens),
            )
            for share in BUDGETS
        ]  # fmt: skip
        rows.append([agreement(x, exact) for x in estimates])
        shares.append(list(exact.explained.values()))
        sums.append(float(exact.pairs.abs().sum() / 2 / exact.relevance.abs().sum()))
    r, top = np.moveaxis(np.array(rows), 2, 0)
    print(f"{len(rows)} texts")
    for share, own, found in zip(BUDGETS, r.T, top.T, strict=True):
        print(
            f"{share} n pairs left out: r {bootstrap_mean(own, seed=0)}; "
            f"{found.mean():.2f} of the {TOP} largest"
        )
    print("median shares of tokens, groups, pairs:", np.median(shares, axis=0).round(2))
    print(f"sum of |I| over sum of |LOO|: {np.mean(sums):.2f}")


if __name__ == "__main__":
    main()
