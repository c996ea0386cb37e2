"""Lays relevance of patches over an image: red speaks for the explained number, blue against it."""

import io
from base64 import b64encode
from collections.abc import Sequence

import numpy as np

from lrp_axioms.axioms.extras import need

INK = 0.6  # of the strongest patch


def of_each(
    images: Sequence[object], relevance: Sequence[Sequence[float]], grid: tuple[int, int]
) -> Sequence[np.ndarray]:
    """Lays relevance over an image of each example."""
    if len(images) != len(relevance):
        raise ValueError(f"{len(images)} images for {len(relevance)} examples; pass one of each")
    return [overlay(x, r, grid) for x, r in zip(images, relevance, strict=True)]


def sides(
    known: Sequence[int] | None, grid: Sequence[int] | None, positions: int
) -> tuple[int, int]:
    """Returns rows and columns of patches: the known ones, or a grid of all positions."""
    if grid is None and known is None:
        raise ValueError(
            "places of patches are not known: pass grid=(rows, columns) if there is one image "
            "per example and its patches stand row by row"
        )
    match known if grid is None else grid:
        case [int(rows), int(columns)] if rows > 0 and (
            [rows, columns] == known if known else rows * columns == positions
        ):
            return rows, columns
    raise ValueError(
        f"grid={grid!r}: {positions} positions have patches in the grid "
        f"{tuple(known) if known else '(rows, columns) of as many'}; pass this one"
    )


def overlay(image: object, relevance: Sequence[float], grid: tuple[int, int]) -> np.ndarray:
    """Tints each patch of ``image``, (height, width, 3) from 0 to 255, by its relevance.

    ``grid`` is (rows, columns).  Positions before it, such as a class token, are no part of the
    image.  A hatched patch is against.
    Raises ValueError for another shape of the image, and for a grid of more positions.
    """
    pixels = np.asarray(image)
    rows, columns = grid
    fits = pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.size
    if not fits or not 0 < rows * columns <= len(relevance):
        raise ValueError(
            f"image of shape {pixels.shape}, {rows} x {columns} patches, {len(relevance)} of them "
            'known: pass image.convert("RGB"), and grid=(rows, columns) of at most as many patches'
        )
    least, most = pixels.min(), pixels.max()
    if not 0 <= least <= most <= 255 or (pixels.dtype.kind == "f" and 0 < most <= 1):
        raise ValueError(f"image has values from {least} to {most}: pass them from 0 to 255")
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
