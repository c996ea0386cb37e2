"""Labelled texts by name: embedded sentences, SST-2 and IMDB, from the Hub or a local folder."""

import hashlib
import json
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lrp_axioms.benchmarks.errors import UnavailableError, first_line
from lrp_axioms.benchmarks.sources import faults, files, streams
from lrp_axioms.benchmarks.sources.pins import PINS
from lrp_axioms.numeric.spelling import check_known

EMBEDDED = Path(__file__).parents[1] / "assets" / "sentences.tsv"


@dataclass(frozen=True)
class Source:
    """One data set: its place on the Hub and in a local folder, and its use in the paper."""

    hub: str
    revision: str  # a commit of the Hub
    split: str
    text: str  # name of the text column
    files: list[str]  # in --data-dir; the first that exists is read
    training: list[str]  # the same for the split "train"
    paper: str  # the block of Table 2 it answers
    chunk: int = 1  # tokens removed per step of a perturbation curve (Appendix B.1.2)


@dataclass(frozen=True)
class Texts:
    """Texts with labels in file order, and the digest of both."""

    name: str
    texts: tuple[str, ...]
    labels: tuple[int | None, ...]
    origin: str
    paper: str
    chunk: int

    @property
    def config(self) -> str:
        """The data set whose rows of ``configs`` apply."""
        return "imdb" if self.paper == "IMDB" else "sst2"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(json.dumps([self.texts, self.labels]).encode()).hexdigest()

    def first(self, examples: int | None) -> "Texts":
        """The first ``examples`` texts, or all."""
        if examples is not None and examples < 1:
            raise ValueError(f"examples={examples}: pass at least 1")
        return replace(self, texts=self.texts[:examples], labels=self.labels[:examples])


SOURCES = {name: Source(**found) for name, found in PINS["datasets"].items()}
DATASETS = ("embedded", *SOURCES)


def load(name: str = "embedded", *, data_dir: Path | None = None, training: bool = False) -> Texts:
    """Loads the data set ``name`` from ``data_dir``, or else from the Hub ("embedded": neither).

    ``training``: returns the training texts, in place of the test texts.
    Texts lose the blanks at their ends, which SST-2 has after each.
    Raises ValueError for an unknown name or a broken file, UnavailableError for a missing one.
    """
    if name == "embedded":
        if data_dir is not None:
            raise ValueError(
                f"--data-dir {data_dir} would be ignored: the embedded sentences come with the "
                f"program; leave it out, or pass --dataset {' or '.join(SOURCES)}"
            )
        if training:
            raise ValueError(
                f"the embedded sentences are no texts to learn from; pass {' or '.join(SOURCES)}"
            )
        return _texts(name, _read(EMBEDDED, "sentence"), "embedded", "SST", 1)
    check_known("data set", [name], DATASETS)
    source = SOURCES[name]
    if training:
        source = replace(source, split="train", files=source.training)
    if data_dir is not None:
        path = _find(source, Path(data_dir))
        found, origin = _read(path, source.text), path.name
    else:
        origin = f"{streams.HUB}{source.hub}@{source.revision}"
        found = _download(source, origin)
    if name == "imdb":
        found = _alternate(found)
    return _texts(name, found, origin, source.paper, source.chunk)


def unlabelled(name: str, texts: Sequence[str]) -> Texts:
    """Wraps a user's own texts, which have no labels."""
    return Texts(name, tuple(texts), (None,) * len(texts), origin=name, paper="", chunk=1)


def _texts(name, rows, origin, paper, chunk):
    texts, labels = zip(*rows, strict=True)
    return Texts(name, texts, labels, origin, paper, chunk)


def _alternate(rows):
    """Alternates labels: the original file has one label first, and runs take the first N."""
    by_label = [[row for row in rows if row[1] == label] for label in (0, 1)]
    size = max(map(len, by_label))
    return [group[n] for n in range(size) for group in by_label if n < len(group)]


def _find(source, folder):
    if not folder.is_dir():
        raise UnavailableError(f"--data-dir {folder}: no such folder")
    for name in source.files:
        if (folder / name).is_file():
            return folder / name
    raise UnavailableError(
        f"--data-dir {folder} has none of {', '.join(source.files)}; leave --data-dir out to "
        "load from the Hugging Face Hub, or pass --dataset embedded"
    )


def _read(path, column):
    advice = f"it must have the columns {column!r} and 'label', which is 0 or 1"
    return [_row(*pair) for pair in files.records(path, (column, "label"), _fault, advice=advice)]


def _fault(text, label):
    wrong = None if str(label) in ("0", "1") else f"label {reprlib.repr(label)}"
    return faults.text_fault(text) or wrong


def _row(text, label):
    if fault := _fault(text, label):
        raise ValueError(fault)
    return text.strip(), int(label)


def _download(source, place):
    try:
        rows = streams.rows(place, (source.text, "label"), split=source.split)
        return [_row(*pair) for pair in rows]
    except (UnavailableError, ValueError) as error:
        raise UnavailableError(
            f"{first_line(error)}\nWithout data set {source.hub!r} of the Hub, pass --data-dir "
            f"FOLDER with {' or '.join(source.files)} in it, or --dataset embedded."
        ) from error
