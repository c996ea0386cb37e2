"""Table 1 on MNIST: images from a folder or the Hub, declared networks, a sweep that resumes."""

import io
import re
from dataclasses import asdict, replace
from functools import partial

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from benchmarks import mnist, mnist_analysis, mnist_figures, mnist_findings, mnist_images, table1
from benchmarks.errors import RunError, UnavailableError
from benchmarks.pixel_attention import PixelAttention, Rules, Specification, relevance
from numeric.evaluation.correlation import pearson
from numeric.fast.linear_attention import FACTORIZATIONS, LinearAttention, cotangent

GRID = mnist.declared()
MAIN = GRID.models["main", 0]
BOTH = tuple(FACTORIZATIONS)


def arrays(train=8, test=6):
    """Random images in the layout of mnist.npz, half of their pixels blank."""
    rng = np.random.default_rng(0)
    made = {}
    for split, count in {"train": train, "test": test}.items():
        images = rng.integers(1, 256, size=(count, 28, 28)) * rng.integers(2, size=(count, 28, 28))
        made |= {f"x_{split}": images.astype(np.uint8), f"y_{split}": np.arange(count) % 10}
    return made


def save(folder, content):
    np.savez_compressed(folder / "mnist.npz", **content)
    return folder / "mnist.npz"


@pytest.fixture
def images(tmp_path):
    save(tmp_path, arrays(train=640))
    return mnist.load(data_dir=tmp_path)


# Images.


def test_a_pixel_is_the_mean_of_four_in_0_to_1(tmp_path):
    content = arrays()
    save(tmp_path, content)
    images = mnist.load(data_dir=tmp_path)
    assert images.origin == "mnist.npz"
    for split in ("train", "test"):
        raw = content[f"x_{split}"]
        assert images.labels[split].tolist() == content[f"y_{split}"].tolist()
        assert images.pixels[split].shape == (len(raw), 196)
        for b, row, column in [(0, 0, 0), (1, 13, 13), (3, 2, 11)]:
            block = raw[b, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2] / 255
            assert images.pixels[split][b, 14 * row + column] == pytest.approx(block.mean())
    white = mnist_images.quarter(np.full((1, 28, 28), 255, dtype=np.uint8))
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
        monkeypatch.setattr(mnist_images, "HUB", str(repository))

    return use


def test_the_hub_road_gives_the_images_of_the_folder_road(offline_hub, tmp_path):
    offline_hub()
    save(tmp_path, arrays())
    of_hub, of_folder = mnist.load(), mnist.load(data_dir=tmp_path)
    assert of_hub.sha256 == of_folder.sha256
    assert of_hub.origin == f"hub:{mnist_images.HUB}@{mnist_images.REVISION}"


def test_a_hub_repository_without_test_split_or_images_is_refused(offline_hub):
    offline_hub(splits=("train",))
    with pytest.raises(ValueError, match="has no x_test and no y_test"):
        mnist.load()


def test_a_hub_repository_of_another_kind_is_refused(offline_hub):
    offline_hub(column="picture")
    with pytest.raises(UnavailableError, match=r"image(.|\n)*--data-dir"):
        mnist.load()


def test_a_hub_that_is_not_there_names_the_way_without_it(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist_images, "HUB", str(tmp_path / "nowhere"))
    with pytest.raises(UnavailableError, match=r"nowhere(.|\n)*--data-dir"):
        mnist.load()


def test_a_missing_file_is_refused_with_its_path(tmp_path):
    with pytest.raises(UnavailableError, match=r"mnist.npz: no such file; put mnist.npz there"):
        mnist.load(data_dir=tmp_path)


def test_truncated_and_foreign_files_are_refused_with_their_path(tmp_path):
    path = save(tmp_path, arrays())
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[200:400] = bytes(200)
    for content in (whole[: len(whole) // 2], whole[:3], b"", b"no archive", bytes(damaged)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is truncated or broken") as caught:
            mnist.load(data_dir=tmp_path)
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
        mnist.load(data_dir=tmp_path)
    assert str(path) in str(caught.value)


# Networks.


def network(specification, tokens=9):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = PixelAttention(specification, tokens=tokens, width=6, classes=4)
    return model.double().requires_grad_(requires_grad=False)


@pytest.fixture(scope="module")
def pixels():
    made = torch.rand(5, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    made[:, 2] = 0
    return made


@pytest.mark.parametrize("key", GRID.models, ids=str)
def test_pixels_and_embeddings_give_the_same_logits_in_both_orders(pixels, key):
    model = network(GRID.models[key])
    want = model.read(model.embed(pixels), factorization="qk_first")
    assert want.std() > 1e-4
    for order in BOTH:
        torch.testing.assert_close(model(pixels, factorization=order), want, rtol=0, atol=1e-12)
        for bias in ("inside", "outside"):
            rule = Rules(eps=0.25, bias=bias)
            got = model.read(model.embed(pixels, rule=rule), factorization=order, rule=rule)
            torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("eps", [1e-6, 0.25])
@pytest.mark.parametrize("order", BOTH)
def test_the_main_specification_is_the_network_of_the_digits(pixels, order, eps):
    model = network(MAIN)
    other = LinearAttention(tokens=9, width=6, classes=4).double()
    state = model.state_dict()
    other.load_state_dict(state | {"direction": state["direction"][0]})
    target = other(pixels).argmax(dim=1)
    torch.testing.assert_close(model(pixels), other(pixels).detach())
    got = relevance(model, pixels, target, factorization=order, rule=Rules(eps=eps))["pixel"]
    want = pixels * cotangent(other, pixels, target, factorization=order, eps=eps)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("key", GRID.models, ids=str)
@pytest.mark.parametrize("order", BOTH)
def test_embeddings_share_the_logit_only_if_no_bias_absorbs(pixels, key, order):
    model = network(GRID.models[key])
    logits, target = model(pixels).max(dim=1)
    shares = {
        bias: relevance(model, pixels, target, factorization=order, rule=Rules(eps=0, bias=bias))[
            "embedding"
        ].sum(dim=1)
        for bias in ("inside", "outside")
    }
    torch.testing.assert_close(shares["outside"], logits, rtol=1e-9, atol=1e-12)
    assert (shares["inside"] - logits).abs().max() > 1e-3


def test_positions_absorb_from_pixels_and_an_embedding_keeps_their_share(pixels):
    rule = Rules(eps=0, bias="outside")
    for positions, same in {"none": True, "learned": False, "sinusoidal": False}.items():
        model = network(replace(MAIN, positions=positions))
        target = model(pixels).argmax(dim=1)
        found = relevance(model, pixels, target, factorization="kv_first", rule=rule)
        assert torch.allclose(found["pixel"], found["embedding"], atol=1e-12) == same


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"pooling": "max"}, "pooling='max': pass one of mean, sum, last, flatten"),
        ({"positions": None}, "positions=None: pass one of none, learned, sinusoidal"),
        ({"embedding": "both"}, "embedding='both'"),
        ({"scale": 1}, "scale=1"),
        ({"input": "raw"}, "input='raw'"),
        ({"qkv_bias": "yes"}, "qkv_bias='yes'"),
    ],
)
def test_an_unknown_choice_is_refused_with_what_there_is(changed, says):
    with pytest.raises(ValueError, match=says):
        Specification(**asdict(MAIN) | changed)


# Analysis.


@pytest.fixture(scope="module")
def analysed(pixels):
    model = network(replace(MAIN, embedding_bias=True))
    axes = GRID.analysis | {"forward": 3}
    ink = (pixels > 0).numpy()
    mean = torch.full((9,), 0.3, dtype=torch.float64)
    return model, mnist_analysis.analyse(model, pixels, axes, ink=ink, mean=mean, batch=2)


def test_every_declared_analysis_has_a_value_per_image(analysed):
    _, columns = analysed
    names = [mnist_analysis.column(settings) for settings in mnist_analysis.analyses(GRID.analysis)]
    assert len(set(names)) == len(names) == 3 * 2 * 2 * 2 * 2 + 3 * 2 * 2
    assert {columns[name].shape for name in names} == {(5,)}


def test_an_analysis_is_what_its_name_says(analysed, pixels):
    model, columns = analysed
    target = model(pixels).argmax(dim=1)
    every = np.ones((5, 9), dtype=bool)
    loo = table1.leave_one_out(model, pixels, target).numpy()
    lrp = {
        order: relevance(model, pixels, target, factorization=order, rule=Rules(bias="outside"))
        for order in BOTH
    }
    want = pearson(lrp["kv_first"]["embedding"], loo, every)
    np.testing.assert_allclose(
        columns["AttnLRP kv_first vs LOO, embedding, outside, raw, all"], want, atol=1e-9
    )
    pair = [lrp[order]["pixel"].numpy() for order in BOTH]
    want = pearson(*pair, (pixels > 0).numpy())
    np.testing.assert_allclose(columns["AttnLRP L vs R, pixel, outside, raw, ink"], want, atol=1e-9)
    embedded = table1.integrated_gradients(
        partial(model.read, factorization="kv_first"), model.embed(pixels), target
    )
    want = pearson(embedded.sum(dim=-1), loo, every)
    np.testing.assert_allclose(columns["IG vs LOO, zero embedding, raw, all"], want, atol=1e-9)


def test_absolute_sum_to_one_would_be_the_r_of_raw():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, 9))
    every = np.ones((4, 9), dtype=bool)
    scaled = (x / abs(x).sum(axis=1, keepdims=True) for x in (a, b))
    np.testing.assert_allclose(pearson(*scaled, every), pearson(a, b, every), rtol=1e-12)


@pytest.mark.parametrize("shift", [1e-9, 0.1, np.nan])
def test_maps_that_depend_on_the_order_are_an_error(shift):
    left = np.random.default_rng(0).normal(size=(3, 9))
    right = left.copy()
    mnist_analysis.difference("LOO", left, right + 1e-12)
    right[1, 4] += shift * abs(left[1]).max()
    with pytest.raises(ArithmeticError, match=r"LOO of image 1 .* qk_first and kv_first"):
        mnist_analysis.difference("LOO", left, right)


# The sweep.


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mnist")
    save(folder, arrays(train=640))
    images = mnist.load(data_dir=folder)
    return images, folder / "results", mnist.sweep(images, output=folder / "results", reduced=True)


def test_every_specification_is_reported_with_every_number(swept):
    _, folder, result = swept
    reduced = mnist.declared(reduced=True)
    assert len(list(folder.glob("*.parquet"))) == len(reduced.models) == 3
    assert len(result.rows) == 3 * (16 + 32 + 32 + 12)
    assert {row["number"] for row in result.rows} == set(GRID.paper)
    assert len({tuple(map(str, row.values())) for row in result.rows}) == len(result.rows)
    for row in result.rows:
        assert row["paper r"] == GRID.paper[row["number"]]
        assert row["reached"] == (abs(row["r"] - row["paper r"]) <= GRID.tolerance)
    assert len(result.examples["label"]) == 3 * reduced.analysis["images"]


def test_a_note_says_on_how_many_images_the_orders_were_compared(swept):
    note = next(note for note in swept[2].notes if note.startswith("Both orders"))
    counts = {"LOO": 2, "IG zero image": 6, "IG mean image": 6, "IG zero embedding": 6}
    for explainer, count in counts.items():
        assert re.search(rf"[ ,]{explainer} \de-\d\d on {count} images", note), note


def test_the_sides_of_section_4_3_are_those_of_3_1_swapped(swept):
    rows = swept[2].rows

    def of(side, section):
        number = f"AttnLRP {side} vs LOO"
        return [row["r"] for row in rows if (row["number"], row["sides"]) == (number, section)]

    assert of("L", "3.1") == of("R", "4.3") != of("L", "4.3") == of("R", "3.1")


def test_a_killed_run_goes_on_with_what_is_missing_and_gives_the_same(swept):
    images, folder, result = swept
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    missing = sorted(before)[1]
    missing.unlink()
    again = mnist.sweep(images, output=folder, reduced=True)
    assert again.rows == result.rows
    after = {path: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    assert {path for path in before if before[path] != after[path]} == {missing}


def test_results_of_other_images_are_refused_and_named(swept):
    images, folder, _ = swept
    fewer = replace(images, pixels=images.pixels | {"test": images.pixels["test"] / 2})
    with pytest.raises(RunError, match=r"another configuration(.|\n)*images: "):
        mnist.sweep(fewer, output=folder, reduced=True)
    with pytest.raises(RunError, match=r"analysis.images: 6 there, 500 now(.|\n)*models"):
        mnist.sweep(images, output=folder)


def test_broken_results_are_refused_with_their_path(swept):
    images, folder, _ = swept
    path = sorted(folder.glob("*.parquet"))[0]
    whole, table = path.read_bytes(), pq.read_table(path)
    spoiled = (table.slice(0, 2), table.drop_columns(table.column_names[-1]))
    try:
        for content in (whole[: len(whole) // 2], b"", *spoiled):
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                pq.write_table(content, path)
            with pytest.raises(RunError, match="remove this file and run again") as caught:
                mnist.sweep(images, output=folder, reduced=True)
            assert str(path) in str(caught.value)
    finally:
        path.write_bytes(whole)


def test_the_figure_has_one_panel_per_number_with_all_its_dots_and_the_papers_line(swept):
    result = swept[2]
    figure = mnist_figures.table1_mnist(result)
    titles = [axes.get_title().split("\n")[0] for axes in figure.axes]
    assert titles == list(GRID.paper)
    for axes, number in zip(figure.axes, titles, strict=True):
        dots = [row for row in result.rows if row["number"] == number]
        drawn = [xy for strip in axes.collections for xy in strip.get_offsets()]
        assert sorted(y for _, y in drawn) == sorted(row["r"] for row in dots)
        assert GRID.paper[number] in [line.get_ydata()[0] for line in axes.lines]
    assert figure.axes[0].get_ylabel() == "mean Pearson r over 6 test images"


# Findings, on rows made by hand.


def rows(**r):
    """One network with one analysis: r by number."""
    paper = {"A": 0.5, "B": -0.3}
    common = {"model": "m", "seed": 0, "accuracy": 0.9, "maps": "raw", "pixels": "all"}
    common |= {"level": "pixel", "bias": "inside", "baseline": "zero image"}
    return [
        common
        | {"number": number, "sides": "–" if number == "A" else "3.1"}
        | {"r": value, "paper r": paper[number], "reached": abs(value - paper[number]) <= 0.02}
        for number, value in r.items()
    ]


def say(made):
    return list(
        mnist_findings.findings(made, tolerance=0.02, accuracy=0.8, invariance={"LOO": (1e-14, 20)})
    )


def test_findings_name_what_is_reached_and_what_is_not():
    lines = say(rows(A=0.51, B=0.3))
    assert "A (0.5): reached within 0.02 by 1 of 1 specifications" in lines[1]
    assert "B (-0.3): reached within 0.02 by none of 1 specifications" in lines[2]
    assert "closest is 0.3000 (m, seed 0; at the pixel" in lines[2]
    assert "1 reach 1 of the 2 numbers at once" in lines[3]
    assert lines[4] == "At once in m, seed 0 (accuracy 0.900): A."
    assert "LOO 1e-14 on 20 images" in lines[5]


def test_findings_count_numbers_together_only_within_one_specification():
    both = rows(A=0.5, B=-0.3)
    assert "reach 2 of the 2 numbers" in say(both)[3]
    apart = [both[0], both[1] | {"pixels": "ink"}]
    assert "reach 1 of the 2 numbers" in say(apart)[3]
    other_level = [both[0], both[1] | {"level": "embedding"}]
    assert "reach 1 of the 2 numbers" in say(other_level)[3]


def test_findings_keep_inaccurate_networks_apart():
    lines = say([row | {"accuracy": 0.2} for row in rows(A=0.5, B=0.0)])
    assert lines[0].startswith("Test accuracy less than 0.80 (paper: 0.85): m, seed 0 0.200")
    assert "0 of them with accuracy of at least 0.80" in lines[1]


def test_findings_of_undefined_values_have_no_closest():
    lines = say(rows(A=float("nan"), B=float("nan")))
    assert lines[1].endswith("by none of 1 specifications.")
    assert lines[3] == "No specification reaches any of the 2 numbers."
