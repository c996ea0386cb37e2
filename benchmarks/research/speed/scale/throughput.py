"""Pace of ``attribute``, and gain of a second worker, as ratios within one run.

python -m benchmarks.research.speed.scale.throughput [FILE] [--base] [--workers]

The pace is measured in processor time, which other programs hardly change, by a loop of gradient ×
input over batches of 64 texts in the order of their lengths, which writes nothing.  --workers
measures two workers of Ray against one on the clock, which means something on an idle machine
alone.
"""

import argparse
import copy
import itertools
import os
import statistics
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification

from lrp_axioms.benchmarks.experiments import explained, text
from lrp_axioms.benchmarks.running.timing import alternate, one_thread, plain_gradient
from lrp_axioms.benchmarks.running.workers import IN_PROCESS, Engine
from lrp_axioms.benchmarks.sources import data, models, streams

BATCH = 64  # texts: the loop over lines of SST-2 is fastest with so many


def sentences(count: int, file: str | None = None) -> list[str]:
    """Reads the first texts of a file, or repeats the embedded sentences."""
    found = streams.texts(file) if file else itertools.cycle(data.load().texts)
    chosen = list(itertools.islice(found, count))
    if len(chosen) < count:
        raise SystemExit(f"{file} has {len(chosen)} texts; pass no more as --texts")
    return chosen


def ours(classifier: models.Classifier, texts: list[str], *, engine: Engine = IN_PROCESS) -> None:
    """Explains texts with a copy of the model, because a command has no recorded operations yet."""
    classifier = replace(classifier, model=copy.deepcopy(classifier.model))
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "found"
        explained.explain_texts(classifier, texts, name="embedded", output=output, engine=engine)


def gradient(classifier: models.Classifier, texts: list[str]) -> None:
    """Explains batches by gradient × input: all texts by length, so that padding is rare."""
    cut = {"truncation": True, "max_length": text.limit(classifier.model)}
    tokens = sorted(classifier.tokenizer(texts, **cut)["input_ids"], key=len)
    for start in range(0, len(tokens), BATCH):
        batch = {"input_ids": tokens[start : start + BATCH]}
        inputs = classifier.tokenizer.pad(batch, return_tensors="pt")
        plain_gradient(classifier.model, inputs)


def of_base_size() -> models.Classifier:
    """Returns the embedded classifier with random weights in the shape of BERT-base."""
    found = models.load()
    torch.manual_seed(0)
    config = BertConfig(vocab_size=found.model.config.vocab_size)
    return replace(found, model=BertForSequenceClassification(config).eval())


def pace(classifier: models.Classifier, texts: list[str], repeats: int) -> list[float]:
    functions = {x.__name__: partial(x, classifier, texts) for x in (ours, gradient)}
    how = {"repeats": repeats, "clock": time.process_time, "device": "cpu"}
    one, other = alternate(functions, **how).values()
    return [b / a for a, b in zip(one, other, strict=True)]


def workers(classifier: models.Classifier, texts: list[str], repeats: int) -> list[float]:
    """Divides the pace of two workers by the pace of one, per repeat."""
    pairs = ([rate(number, classifier, texts) for number in (1, 2)] for _ in range(repeats))
    return [two / one for one, two in pairs]


def rate(number: int, classifier: models.Classifier, texts: list[str]) -> float:
    """Returns texts per second of ``number`` Ray workers, after the first block of each.

    The first blocks of all workers end together, so that no time lies between them.
    """
    from lrp_axioms.benchmarks.running import cluster

    ray = cluster.library()
    ray.init("local", num_cpus=number, num_gpus=0, include_dashboard=False, log_to_driver=False)
    stamps = []

    def stamped(items, _description):
        for item in items:
            stamps.append((time.perf_counter(), item[0].lines))
            yield item

    with tempfile.TemporaryDirectory() as folder:
        output, engine = Path(folder) / "found", cluster.engine("ray", device="cpu")
        options = {"name": "embedded", "output": output, "engine": engine, "track": stamped}
        explained.explain_texts(classifier, texts, **options)
    ray.shutdown()
    if len(stamps) == number or len(stamps) % number:
        raise SystemExit(f"{number} workers do not share {len(stamps)} blocks; pass other --texts")
    (start, _), *later = stamps[number - 1 :]
    return sum(lines for _, lines in later) / (later[-1][0] - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="texts, in place of the embedded sentences")
    parser.add_argument("--texts", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--base", action="store_true", help="a model in the shape of BERT-base")
    parser.add_argument("--workers", action="store_true", help="two of Ray against one")
    chosen = parser.parse_args()
    measure, name = pace, "pace of attribute over a loop of gradient × input"
    if chosen.workers:
        measure, name = workers, "pace of two workers over one"
    print(f"{os.getloadavg()[0]:.1f} programs at work on {os.cpu_count()} cores")
    classifier = of_base_size() if chosen.base else models.load()
    with one_thread():
        found = measure(classifier, sentences(chosen.texts, chosen.file), chosen.repeats)
    print(f"{name}: {statistics.median(found):.3f} [{min(found):.3f}, {max(found):.3f}]")


if __name__ == "__main__":
    main()
