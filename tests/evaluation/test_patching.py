"""Activation patching agrees with plain hooks, and its predictions with ``attribute``."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForSequenceClassification

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, GRADIENT_X_INPUT, Composite
from numeric import attribute
from numeric.evaluation.patching import MLP, PLACES, RESIDUAL, patching, places
from numeric.targets import logit
from tests.census.build import CAUSAL, build, inputs
from tests.census.measure import conditions
from tests.support import cases
from tests.support.traces import assert_same, contains, snapshot
from tests.support.writers import model_of

CLASSES = "sequence classification"
METHODS = {x.name: x for x in (GRADIENT_X_INPUT, ATTNLRP, CP_LRP)}
HELD = Composite("held", {**GRADIENT_X_INPUT.rules, kinds.RMS_NORM: kinds.HELD_DEVIATION})
TARGET = logit(1) - logit(0)
KNOWN = ["bert", "roberta", "electra", "distilbert", "gpt2", "llama", "qwen3"]
CHANGED = 2  # the token that differs


def close(name, got, want):
    """Equal to rounding, in float32 where stock norms pass through it."""
    cases.close(torch.from_numpy(got), want, tolerance=cases.tolerance(name))


def pair(name):
    """A random model of a family, and two texts that differ in one token."""
    model, clean = cases.one_text(name)
    ids = clean["input_ids"].clone()
    ids[0, CHANGED] = 11 if ids[0, CHANGED] != 11 else 12
    return model, clean, clean | {"input_ids": ids}


def first(output):
    return output if isinstance(output, torch.Tensor) else output[0]


def seen(model, batch, path):
    """The output of a module, by a hook on the model itself."""
    found = []
    keep = lambda _module, _inputs, output: found.append(output)
    with model.get_submodule(path).register_forward_hook(keep), torch.no_grad():
        logits = model(**batch).logits[0]
    return first(found[0])[0], (logits[1] - logits[0]).item()


def patched(model, path, token, row):
    """Puts ``row`` in the place of a token in the output of a module; a ``with`` block."""

    def patch(_module, _inputs, output):
        x = first(output).clone()
        x[0, token] = row
        return x if isinstance(output, torch.Tensor) else (x, *output[1:])

    return model.get_submodule(path).register_forward_hook(patch)


def naive(model, clean, corrupted, path, *, token=0, back=False):
    """The effect of patching each token, one run and one hook at a time.

    ``token``: how far from the right one it is patched; ``back``: clean into the corrupted run.
    """
    if back:
        clean, corrupted = corrupted, clean
    there, _ = seen(model, corrupted, path)
    _, before = seen(model, clean, path)
    effects = []
    for n, row in enumerate(there):
        with patched(model, path, (n + token) % len(there), row), torch.no_grad():
            logits = model(**clean).logits[0]
        effects.append(before - (logits[1] - logits[0]).item())
    return np.array(effects)


@pytest.mark.parametrize("name", KNOWN)
def test_effects_are_those_of_plain_hooks_token_by_token(name):
    model, clean, corrupted = pair(name)
    before = snapshot(model)
    found = patching(model, clean, corrupted, METHODS, target=TARGET)
    assert_same(before, snapshot(model))
    for place, paths in places(model).items():
        for layer, path in enumerate(paths):
            want, got = naive(model, clean, corrupted, path), found.effect[place][layer]
            np.testing.assert_allclose(got, want, atol=1e-9)
            assert found.keep[place][layer].tolist() == (abs(want) > 1e-12).tolist()
    assert {place for place in found.effect if found.keep[place].sum() >= 3} == {*PLACES}


WRONG = {"of the token before it": {"token": 1}, "into the corrupted run": {"back": True}}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_effects_are_not_those_of_another_patch(name, wrong):
    model, clean, corrupted = pair(name)
    found = patching(model, clean, corrupted, {}, target=TARGET).effect[MLP][0]
    other = naive(model, clean, corrupted, places(model)[MLP][0], **WRONG[wrong])
    assert abs(found - other).max() > 0.1 * abs(found).max() > 0


@pytest.mark.parametrize("composite", METHODS.values(), ids=lambda x: x.name)
@pytest.mark.parametrize("name", KNOWN)
def test_predictions_are_relevance_per_unit_of_activation_times_the_change(name, composite):
    model, clean, corrupted = pair(name)
    found = patching(model, clean, corrupted, {"x": composite}, target=TARGET).predicted["x"]
    for place, paths in places(model).items():
        relevance = attribute(model, clean, composite, TARGET, at=paths, channels=True).inside
        for layer, path in enumerate(paths):
            (x, _), (there, _) = (seen(model, batch, path) for batch in (clean, corrupted))
            want = (relevance[path][0] / x * (x - there)).sum(dim=1)
            close(name, found[place][layer], want)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_patching_with_zeros_is_predicted_by_relevance(name):
    model, clean, _ = pair(name)
    found = patching(model, clean, None, METHODS, target=TARGET)
    for method in (ATTNLRP, CP_LRP):  # the gradient x input of a whole stream is 0
        for place, paths in places(model).items():
            inside = attribute(model, clean, method, TARGET, at=paths).inside
            for layer, path in enumerate(paths):
                close(name, found.predicted[method.name][place][layer], inside[path][0])


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_the_error_of_the_gradient_is_of_second_order_and_that_of_held_norms_is_not(name):
    model, clean, corrupted = pair(name)
    rules = {"plain": GRADIENT_X_INPUT, "held": CP_LRP}
    for place in PLACES:
        errors = {}
        for size in (1e-2, 1e-3):
            found = patching(model, clean, corrupted, rules, target=TARGET, size=size)
            effect = found.effect[place]
            for x in rules:
                errors[x, size] = abs(found.predicted[x][place] - effect).max() / abs(effect).max()
        assert errors["plain", 1e-3] < errors["plain", 1e-2] / 4  # a tenth, as size shrinks
        assert errors["held", 1e-3] > errors["held", 1e-2] / 2  # the same


def read_by_one_norm():
    """A LLaMA whose last layer only a norm follows, each of whose channels is a class."""
    sizes = cases.LLAMA_LIKE | {"num_labels": 16, "rms_norm_eps": 0.0}
    torch.manual_seed(0)
    model = LlamaForSequenceClassification(LlamaConfig(**sizes)).double().eval()
    with torch.no_grad():
        model.score.weight.copy_(torch.eye(16))
        model.model.norm.weight.fill_(1)
    return model


def test_at_one_norm_the_errors_are_those_of_theorem_57():
    model, lengths, widths = read_by_one_norm(), [], 16
    clean = cases.first(cases.family_inputs("llama"))
    last_layer = {RESIDUAL: places(model)[RESIDUAL][-1:]}
    for size in (0.1, 0.3, 1.0, -0.5):
        for token in (7, 11, 20):
            ids = clean["input_ids"].clone()
            ids[0, -1] = token
            errors = {"plain": 0.0, "held": 0.0}
            for k in range(widths):
                found = patching(
                    model, clean, clean | {"input_ids": ids},
                    {"plain": GRADIENT_X_INPUT, "held": HELD}, target=k, size=size,
                    paths=last_layer,
                )  # fmt: skip
                last = {x: y[RESIDUAL][-1, -1] for x, y in found.predicted.items()}
                for x in errors:
                    errors[x] += (found.effect[RESIDUAL][-1, -1] - last[x]) ** 2
            length, cosine = (x[RESIDUAL][-1, -1] for x in (found.length, found.cosine))
            u = 1 + abs(length - 1)
            gap = widths * (1 - u * cosine) * (1 - (2 - u) * cosine)
            np.testing.assert_allclose(errors["plain"] - errors["held"], gap, rtol=1e-5, atol=1e-7)
            assert found.held_is_closer()[RESIDUAL][-1, -1] == (gap > 0)
            lengths.append(length)
    assert min(lengths) < 1 < max(lengths)


def met(model, path, batch):
    """The input and the output of a module in one run, of the last token."""
    found = []
    keep = lambda _m, x, y: found.extend([x[0], first(y)] if x else [None, first(y)])
    with model.get_submodule(path).register_forward_hook(keep), torch.no_grad():
        model(**batch)
    return [x if x is None else x[0, -1] for x in found]


NEXT = {  # family, module that is patched, the next norm that reads its output, whether it centres
    "parallel": ("gpt_neox", "gpt_neox.layers.0.attention", "layers.1.input_layernorm", True),
    "of its own class": ("cohere", "model.layers.0.self_attn", "layers.1.input_layernorm", True),
    "root mean square": ("llama", "model.layers.0.self_attn", "layers.0.post_attention_layernorm",
                         False),
}  # fmt: skip


@pytest.mark.parametrize("case", NEXT)
def test_length_and_cosine_are_of_the_next_norm_that_reads_the_place(case):
    name, path, norm, centres = NEXT[case]
    with conditions():
        model = build(name, CAUSAL)
        clean = {"input_ids": torch.tensor([[12, 13, 14, 15]])}
        other = {"input_ids": torch.tensor([[12, 13, 24, 15]])}
        found = patching(model, clean, other, {}, target=logit(7), paths={MLP: [path]})
        norm = f"{path.partition('.')[0]}.{norm}"
        _, there = met(model, path, other)
        before, _ = met(model, norm, clean)
        with patched(model, path, -1, there):
            after, _ = met(model, norm, clean)
    if centres:
        before, after = before - before.mean(), after - after.mean()
    assert found.length[MLP][0, -1] == pytest.approx((after.norm() / before.norm()).item())
    cosine = torch.nn.functional.cosine_similarity(after, before, dim=0).item()
    assert found.cosine[MLP][0, -1] == pytest.approx(cosine)
    assert cosine < 1 - 1e-6


@pytest.mark.parametrize("around", [
    torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16), torch.no_grad,
])  # fmt: skip
def test_blocks_around_the_call_change_nothing(around):
    model, clean, other = pair("bert")
    model = model.float()
    want = patching(model, clean, other, METHODS, target=TARGET)
    with around():
        found = patching(model, clean, other, METHODS, target=TARGET)
    for place in PLACES:
        assert np.array_equal(found.effect[place], want.effect[place])
        for name in METHODS:
            assert np.array_equal(found.predicted[name][place], want.predicted[name][place])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_patched_near_float32(dtype):
    model, clean, other = pair("bert")
    want = patching(model.float(), clean, other, METHODS, target=TARGET)
    found = patching(model.to(dtype), clean, other, METHODS, target=TARGET)
    with torch.no_grad():  # numbers are differences of such logits, of about 30 operations each
        size = model.float()(**clean).logits.abs().max().item()
    rounded = 60 * torch.finfo(dtype).eps / 2 * size
    near = lambda got, right: np.abs(got - right).max() < rounded
    for place in PLACES:
        assert near(found.effect[place], want.effect[place])
        for name in METHODS:
            assert near(found.predicted[name][place], want.predicted[name][place])


def test_what_cannot_be_patched_is_refused_by_name():
    model, clean, _ = pair("bert")
    padded = cases.family_inputs("bert")
    shorter = {key: x[:, :4] for key, x in clean.items()}
    masked = {key: x[1:] for key, x in padded.items()}
    for given, other, words in [
        (padded, padded, "one clean text"),
        (clean, shorter, "shapes (1, 6) and (1, 4)"),
        (masked, masked, "padding"),
    ]:
        with pytest.raises(ValueError, match=r".") as caught:
            patching(model, given, other, METHODS, target=TARGET)
        contains(str(caught.value), words)
    text = {"input_ids": torch.tensor([[5, 6, 7]]), "decoder_input_ids": torch.tensor([[1, 4]])}
    with pytest.raises(ValueError, match="decoder_input_ids: one text is patched"):
        patching(model_of("bart"), text, None, METHODS, paths={RESIDUAL: ["model.encoder"]})
    with pytest.raises(ValueError, match="not known where attention and MLP write") as caught:
        places(cases.family("albert")[0])
    contains(str(caught.value), "AlbertForSequenceClassification", "albert_layer", "self_attn and")
    albert, text, other = pair("albert")
    shared = {RESIDUAL: ["albert.encoder.albert_layer_groups.0"]}
    with pytest.raises(ValueError, match=r"albert_layer_groups.0 is called several times"):
        patching(albert, text, other, METHODS, target=TARGET, paths=shared)
    with conditions():
        xlnet = build("xlnet", CLASSES)
        text = cases.first(inputs(xlnet, CLASSES))
        at = {RESIDUAL: ["transformer.layer.0"]}
        with pytest.raises(ValueError, match=r"transformer.layer.0 returns a tensor of shape"):
            patching(xlnet, text, None, METHODS, paths=at)
