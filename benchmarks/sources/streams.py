"""Texts of any number, one after the other: of a file, a URL, or a Hugging Face data set."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from lrp_axioms.axioms.extras import need
from lrp_axioms.benchmarks.errors import UnavailableError, first_line
from lrp_axioms.benchmarks.sources.faults import ColumnError, places, sound, text_fault
from lrp_axioms.benchmarks.sources.files import is_url, stream
from lrp_axioms.benchmarks.sources.parquet import BATCH

HUB = "hub:"
SAVED = ("state.json", "dataset_dict.json")  # save_to_disk leaves one of them in its folder
SPLIT = "train"  # where nobody names another one
ADVICE = "mend the file, or pass another --text-column"
UNLOADABLE = (OSError, ValueError, RuntimeError, KeyError)


def texts(place: str, *, column: str = "text", split: str | None = None) -> Iterator[str]:
    """Yields the texts at ``place`` unchanged, and reads them one by one.

    ``place``: a file, or its URL, of a kind in ``files.READERS``; or, to read its ``split``,
    "hub:NAME" or "hub:NAME@REVISION" of the Hugging Face Hub, or a folder that ``save_to_disk`` of
    its data sets wrote.
    Raises ValueError that lists lines or rows without a text, and UnavailableError for a data set
    that cannot be loaded.
    """
    if not is_data_set(place):
        if split:
            raise ValueError(f"--split {split} would be ignored: {place} is no data set of splits")
        for (text,) in stream(place, [column], text_fault, advice=ADVICE):
            yield text
        return
    found = (text for (text,) in rows(place, [column], split=split))
    yield from sound(found, place, unit="row", advice=ADVICE)


def is_data_set(place: str) -> bool:
    folder = not is_url(place) and Path(place).is_dir()
    return place.startswith(HUB) or (folder and any((Path(place) / x).exists() for x in SAVED))


def rows(place: str, columns: Sequence[str], *, split: str | None) -> Iterator[tuple]:
    """Yields the values of ``columns`` of the data set at ``place``, with a few rows in memory.

    Raises UnavailableError if it cannot be loaded, and ValueError for a column that it lacks.
    """
    name, _, revision = place.removeprefix(HUB).partition("@")
    need(f"data set {name!r}", "datasets")
    import datasets  # seconds, which local texts do without

    try:
        if place.startswith(HUB):
            chosen = {"revision": revision or None}
            kept = _snapshot(name, **chosen) or name
            found = datasets.load_dataset(kept, **chosen, split=split or SPLIT, streaming=True)
        else:
            found = datasets.load_from_disk(place)
            if isinstance(found, datasets.DatasetDict):
                found = found[split or SPLIT]
            elif split not in (None, str(found.split or split)):  # a split may have no name
                raise ValueError(f"it has the split {found.split} alone, and no {split}")
        if found.column_names:  # some streams do not say them
            places(found.column_names, columns)
            found = found.select_columns(list(columns))  # others, such as sound, are not decoded
        for batch in found.iter(BATCH):
            places(list(batch), columns)
            yield from zip(*(batch[key] for key in columns), strict=True)
    except ColumnError as error:
        raise ValueError(f"data set {name!r} has {error}; {ADVICE}") from error
    except (*UNLOADABLE, datasets.exceptions.DatasetsError) as error:
        raise UnavailableError(
            f"data set {name!r} could not be loaded from "
            f"{'the Hugging Face Hub' if place.startswith(HUB) else 'its folder'}: "
            f"{first_line(error)}; pass one that can be read, such as a folder that save_to_disk "
            "wrote, or a file of texts"
        ) from error


def _snapshot(name, revision):
    """Returns a data set's folder in the Hub's cache, where ``datasets`` does not look, or None."""
    from huggingface_hub import constants, errors, snapshot_download

    options = {"repo_type": "dataset", "revision": revision, "local_files_only": True}
    with suppress(errors.LocalEntryNotFoundError):
        return snapshot_download(name, **options) if constants.HF_HUB_OFFLINE else None
