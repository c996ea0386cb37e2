"""MNIST from a folder or the Hub at 14×14; every refusal names the file or the way without it."""

import io

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from benchmarks.errors import UnavailableError
from benchmarks.table1 import images
from tests.invented_digits import arrays, save


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


def test_truncated_and_foreign_files_are_refused_with_their_path(tmp_path):
    path = save(tmp_path, arrays())
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[200:400] = bytes(200)
    for content in (whole[: len(whole) // 2], whole[:3], b"", b"no archive", bytes(damaged)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is truncated or broken") as caught:
            images.load(data_dir=tmp_path)
        assert str(path) in str(caught.value)


BROKEN = {
    "no test images": ({"x_test": None}, "has no x_test, only"),
    "flat images": ({"x_train": np.zeros((8, 784), np.uint8)}, r"x_train is uint8 of shape \(8, 7"),
    "14x14 already": ({"x_test": np.zeros((6, 14, 14), np.uint8)}, "x_test is uint8"),
    "pixels in [0, 1]": ({"x_train": np.zeros((8, 28, 28))}, "x_train is float64"),
    "no image": ({"x_test": np.zeros((0, 28, 28), np.uint8), "y_test": []}, "x_test"),
    "a label too few": ({"y_train": np.zeros(7, int)}, r"y_train has shape \(7,\).*8 images"),
    "a label of ten": ({"y_test": np.full(6, 10)}, "one digit from 0 to 9"),
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
