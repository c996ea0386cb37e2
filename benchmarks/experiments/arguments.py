"""What scripts ask for that compare several classifiers on the texts of one data set."""

from argparse import ArgumentParser, Namespace
from collections.abc import Collection
from pathlib import Path

from benchmarks.sources import data

WITH_TRAINING = ("sst2", "imdb")  # data sets that have training texts, too


def parser(
    description: str | None,
    *,
    dataset: str = "sst2",
    datasets: Collection[str] = data.DATASETS,
    examples: int | None = None,
) -> ArgumentParser:
    """MODEL ..., --dataset, --data-dir and --examples (None: all), with these defaults."""
    made = ArgumentParser(description=description)
    made.add_argument("models", nargs="+", metavar="MODEL")
    made.add_argument("--dataset", choices=datasets, default=dataset)
    made.add_argument("--data-dir", type=Path)
    made.add_argument("--examples", type=int, default=examples)
    return made


def first_texts(options: Namespace) -> data.Texts:
    """The first texts that were asked for, of those that a table reports."""
    return data.load(options.dataset, data_dir=options.data_dir).first(options.examples)
