"""MNIST at 14×14, from the Hugging Face Hub or from a local `mnist.npz`."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lrp_axioms.axioms.extras import need
from lrp_axioms.benchmarks.errors import UnavailableError, first_line
from lrp_axioms.benchmarks.sources.pins import PINS
from lrp_axioms.benchmarks.sources.streams import UNLOADABLE

HUB, REVISION = PINS["images"]["mnist"].values()
FILE = "mnist.npz"
SPLITS = ("train", "test")
LARGE = 2**28  # bytes of all arrays: five times the size of MNIST


@dataclass(frozen=True, kw_only=True)
class Images:
    """Pixels (example, token) in [0, 1], float64, and labels (example,), by split."""

    pixels: dict[str, Tensor]
    labels: dict[str, Tensor]
    origin: str

    @property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        for split in SPLITS:
            digest.update(self.pixels[split].numpy().tobytes())
            digest.update(self.labels[split].numpy().tobytes())
        return digest.hexdigest()


def load(*, data_dir: Path | None = None) -> Images:
    """Loads MNIST from ``data_dir``/mnist.npz if given, else from the Hub, as 14×14 pixels.

    Raises UnavailableError for a missing file, and ValueError for a file that is broken or has
    arrays of another kind.
    """
    if data_dir is None:
        arrays, origin = _download(), f"hub:{HUB}@{REVISION}"
    else:
        path = Path(data_dir) / FILE
        arrays, origin = _read(path), path.name
    parts = {split: _split(arrays, split, data_dir, origin) for split in SPLITS}
    return Images(
        pixels={split: quarter(images) for split, (images, _) in parts.items()},
        labels={
            split: torch.from_numpy(labels.astype(np.int64)) for split, (_, labels) in parts.items()
        },
        origin=origin,
    )


def quarter(images: np.ndarray) -> Tensor:
    """Averages 2×2 blocks: (example, 28, 28) uint8 -> (example, 196) float64 in [0, 1]."""
    blocks = images.reshape(-1, 14, 2, 14, 2).astype(np.float64)
    return torch.from_numpy(blocks.mean(axis=(2, 4)).reshape(-1, 196) / 255)


def _read(path):
    if not path.is_file():
        raise UnavailableError(
            f"{path}: no such file; put {FILE} there (x_train, y_train, x_test, y_test), or leave "
            "--data-dir out to load from the Hugging Face Hub"
        )
    try:
        with path.open("rb") as stream:
            file = np.load(stream, allow_pickle=False)
            if isinstance(file, np.ndarray):
                raise ValueError("one array without a name")
            if sum(part.file_size for part in file.zip.infolist()) > LARGE:
                raise ValueError(f"more than {LARGE} bytes")
            return {name: np.asarray(file[name]) for name in file.files}
    except Exception as error:  # NumPy, zipfile and its compressors raise some fifteen kinds
        raise ValueError(
            f"{path} is truncated or broken ({first_line(error)}); get the file again"
        ) from error


def _split(arrays, split, data_dir, origin):
    """Checks and returns images and labels of a split."""
    where = origin if data_dir is None else Path(data_dir) / FILE
    names = [f"{letter}_{split}" for letter in "xy"]
    if missing := [name for name in names if name not in arrays]:
        raise ValueError(
            f"{where} has no {' and no '.join(missing)}, only {', '.join(arrays) or 'nothing'}: "
            "get the file again"
        )
    images, labels = (arrays[name] for name in names)
    fits = images.ndim == 3 and images.shape[1:] == (28, 28) and images.dtype == np.uint8
    if not fits or not len(images):
        raise ValueError(
            f"{where}: {names[0]} is {images.dtype} of shape {images.shape}; it must be uint8 of "
            "shape (n, 28, 28)"
        )
    fits = labels.shape == images.shape[:1] and labels.dtype.kind in "iu"
    if not fits or not np.isin(labels, range(10)).all():
        raise ValueError(
            f"{where}: {names[1]} is {labels.dtype} of shape {labels.shape}; it must be one digit "
            f"from 0 to 9 for each of the {len(images)} images"
        )
    return images, labels


def _download():
    need(f"data set {HUB!r} of the Hub", "datasets")
    import datasets  # seconds, which a local file does without

    try:
        found = datasets.load_dataset(HUB, revision=REVISION)
        arrays = {}
        for split in found:
            arrays[f"x_{split}"] = np.stack([np.asarray(image) for image in found[split]["image"]])
            arrays[f"y_{split}"] = np.asarray(found[split]["label"])
        return arrays
    except (*UNLOADABLE, datasets.exceptions.DatasetsError) as error:
        raise UnavailableError(
            f"data set {HUB!r} could not be loaded from the Hugging Face Hub: "
            f"{first_line(error)}\nWithout a network, pass --data-dir FOLDER with {FILE} in it."
        ) from error
