"""MNIST from a folder or the Hub at 14×14; every refusal names the file or the way without it."""

import io
import pickle
import struct
import zipfile

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from benchmarks.errors import UnavailableError
from benchmarks.experiments.table1 import images
from tests.support.invented_digits import arrays, save


def test_a_pixel_is_the_mean_of_four_in_0_to_1(tmp_path):
    content = arrays()
    save(tmp_path, content)
    found = images.load(data_dir=tmp_path)
    assert found.origin == "mnist.npz"
    for split in ("train", "test"):
        raw = content[f"x_{split}"]
        assert found.labels[split].tolist() == content[f"y_{split}"].tolist()
        assert found.pixels[split].shape == (len(raw), 196)
        for b, row, column in [(0, 0, 0), (1, 13, 13), (3, 2, 11)]:
            block = raw[b, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2] / 255
            assert found.pixels[split][b, 14 * row + column] == pytest.approx(block.mean())
    white = images.quarter(np.full((1, 28, 28), 255, dtype=np.uint8))
    assert torch.equal(white, torch.ones(1, 196, dtype=torch.float64))


def hub(folder, content, splits=("train", "test"), column="image"):
    """A repository in Hub layout: Parquet files of encoded images."""
    repository = folder / "repository"
    (repository / "data").mkdir(parents=True)
    (repository / "README.md").write_text("Invented digits.\n")
    features = datasets.Features({column: datasets.Image(), "label": datasets.Value("int64")})
    for split in splits:
        encoded = []
        for image in content[f"x_{split}"]:
            buffer = io.BytesIO()
            Image.fromarray(image).save(buffer, format="PNG")
            encoded.append({"bytes": buffer.getvalue(), "path": None})
        table = pa.table({column: encoded, "label": content[f"y_{split}"]})
        table = table.cast(features.arrow_schema)
        pq.write_table(table, repository / "data" / f"{split}-00000-of-00001.parquet")
    return repository


@pytest.fixture
def offline_hub(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()

    def use(**options):
        repository = hub(tmp_path, arrays(), **options)
        monkeypatch.setattr(images, "HUB", str(repository))

    return use


def test_the_hub_road_gives_the_images_of_the_folder_road(offline_hub, tmp_path):
    offline_hub()
    save(tmp_path, arrays())
    of_hub, of_folder = images.load(), images.load(data_dir=tmp_path)
    assert of_hub.sha256 == of_folder.sha256
    assert of_hub.origin == f"hub:{images.HUB}@{images.REVISION}"


def test_a_hub_repository_without_test_split_or_images_is_refused(offline_hub):
    offline_hub(splits=("train",))
    with pytest.raises(ValueError, match="has no x_test and no y_test"):
        images.load()


def test_a_hub_repository_of_another_kind_is_refused(offline_hub):
    offline_hub(column="picture")
    with pytest.raises(UnavailableError, match=r"image(.|\n)*--data-dir"):
        images.load()


def test_a_hub_that_is_not_there_names_the_way_without_it(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "HUB", str(tmp_path / "nowhere"))
    with pytest.raises(UnavailableError, match=r"nowhere(.|\n)*--data-dir"):
        images.load()


def test_a_missing_file_is_refused_with_its_path(tmp_path):
    with pytest.raises(UnavailableError, match=r"mnist.npz: no such file; put mnist.npz there"):
        images.load(data_dir=tmp_path)


def zipped(path, **members):
    """The arrays as ``numpy.savez`` writes them, some replaced by other bytes."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content in (arrays() | members).items():
            raw = io.BytesIO()
            if isinstance(content, bytes):
                raw.write(content)
            else:
                np.save(raw, content)
            file.writestr(f"{name}.npy", raw.getvalue())
    return path.read_bytes()


def one_array(path):
    np.save(path, np.zeros(3))
    return path.with_suffix(".npz.npy").read_bytes()


OBJECTS = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"
SPOILT = {
    "nothing": lambda path: b"",
    "the first half": lambda path: zipped(path)[:5000],
    "a pickle": lambda path: pickle.dumps({"x_train": 1}),
    "objects": lambda path: zipped(
        path, x_train=b"\x93NUMPY\x01\x00" + struct.pack("<H", len(OBJECTS)) + OBJECTS
    ),
    "one array": one_array,
}  # fmt: skip
"""Files that make NumPy fail in every way: each error is reported in the same words."""


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_file_is_refused_with_its_path_and_the_next_step(tmp_path, name):
    path = tmp_path / "mnist.npz"
    path.write_bytes(SPOILT[name](path))
    with pytest.raises(ValueError, match=r"is truncated or broken \(.+\); get the file") as caught:
        images.load(data_dir=tmp_path)
    assert str(path) in str(caught.value)


BROKEN = {
    "no test images": ({"x_test": None}, "has no x_test, only"),
    "flat images": ({"x_train": np.zeros((8, 784), np.uint8)}, r"x_train is uint8 of shape \(8, 7"),
    "14x14 already": ({"x_test": np.zeros((6, 14, 14), np.uint8)}, "x_test is uint8"),
    "pixels in [0, 1]": ({"x_train": np.zeros((8, 28, 28))}, "x_train is float64"),
    "no image": ({"x_test": np.zeros((0, 28, 28), np.uint8), "y_test": []}, "x_test"),
    "a label too few": ({"y_train": np.zeros(7, int)}, r"y_train is int64 of shape \(7,\).*8 im"),
    "a label of ten": ({"y_test": np.full(6, 10)}, "one digit from 0 to 9"),
    "labels that are fractions": ({"y_test": np.arange(6) / 1}, "y_test is float64"),
    "complex labels": ({"y_test": np.zeros(6, complex)}, "y_test is complex128"),
    "labels with fields": ({"y_test": np.zeros(6, [("a", int)])}, "one digit from 0 to 9"),
    "no array": ({"y_test": b"seven"}, r"y_test is \|?S5 of shape \(\)"),
    "labels in words": ({"y_test": np.array(["one"] * 6)}, "one digit from 0 to 9"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_arrays_of_another_kind_are_refused_with_file_and_name(tmp_path, name):
    changed, says = BROKEN[name]
    content = {key: value for key, value in (arrays() | changed).items() if value is not None}
    path = save(tmp_path, content)
    with pytest.raises(ValueError, match=says) as caught:
        images.load(data_dir=tmp_path)
    assert str(path) in str(caught.value)
