"""``python -m benchmarks.experiments.canonized.held MODEL ...``: by which way a token counts.

Leave-One-Out masks a token in every layer, and what later layers compute of the rest changes with
it: their values, and by queries and keys their attention weights.  Here values, or queries and
keys, or all of them are held as they are for the whole text, while the mask acts as always.  What
is left of Leave-One-Out says how much of it goes through scores and how much through values, and
rules are judged by each of these parts.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.experiments import arguments, text
from benchmarks.experiments.canonized.blocks import Attend, Blocks, explained, shared
from benchmarks.experiments.columns import interval
from benchmarks.experiments.maps import means
from benchmarks.sources import data, models
from numeric.evaluation.correlation import pearson

LOO, VALUES = "Leave-One-Out", "scores held"
FOLLOW = {
    LOO: (True, True, True),
    VALUES: (False, False, True),
    "values held": (True, True, False),
    "both held": (False, False, False),
}
"""Whether the Q, K and V of every layer follow the removal of a token."""


@torch.inference_mode()
def leave_one_out(model: torch.nn.Module, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What the predicted logit loses without each token, (token,), by what follows the removal.

    inputs: one text without padding
    """
    kept = []

    def keep(attend: Attend, *operands: Tensor) -> Tensor:
        kept.append(operands)
        return attend(*operands)

    with Blocks(keep):
        (whole,) = model(**inputs).logits
    target = whole.argmax()
    count = inputs["input_ids"].shape[1]
    copies = {key: x.expand(count, -1) for key, x in inputs.items()}
    copies["attention_mask"] = 1 - torch.eye(count, dtype=torch.long)
    found = {}
    for name, follows in FOLLOW.items():
        with Blocks(_held(kept, follows)):
            found[name] = whole[target] - model(**copies).logits[:, target]
    return found


def _held(kept, follows):
    of_layer = iter(kept)

    def act(attend, *operands):
        each = zip(operands, next(of_layer), follows, strict=True)
        return attend(*(new if free else old.expand_as(new) for new, old, free in each))

    return act


def parts(model: torch.nn.Module, inputs: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    """Pairs of maps that are compared, (token,) each, of one text.

    "the rest" is what goes through scores: Leave-One-Out less what it is with scores held.
    """
    loo = leave_one_out(model, inputs)
    by_values, all_ways = (
        explained(model, inputs, shared(*each)).relevance[0] for each in ((0, 0, 1), (1, 1, 1))
    )
    of_scores = loo[LOO] - loo[VALUES]
    return {
        **{f"{name}, with {LOO}": (loo[name], loo[LOO]) for name in FOLLOW if name != LOO},
        f"the rest, with {LOO}": (of_scores, loo[LOO]),
        f"(0, 0, 1), with {VALUES}": (by_values, loo[VALUES]),
        "(1, 1, 1) less (0, 0, 1), with the rest": (all_ways - by_values, of_scores),
    }


def table(name: str, classifier: models.Classifier, texts: data.Texts) -> Iterator[str]:
    """Mean r of each pair, and the size of a part in units of Leave-One-Out, in Markdown."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for n in range(len(texts.texts)):
        inputs, special = text.in_batch(classifier, texts, [n])
        for pair, maps in parts(classifier.model, inputs).items():
            one, other = (x.double().numpy()[None] for x in maps)
            r = [
                pearson(one, other, keep)[0] for keep in (special.numpy() | True, ~special.numpy())
            ]
            size = np.abs(one).sum() / np.abs(other).sum() if pair.endswith(LOO) else np.nan
            found.setdefault(pair, []).append((*r, size))
    for pair, values in found.items():
        row = means(dict(zip(HEAD[2:], np.array(values).T, strict=True)))
        yield f"| {' | '.join([name, pair, *(interval(key)(row) for key in HEAD[2:])])} |"


HEAD = ("model", "maps", "r, all", "r, content", "size")


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table in Markdown."""
    options = arguments.parser(main.__doc__, dataset="embedded").parse_args(argv)
    texts = arguments.first_texts(options)
    print(f"| {' | '.join(HEAD)} |\n|---|---|--:|--:|--:|")
    for name in options.models:
        for line in table(Path(name).name, models.load(name), texts):
            print(line, flush=True)


if __name__ == "__main__":
    main()
