"""Lays relevance of patches over an image: red speaks for the explained number, blue against it."""

import io
from base64 import b64encode
from collections.abc import Sequence

import numpy as np

from lrp_axioms.axioms.extras import need

INK = 0.6  # of the strongest patch


def of_each(
    images: Sequence[object], relevance: Sequence[Sequence[float]], grid: Sequence[int]
) -> Sequence[np.ndarray]:
    """Lays relevance over an image of each example."""
    if len(images) != len(relevance):
        raise ValueError(f"{len(images)} images for {len(relevance)} examples; pass one of each")
    return [overlay(x, r, grid) for x, r in zip(images, relevance, strict=True)]


def overlay(image: object, relevance: Sequence[float], grid: Sequence[int]) -> np.ndarray:
    """Tints each patch of ``image``, (height, width, 3) from 0 to 255, by its relevance.

    ``grid`` is (rows, columns).  Positions before it, such as a class token, are no part of the
    image.  A hatched patch is against.
    Raises ValueError for another shape of the image, and for a grid of more positions.
    """
    pixels = np.asarray(image)
    rows, columns = grid
    if pixels.ndim != 3 or pixels.shape[2] != 3 or not 0 < rows * columns <= len(relevance):
        raise ValueError(
            f"image of shape {pixels.shape}, {rows} x {columns} patches, {len(relevance)} of them "
            'known: pass image.convert("RGB"), and grid=(rows, columns) of at most as many patches'
        )
    values = np.asarray(relevance, dtype=float)[-rows * columns :]
    y, x = (np.arange(n) * k // n for n, k in zip(pixels.shape, (rows, columns), strict=False))
    place = y[:, None] * columns + x
    ink = (np.abs(values) / (np.abs(values).max() or 1) * INK)[place][:, :, None]
    hatched = (values < 0)[place] & (np.add.outer(np.arange(len(y)), np.arange(len(x))) % 8 < 2)
    grey = pixels.mean(axis=2, keepdims=True) * (1 - 0.3 * hatched[:, :, None])
    tint = np.array([(255, 0, 0) if v >= 0 else (0, 0, 255) for v in values])[place]
    return np.asarray(((1 - ink) * grey + ink * tint).round(), dtype=np.uint8)


def address(picture: np.ndarray) -> str:
    """Returns a picture as an address that a page holds: a PNG in base64."""
    need("a picture", "matplotlib")
    from matplotlib.image import imsave

    file = io.BytesIO()
    imsave(file, picture, format="png")
    return f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"
