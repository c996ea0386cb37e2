"""An image and its text share one logit: relevance of tokens, of patches, and the residual."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageTextToText

from axioms.composites import CP_LRP
from numeric import Attribution, attribute
from numeric.evaluation.faithfulness import evaluate
from numeric.evaluation.softmax_errors import row_messages
from numeric.layer_mixes import sweep
from numeric.models.patches import is_altered
from numeric.results.overlays import overlay
from tests.census.build import IMAGES, MIXED, with_inputs
from tests.census.measure import without_shifts
from tests.census.sizes import MARK, tiny
from tests.support.cases import close
from tests.support.traces import watch

pytestmark = pytest.mark.usefixtures("float64")
PATCHES = {"llava": 5, "paligemma": 16, "qwen2_vl": 16, "idefics3": 4, "mistral3": 16, "gemma3": 16,
    "kosmos-2": 17, "internvl": 17, "blip": 17}  # fmt: skip
"""Positions of the first map of pixels, and of a class token before them."""
SHIFTED = ("kosmos-2",)  # which adds positions after the image is in the text


@pytest.mark.parametrize("name", PATCHES)
def test_tokens_and_patches_have_all_of_the_logit_without_biases(name):
    model, inputs = with_inputs(name, MIXED)
    before = {key: x.clone() for key, x in model.state_dict().items()}
    a = attribute(model, inputs)
    with without_shifts(model):
        b = attribute(model, inputs, CP_LRP)
    assert a.patches.shape == (1, PATCHES[name])
    assert a.relevance.any()
    assert not a.relevance[inputs["input_ids"] == MARK].any()
    close(a.relevance.sum(dim=1) + a.patches.sum(dim=1) + a.residual, a.logit)
    if name not in SHIFTED:
        close(b.relevance.sum(dim=1) + b.patches.sum(dim=1), b.logit, tolerance=1e-9)
    assert all(x.equal(before[key]) for key, x in model.state_dict().items())
    assert not is_altered(model)


@pytest.mark.parametrize("name", ["llava", "qwen2_vl", "paligemma"])
def test_gradient_x_input_is_that_of_autograd_at_both_entries(name):
    model, inputs = with_inputs(name, MIXED)
    a = attribute(model, inputs, "gradient-x-input")
    convolutions = (torch.nn.Conv2d, torch.nn.Conv3d)
    pixels = next(m for m in model.modules() if isinstance(m, convolutions))
    words, maps = [], []
    with watch(model.get_input_embeddings(), words.append), watch(pixels, maps.append):
        logits = model(**inputs).logits
    cs = torch.autograd.grad(logits[0, -1, a.target[0]], words + maps)
    (of_words, of_pixels) = (x.detach() * c for x, c in zip(words + maps, cs, strict=True))
    close(a.relevance, of_words.sum(dim=-1))
    close(a.patches[:, -of_pixels[:, 0].numel() :], of_pixels.sum(dim=1).reshape(1, -1))


def doubled(inputs):
    """A second example: the text backwards around the places of the image, another image."""
    ids = inputs["input_ids"]
    other = torch.where(ids == MARK, ids, 60 - ids)
    pixels = torch.cat([inputs["pixel_values"], 1 + inputs["pixel_values"].roll(5, -1)])
    alike = {key: torch.cat([x, x]) for key, x in inputs.items()}
    return alike | {"input_ids": torch.cat([ids, other]), "pixel_values": pixels}


@pytest.mark.parametrize("method", ["attnlrp", "loo"])
@pytest.mark.parametrize("name", ["llava", "qwen2_vl", "idefics3"])
def test_examples_of_a_batch_are_explained_as_they_are_alone(name, method):
    model, inputs = with_inputs(name, MIXED)
    both = doubled(inputs)
    a = attribute(model, both, method)
    for n in range(2):
        one = {key: x.unflatten(0, (2, -1))[n] for key, x in both.items()}
        b = attribute(model, one, method, target=a.target[n].item())
        close(a.relevance[n], b.relevance[0])
        close(a.patches[n], b.patches[0])


def test_images_that_belong_to_one_example_of_two_are_refused():
    model, inputs = with_inputs("llava", MIXED)
    both = doubled(inputs)
    ids = both["input_ids"]
    first = torch.cat([ids[:1], ids[:1]], dim=1)
    inputs = {"input_ids": torch.cat([first, first.where(first != MARK, 20)]),
        "pixel_values": both["pixel_values"]}  # fmt: skip
    odd = {"input_ids": torch.cat([first, ids[:1].repeat(1, 2)])}
    odd["pixel_values"] = both["pixel_values"][[0, 1, 0]]
    odd["input_ids"][1, ids.shape[1] :][odd["input_ids"][1, ids.shape[1] :] == MARK] = 20
    for method in ("attnlrp", "loo"):
        for given, said in ((inputs, "pass one example"), (odd, "(pass|or) one example")):
            with pytest.raises(ValueError, match=f"{said} at a time"):
                attribute(model, given, method)


BAD = {
    "no placeholder": (lambda x: x | {"input_ids": x["input_ids"] + 5}, {},
        "no text has the placeholder of an image, token 4: put it into the text"),
    "one placeholder less": (lambda x: x | {"input_ids": x["input_ids"].scatter(
        1, torch.tensor([[3]]), 9)}, {}, "itself fails on this input.*do not match.*check"),
    "no image": (lambda x: {"input_ids": x["input_ids"]}, {}, "has no pixel_values: pass"),
    "whole pixels": (lambda x: x | {"pixel_values": x["pixel_values"].long()}, {}, "int64; pass"),
    "one pixel": (lambda x: x | {"pixel_values": torch.tensor(1.0)}, {}, "no tensor of an image"),
    "a method of texts": (dict, {"method": "gim"}, "explains texts alone.*pass one of attnlrp"),
    "pixels without numbers": (lambda x: x | {"pixel_values": x["pixel_values"] / 0}, {},
        "pixel_values has 12288 values that are not finite; pass an image without"),
    "sparse pixels": (lambda x: x | {"pixel_values": x["pixel_values"].to_sparse()}, {},
        "pixel_values is a sparse tensor; pass a dense one"),
    "two sets of pixels": (lambda x: x | {"high_res_pixel_values": x["pixel_values"]}, {},
        "has 'high_res_pixel_values'; it may have"),
    "a cache": (lambda x: x | {"logits_to_keep": torch.tensor([0])}, {}, "has 'logits_to_keep'"),
    "shares of positions": (dict, {"positions": "signed"}, "positions='signed' is of texts"),
    "one patch": (dict, {"method": "loo", "patch": 64}, "is one patch, which is its own mean"),
    "a patch of 7": (dict, {"method": "loo", "patch": 7}, "64 x 64 pixels cannot.*a divisor"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_call_has_one_error_with_the_next_step(case):
    change, options, said = BAD[case]
    model, inputs = with_inputs("llava", MIXED)
    with pytest.raises(ValueError, match=said):
        attribute(model, change(inputs), **options)


def test_red_and_hatched_blue_patches_lie_over_the_image_on_pages_and_pictures(tmp_path):
    model, inputs = with_inputs("llava", MIXED)
    a = attribute(model, inputs)
    image = np.full((64, 64, 3), 200, dtype=np.uint8)
    found = overlay(image, [9.0, 2.0, -1.0, 0.0, 0.5], (2, 2)).astype(int)  # the first is no patch
    red, blue = found[..., 0] - found[..., 2], found[..., 2] - found[..., 0]
    assert red[:32, :32].min() > blue[:32, 32:].max()
    assert blue[:32, 32:].min() > 0
    assert not red[32:, :32].any()
    assert [len(np.unique(found[:32, x, 2])) for x in (slice(32), slice(32, 64))] == [1, 2]
    assert ["base64," in page for page in (a.html([image]), a.html())] == [True, False]
    assert len(a.png([image])) > len(a.png())
    a.save(tmp_path / "a")
    assert Attribution.load(tmp_path / "a").patches.equal(a.patches)
    with pytest.raises(ValueError, match="2 images for 1 examples; pass one of each"):
        a.png([image, image])


@pytest.mark.parametrize("name", ["llava", "qwen2_vl"])
def test_a_table_has_all_tokens_and_patches_and_a_line_the_image(name):
    model, inputs = with_inputs(name, MIXED)
    a = attribute(model, inputs)
    table = a.to_pandas()
    assert table.relevance.sum() + a.residual.item() == pytest.approx(a.logit.item())
    patches = table[table.token.notna()]
    assert patches.relevance.tolist() == a.patches[0].tolist()
    known = [f"patch {y}, {x}" for y in (1, 2) for x in (1, 2)]
    names = {"llava": ["patch"] * (len(patches) - 4) + known, "qwen2_vl": ["patch"] * len(patches)}
    assert patches.token.tolist() == names[name]
    assert f"image {a.patches.sum():+z.4f}, residual" in a._repr_html_()


@pytest.mark.parametrize("method", ["attnlrp", "loo"])
def test_pictures_need_patches_whose_places_are_known(method):
    model, inputs = with_inputs("llava", MIXED)
    assert attribute(model, inputs, method).details["grid"].tolist() == [2, 2]
    model, inputs = with_inputs("qwen2_vl", MIXED)
    with pytest.raises(ValueError, match=r"not known: pass grid=\(rows, columns\)"):
        attribute(model, inputs, method).html([np.zeros((8, 8, 3))])


class Changed(torch.nn.Module):
    """A module around another, which changes its input or the way it is called."""

    def __init__(self, inner, change):
        super().__init__()
        self.inner, self.change = inner, change

    def forward(self, x, **options):
        return self.change(self.inner)(x, **options)


TOWER, PROJECTOR = "vision_tower", "multi_modal_projector"


def changed(path, change):
    model, inputs = with_inputs("llava", MIXED)
    inner = getattr(model.model, path)
    setattr(model.model, path, Changed(inner, change).eval())
    return model, inputs


def test_pixels_that_require_a_gradient_are_explained_like_others():
    model, inputs = with_inputs("llava", MIXED)
    grown = inputs | {"pixel_values": inputs["pixel_values"].clone().requires_grad_()}
    assert attribute(model, grown).patches.equal(attribute(model, inputs).patches)


def test_no_pixels_are_the_text_alone():
    model, inputs = with_inputs("llava", MIXED)
    text = {"input_ids": inputs["input_ids"][inputs["input_ids"] != MARK][None]}
    a, b = (attribute(model, x) for x in (text, text | {"pixel_values": None}))
    assert a.relevance.equal(b.relevance)
    assert b.patches is None


def test_a_tower_without_gradients_is_refused_and_detached_features_are_warned_of():
    model, inputs = changed(TOWER, lambda inner: torch.no_grad()(inner))
    with pytest.raises(ValueError, match="do not depend on the pixels in any way"):
        attribute(model, inputs)
    model, inputs = changed(PROJECTOR, lambda inner: lambda x: inner(x.detach()))
    with pytest.warns(UserWarning, match="no relevance reaches the pixels of"):
        assert not attribute(model, inputs).patches.any()


def test_a_compiled_tower_is_refused_by_its_path():
    model, inputs = with_inputs("llava", MIXED)
    model.model.vision_tower = torch.compile(model.model.vision_tower, backend="eager")
    with pytest.raises(ValueError, match=r"compiled: 1 modules, first model.vision_tower"):
        attribute(model, inputs)


def test_padding_around_a_map_is_no_patch():
    model, inputs = with_inputs("bit", IMAGES)
    a = attribute(model, inputs)
    assert a.relevance.shape[1] == a.details["grid"].prod()


IMAGE = np.full((64, 64, 3), 200, dtype=np.uint8)
PICTURES = {
    "a coarser grid": ([IMAGE], (1, 1), r"grid=\(1, 1\): 5 positions.*grid \(2, 2\)"),
    "negative sides": ([IMAGE], (-1, -4), r"grid=\(-1, -4\)"),
    "a side alone": ([IMAGE], 4, "grid=4"),
    "values up to 1": ([IMAGE / 255], None, "from 0.784.* to 0.784.*pass them from 0 to 255"),
    "values above 255": ([IMAGE.astype(int) * 2], None, "from 400 to 400: pass"),
    "an empty image": ([IMAGE[:0]], None, r"shape \(0, 64, 3\)"),
    "no list": (None, None, "images is a NoneType: pass a list"),
}


@pytest.mark.parametrize("case", PICTURES)
def test_a_picture_is_refused_that_would_mislead(case):
    images, grid, said = PICTURES[case]
    a = attribute(*with_inputs("llava", MIXED))
    for draw in (a.html, a.png):
        with pytest.raises(ValueError, match=said):
            draw(images, grid)


@pytest.mark.parametrize(
    "measure",
    [lambda *x: evaluate(*x, torch.zeros(1, 11)), lambda *x: sweep(*x, ["attnlrp"]), row_messages],
)
def test_measures_of_texts_refuse_an_image(measure):
    with pytest.raises(ValueError, match="inputs has pixel_values, and what is asked for is of"):
        measure(*with_inputs("llava", MIXED))


def test_padding_behind_the_patches_of_an_image_is_no_part_of_their_mean():
    model, inputs = with_inputs("lfm2_vl", MIXED)
    pixels, seen = inputs["pixel_values"], inputs["pixel_attention_mask"]
    count = pixels.shape[1]
    more = {"pixel_values": pixels.new_zeros(1, 3 * count, pixels.shape[2])}
    more["pixel_values"][:, :count] = pixels
    more["pixel_attention_mask"] = seen.new_zeros(1, 3 * count)
    more["pixel_attention_mask"][:, :count] = seen
    want, found = (attribute(model, x, "loo") for x in (inputs, {**inputs, **more}))
    close(found.relevance, want.relevance)
    close(found.patches[:, :count], want.patches)
    assert found.patches[:, count:].abs().max() < 1e-12  # rounding of other shapes


def test_the_image_token_of_cross_attention_is_a_word_that_is_left_out():
    """No feature of the image stands in its place in Mllama."""
    config = tiny("mllama")
    seen, config.text_config.cross_attention_layers = config.vision_config, [1]
    seen.intermediate_layers_indices, seen.vision_output_dim = [0, 1], 3 * seen.hidden_size
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(config).double().eval()
    ids, tiles = torch.tensor([[12, config.image_token_index, 17, 31, 29]]), seen.max_num_tiles
    size = (1, 1, tiles, 3, seen.image_size, seen.image_size)
    inputs = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": torch.randn(size, dtype=torch.float64),
        "aspect_ratio_ids": torch.ones(1, 1, dtype=torch.int64),
        "aspect_ratio_mask": torch.ones(1, 1, tiles, dtype=torch.int64),
        "cross_attention_mask": torch.ones(1, ids.shape[1], 1, tiles, dtype=torch.int64),
    }
    found = attribute(model, inputs, "loo")
    for n in range(ids.shape[1]):
        mask = inputs["attention_mask"].index_fill(1, torch.tensor([n]), 0)
        with torch.no_grad():
            less = model(**inputs | {"attention_mask": mask}).logits[:, -1, found.target.item()]
        close(found.relevance[:, n], found.logit - less)
    assert found.relevance[0, 1].abs() > 1e-3
