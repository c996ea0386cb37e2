"""Patches are numbered by their place in the image, whatever order the model puts them in."""

from functools import partial

import pytest
import torch
from transformers import ViltConfig, ViltForImageAndTextRetrieval

from numeric import attribute, sweep
from numeric.auditing.audit import audit
from numeric.evaluation.faithfulness import evaluate
from tests.census.build import IMAGES, MIXED, with_inputs
from tests.census.sizes import MARK
from tests.support.cases import close
from tests.support.traces import watch

pytestmark = pytest.mark.usefixtures("float64")
SIDE, SQUARE = 64, 16


def vilt(**sizes):
    """ViLT of 16 patches, which it draws in a random order, and a text with an image."""
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 48, "vocab_size": 64, "image_size": SIDE,
        "patch_size": SQUARE}  # fmt: skip
    torch.manual_seed(0)
    model = ViltForImageAndTextRetrieval(ViltConfig(**small, **sizes)).double().eval()
    with torch.no_grad():
        for x in model.parameters():
            x += 0.2 * torch.randn_like(x)
    ids = torch.tensor([[1, 12, 13, 14, 2]])
    beside = {"token_type_ids": 0 * ids, "attention_mask": torch.ones_like(ids)}
    seen = torch.ones(1, SIDE, SIDE, dtype=torch.int64)
    pixels = torch.randn(1, 3, SIDE, SIDE)
    return model, {"input_ids": ids, "pixel_values": pixels, "pixel_mask": seen} | beside


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", "gradient-x-input"])
def test_patches_drawn_in_a_random_order_have_the_relevance_of_their_place(method, monkeypatch):
    model, inputs = vilt()
    drawn = attribute(model, inputs, method)
    audited = audit(model, inputs, method) if method in ("attnlrp", "cp-lrp") else None
    monkeypatch.setattr(torch, "multinomial", lambda x, n, **_: torch.arange(n))
    in_order = attribute(model, inputs, method)
    close(drawn.relevance, in_order.relevance)
    close(drawn.patches, in_order.patches)
    if audited is not None:
        close(torch.from_numpy(audited.patches), in_order.patches[0])


def test_leave_one_out_of_patches_in_a_random_order_is_a_plain_loop():
    model, inputs = vilt()
    found = attribute(model, inputs, "loo")
    image = inputs["pixel_values"]
    mean = image.unflatten(3, (-1, SQUARE)).unflatten(2, (-1, SQUARE)).mean(dim=(2, 4))
    for n in range(16):
        y, x = divmod(n, SIDE // SQUARE)
        changed = image.clone()
        changed[:, :, SQUARE * y :, SQUARE * x :][:, :, :SQUARE, :SQUARE] = mean
        with torch.no_grad():
            logits = model(**inputs | {"pixel_values": changed}).logits
        close(found.patches[:, n], found.logit - logits[:, found.target.item()])


DRAWS = {
    "attnlrp": lambda *given: attribute(*given, "attnlrp"),
    "loo": lambda *given: attribute(*given, "loo"),
    "audit": audit,
}


@pytest.mark.parametrize("of", DRAWS)
def test_a_model_that_draws_some_of_its_patches_is_refused(of):
    said = "draws random numbers in eval mode|reads 8 positions of the 16"
    with pytest.raises(ValueError, match=said):
        DRAWS[of](*vilt(max_image_length=8))


class Noise(torch.nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


@pytest.mark.parametrize(
    "measure",
    [attribute, lambda *x: evaluate(*x, torch.zeros(2, 8)), lambda *x: sweep(*x, ["attnlrp"])],
)
def test_a_text_model_with_noise_is_refused_and_noise_that_no_logit_has_is_not(measure):
    model, inputs = with_inputs("bert")
    model.bert.embeddings.dropout = Noise().eval()
    with pytest.raises(ValueError, match="draws random numbers in eval mode"):
        measure(model, inputs)
    model, inputs = with_inputs("bert")
    model.register_forward_pre_hook(lambda *_: torch.rand(1) and None)
    measure(model, inputs)


def test_padding_of_an_image_that_the_model_draws_from_is_refused():
    model, inputs = vilt()
    inputs["pixel_mask"][:, :, 48:] = 0
    with pytest.raises(ValueError, match=r"reads 12 positions of the 16.*without padding"):
        attribute(model, inputs)


class Moved(torch.nn.Module):
    """Embeddings of a class token and patches that are moved before positions are added."""

    def __init__(self, inner, move):
        super().__init__()
        self.inner, self.move, self.patch_embeddings = inner, move, inner.patch_embeddings

    def forward(self, pixels, **_):
        inner = self.inner
        patches = inner.patch_embeddings.projection(pixels).flatten(2).mT
        tokens = torch.cat([inner.cls_token.expand(len(patches), -1, -1), patches], dim=1)
        return self.move(tokens) + inner.position_embeddings


class FlippedMap(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.patch_embeddings = inner, inner.patch_embeddings

    def forward(self, pixels, **_):
        inner = self.inner
        patches = inner.patch_embeddings.projection(pixels).flip(3)
        height, width = patches.shape[2:]
        positions = inner.position_embeddings[:, 1:].mT.unflatten(2, (height, width))
        return (patches + positions).flatten(2).mT


class ChannelsFirst(torch.nn.Module):
    """Embeddings of patches, whose positions are added before channels become the last axis."""

    def __init__(self, inner):
        super().__init__()
        self.patch_embeddings, self.positions = inner.patch_embeddings, inner.position_embeddings

    def forward(self, x, **_):
        patches = self.patch_embeddings.projection(x).flatten(2)
        return (patches + self.positions[:, 1:].mT).mT


MOVES = {
    "flipped": (partial(Moved, move=lambda x: x.flip(1)), lambda r: r.flip(1)),
    "rolled": (partial(Moved, move=lambda x: x.roll(5, 1)), lambda r: r.roll(-5, 1)),
    "class token last": (
        partial(Moved, move=lambda x: torch.cat([x[:, 1:], x[:, :1]], dim=1)),
        lambda r: torch.cat([r[:, -1:], r[:, :-1]], dim=1),
    ),
    "a mirrored map": (FlippedMap, lambda r: r.unflatten(1, (4, 4)).flip(2).flatten(1)),
    "channels first": (ChannelsFirst, lambda r: r),
}
"""Embeddings that move patches before positions are added, and the way back of relevance."""


@pytest.mark.parametrize("case", MOVES)
def test_patches_that_are_moved_before_positions_are_added_have_their_own_relevance(case):
    make, back = MOVES[case]
    model, images = with_inputs("vit", IMAGES)
    model.vit.embeddings = make(model.vit.embeddings).eval()
    found = attribute(model, images, "gradient-x-input", share="embedding")
    ends = []
    with watch(model.vit.embeddings, ends.append):
        logits = model(**images).logits
    (c,) = torch.autograd.grad(logits.gather(1, found.target[:, None]).sum(), ends)
    close(found.relevance, back((ends[0].detach() * c).sum(dim=-1)))


def test_leaving_out_patches_refuses_more_images_in_one_example_than_in_the_other():
    model, inputs = with_inputs("qwen2_vl", MIXED)
    words = ("input_ids", "attention_mask", "mm_token_type_ids")
    both = {key: inputs[key].repeat(2, 2) for key in words}  # two images in each
    rest = both["input_ids"].shape[1] // 2
    both["input_ids"][0, rest:][both["input_ids"][0, rest:] == MARK] = 20
    both["mm_token_type_ids"][0, rest:] = 0
    for key in ("pixel_values", "image_grid_thw"):
        both[key] = torch.cat([inputs[key]] * 3)
    with pytest.raises(ValueError, match="3 images or patches of 2 examples"):
        attribute(model, both, "loo")
