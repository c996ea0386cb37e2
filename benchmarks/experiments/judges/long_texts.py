"""``python -m benchmarks.experiments.judges.long_texts MODEL``: what to leave out of long texts.

Training reviews of IMDB are joined until they have so many tokens.  At equal numbers of forward
passes beside those of mask relevance, it compares three ways to spend them: on single tokens, as
``numeric.methods.budgeted_loo`` does; half of them on chunks of neighbours, whose losses mask
relevance shares out among their tokens; and on groups without mask relevance (``by_groups``).
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from benchmarks.sources import data, models
from numeric import attribute
from numeric.evaluation.correlation import pearson
from numeric.inputs import prepare, read_tokens
from numeric.methods.budgeted_loo import flow_of
from numeric.methods.loo import losses
from numeric.methods.memory_budget import AUTO
from numeric.readout import Readout

BUDGETS = (16, 32, 64, 128)
SEED = 0


def joined(
    classifier: models.Classifier, texts: data.Texts, *, tokens: int, count: int
) -> Iterator[dict[str, Tensor]]:
    """Texts of so many ``tokens``, of reviews of one label each, which alternate."""
    words = classifier.tokenizer
    order = np.random.default_rng(SEED).permutation(len(texts.texts))
    left = {label: [texts.texts[n] for n in order if texts.labels[n] == label] for label in (0, 1)}
    for n in range(count):
        ids: list[int] = []
        while len(ids) < tokens - 2:
            part = words(left[n % 2].pop(), add_special_tokens=False, verbose=False)
            ids += part["input_ids"]
        whole = torch.tensor([[words.cls_token_id, *ids[: tokens - 2], words.sep_token_id]])
        yield {"input_ids": whole, "attention_mask": torch.ones_like(whole)}


def agreement(classifier: models.Classifier, inputs: dict[str, Tensor]) -> dict[tuple, float]:
    """r with exact Leave-One-Out of one text, by passes and by what they are spent on; seconds."""
    model, start = classifier.model, time.process_time()
    base = attribute(model, inputs, "mask-relevance", heads=True)
    middle = time.process_time()
    exact = attribute(model, inputs, "loo", base.target).relevance[0]
    seconds = {
        (0, "CPU seconds of mask relevance"): middle - start,
        (len(exact), "CPU seconds of Leave-One-Out"): time.process_time() - middle,
    }
    guess, flow = base.relevance[0].to(exact.dtype), flow_of(base.details)[0]
    flow[read_tokens(model, prepare(model, inputs))] = torch.inf
    order = flow.argsort(descending=True, stable=True)
    r = lambda found: float(_pearson(found, exact))
    found = {(0, "mask relevance"): r(guess)}
    for budget in BUDGETS:
        found[budget, "single tokens"] = r(_known(guess, exact, order[:budget]))
        shared = _shared(classifier, inputs, base.target, guess, budget // 2)
        found[budget, "chunks and tokens"] = r(_known(shared, exact, order[: budget // 2]))
        grouped = attribute(model, inputs, "loo", base.target, budget=budget)
        found[budget, "groups alone"] = r(grouped.relevance[0])
    return found | seconds


def _pearson(a, b):
    return pearson(*(x.double().numpy()[None] for x in (a, b)), np.ones((1, len(a)), dtype=bool))[0]


def _known(guess, exact, tokens):
    return guess.index_copy(0, tokens, exact[tokens])


def _shared(classifier, inputs, target, guess, count):
    """Relevance that adds up to what each of ``count`` chunks loses, by the size of ``guess``."""
    batch = prepare(classifier.model, inputs, targets=[target])
    readout = Readout.of(classifier.model, batch, [target])
    limits = {"batch_size": 128, "memory": AUTO}
    texts = losses(classifier.model, batch, readout, removal="attention-mask", **limits)
    chunk = torch.arange(len(guess)) * count // len(guess)
    inside = one_hot(chunk, count)
    lost = texts.without(torch.zeros(count, dtype=torch.long), inside.T.bool())[:, 0]
    inside = inside.to(guess.dtype)
    share = guess.abs() / (guess.abs() @ inside)[chunk]
    return guess + share * (lost - guess @ inside)[chunk]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a table in Markdown, with a column for each text."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--examples", type=int, default=4)
    options = parser.parse_args(arguments)
    texts = data.load("imdb", data_dir=options.data_dir, training=True)
    for name in options.models:
        classifier, found = models.load(name), []
        asked = {"tokens": options.tokens, "count": options.examples}
        for inputs in joined(classifier, texts, **asked):
            found.append(agreement(classifier, inputs))
        print(f"| {Path(name).name}: passes | spent on | r of each text |\n|--:|---|---|")
        for budget, way in found[0]:
            shown = " ".join(f"{each[budget, way]:.3f}" for each in found)
            print(f"| {budget} | {way} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
