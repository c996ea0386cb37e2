"""``python -m benchmarks.experiments.judges.calibration MODEL ...``: errors and their estimates.

It says, on development or test texts, how often the errors of budgeted Leave-One-Out are what it
estimates, and what a tolerance costs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.experiments import arguments, text
from benchmarks.experiments.columns import interval
from benchmarks.experiments.maps import means
from benchmarks.sources import data, models
from numeric import attribute
from numeric.inputs import prepare, read_tokens
from numeric.methods.budgeted_loo import FIRST, by_rounds, flow_of

TOLERANCES = (0.2, 0.1, 0.05)  # logits
HEAD = (
    "| model | tolerance | tokens left out | of all | errors within their estimate "
    "| texts within the tolerance | largest error |\n|---|--:|--:|--:|--:|--:|--:|"
)


def calibration(name: str, classifier: models.Classifier, texts: data.Texts) -> Iterator[str]:
    """By tolerance: tokens left out and shares of tokens and texts, with intervals over texts."""
    found: dict[float | None, list[dict[str, Tensor]]] = {t: [] for t in (None, *TOLERANCES)}
    for _, inputs, _ in text.batches(classifier, texts):
        for tolerance, judged in measured(classifier, inputs, found).items():
            found[tolerance].append(judged)
    for tolerance, seen in found.items():
        row = means({key: torch.cat([x[key] for x in seen]).double().numpy() for key in seen[0]})
        shown = [name, str(tolerance), *(interval(key)(row) for key in seen[0])]
        yield f"| {' | '.join(shown)} |"


def measured(
    classifier: models.Classifier, inputs: Mapping[str, Tensor], tolerances: Iterable[float | None]
) -> dict[float | None, dict[str, Tensor]]:
    """What budgeted Leave-One-Out does by tolerance, ``judged`` by the exact losses.

    These are computed once, and what it leaves out is looked up among them.
    """
    model = classifier.model
    exact = attribute(model, inputs, "loo")
    base = attribute(model, inputs, "mask-relevance", exact.target, heads=True)
    guess, flow = base.relevance[None], flow_of(base.details)[None]
    present = inputs["attention_mask"] == 1
    read = read_tokens(model, prepare(model, inputs))
    first = torch.nn.functional.one_hot(read, present.shape[1]).bool()
    without = lambda example, part: exact.relevance[example, part.int().argmax(dim=1)][:, None]
    found = {}
    for tolerance in tolerances:
        budget = FIRST if tolerance is None else present.shape[1]
        (relevance,), (error,), known = by_rounds(
            without, present, guess, flow, first, budget=budget, tolerance=tolerance
        )
        found[tolerance] = judged(relevance, error, known, exact.relevance, present, tolerance)
    return found


def judged(
    relevance: Tensor,
    error: Tensor,
    known: Tensor,
    exact: Tensor,
    present: Tensor,
    tolerance: float | None,
) -> dict[str, Tensor]:
    """Of every text, in the order of ``HEAD``; NaN where all tokens were left out."""
    missed = (relevance - exact).abs()
    guessed = present & ~known
    within = ((missed <= error) & guessed).sum(dim=1) / guessed.sum(dim=1)
    largest = missed.amax(dim=1)
    count = known.sum(dim=1)
    return {
        "left out": count,
        "of all": count / present.sum(dim=1),
        "within": within,
        "texts": largest <= (error.amax(dim=1) if tolerance is None else tolerance),
        "largest": largest,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table in Markdown."""
    options = arguments.parser(main.__doc__).parse_args(argv)
    texts = arguments.first_texts(options)
    print(HEAD)
    for name in options.models:
        for line in calibration(Path(name).name, models.load(name), texts):
            print(line, flush=True)


if __name__ == "__main__":
    main()
