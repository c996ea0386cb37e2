"""Rules of whole attention blocks: which of them are known methods, and which conserve."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from benchmarks.experiments.canonized import blocks, held, pixels, texts
from benchmarks.experiments.table1 import digits, experiment, methods, mnist, pixel_attention
from numeric import attribute
from numeric.networks.linear_attention import FACTORIZATIONS, LinearAttention, cotangent
from tests.support import cases
from tests.support.invented_digits import arrays, save

SHARES = {"attnlrp": (1 / 4, 1 / 4, 1 / 2), "cp-lrp": (0, 0, 1)}


@pytest.mark.parametrize("method", SHARES)
@pytest.mark.parametrize("name", cases.ALL)
def test_quarters_and_a_half_are_attnlrp_and_values_alone_are_cp_lrp(name, method):
    model, inputs = cases.family(name)
    want = attribute(model, inputs, method, 1).relevance
    found = blocks.explained(model, inputs, blocks.shared(*SHARES[method]), 1).relevance
    cases.close(found, want)
    thirds = blocks.explained(model, inputs, blocks.shared(1 / 3, 1 / 3, 1 / 3), 1).relevance
    assert (thirds - want).abs().max() > 1e-2 * want.abs().max()


def test_attention_that_is_not_fused_is_refused():
    model, inputs = cases.family("bert", attn_implementation="eager")
    with pytest.raises(ValueError, match=r"BertForSequenceClassification calls no fused.*sdpa"):
        blocks.explained(model, inputs, blocks.shared(1, 1, 1))


@pytest.fixture
def operands():
    drawn = torch.Generator().manual_seed(0)
    return [
        torch.randn(5, 3, dtype=torch.float64, generator=drawn, requires_grad=True) for _ in "qkv"
    ]


def relevance(rule, attend, operands, of_output):
    """The output, and the sum of the relevance of each operand."""
    out = rule(attend, *operands)
    found = torch.autograd.grad(out, operands, of_output / out)
    return out, [(x * c).sum() for x, c in zip(operands, found, strict=True)]


def test_integrated_gradients_of_a_block_conserve_and_leave_its_output_as_it_is(operands):
    attend = torch.nn.functional.scaled_dot_product_attention
    of_output = torch.rand(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    out, parts = relevance(blocks.integrated(32), attend, operands, of_output)
    assert torch.equal(out, attend(*operands))
    cases.close(sum(parts), of_output.sum())
    _, parts = relevance(blocks.shared(1 / 3, 1 / 3, 1 / 3), attend, operands, of_output)
    assert (sum(parts) - of_output.sum()).abs() > 0.01


def test_integrated_gradients_of_linear_attention_are_thirds(operands):
    attend = lambda q, k, v: q @ k.mT @ v
    of_output = torch.ones(5, 3, dtype=torch.float64)
    for rule in (blocks.integrated(2), blocks.shared(1 / 3, 1 / 3, 1 / 3)):
        _, parts = relevance(rule, attend, operands, of_output)
        cases.close(torch.stack(parts), torch.full((3,), 5.0, dtype=torch.float64))


def test_a_softmax_along_a_path_absorbs_what_equal_weights_send(operands):
    """Theorem 62, for every row: Q and K get a quarter each of what is left, and V half of R."""
    attend = torch.nn.functional.scaled_dot_product_attention
    of_output = torch.rand(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    out, parts = relevance(blocks.softmax_along_path(32), attend, operands, of_output)
    q, k, v = operands
    cases.close(out, attend(q, k, v))
    weights = torch.softmax(q @ k.mT / 3**0.5, dim=-1)
    per_weight = of_output / out @ v.mT  # R_i / A_i
    left = (per_weight * (weights - 1 / 5)).sum()
    cases.close(torch.stack(parts), torch.stack([left / 4, left / 4, of_output.sum() / 2]))


def one_text(name, **options):
    model, inputs = cases.family(name, **options)
    return model, {key: x[:1] for key, x in inputs.items()}


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2", "llama"])
def test_with_nothing_held_it_is_leave_one_out(name):
    model, inputs = one_text(name)
    found = held.leave_one_out(model, inputs)
    want = attribute(model, inputs, "loo").relevance[0]
    cases.close(found[held.LOO], want, tolerance=cases.SINGLE)
    assert all((x - want).abs().max() > 1e-3 for key, x in found.items() if key != held.LOO)


@pytest.mark.parametrize("setting", held.FOLLOW)
def test_what_is_held_is_the_output_of_its_projections(setting):
    model, inputs = one_text("bert")
    found = held.leave_one_out(model, inputs)[setting]
    each = zip(("query", "key", "value"), held.FOLLOW[setting], strict=True)
    stays = tuple(f"self.{name}" for name, follows in each if not follows)
    for path, module in model.named_modules():
        if path.endswith(stays):
            module.register_forward_hook(first_output())
    whole = model(**inputs).logits[0]
    for token in range(6):
        mask = inputs["attention_mask"].index_fill(1, torch.tensor(token), 0)
        less = model(**inputs | {"attention_mask": mask}).logits[0]
        cases.close(found[token], (whole - less)[whole.argmax()])


def first_output():
    """A hook that gives what the module first gave, at every call."""
    kept = []

    def hook(_module, _given, out):
        kept.append(out)
        return kept[0]

    return hook


def test_in_a_single_layer_nothing_follows_the_mask():
    found = held.leave_one_out(*one_text("bert", num_hidden_layers=1))
    for loss in found.values():
        cases.close(loss, found[held.LOO])


def test_through_values_and_through_scores_is_the_whole():
    model, inputs = one_text("bert")
    pairs = held.parts(model, inputs)
    assert pairs.keys() == set(pairs)
    loo = attribute(model, inputs, "loo").relevance[0]
    rest, whole = pairs[f"the rest, with {held.LOO}"]
    by_values, _ = pairs[f"{held.VALUES}, with {held.LOO}"]
    cases.close(rest + by_values, loo)
    cases.close(whole, loo)


@pytest.fixture(scope="module")
def images():
    return torch.rand(3, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


TARGET = torch.tensor([0, 3, 1])
ORDERS = {"AttnLRP, qk_first": "qk_first", "AttnLRP, kv_first": "kv_first"}


def linear_attention():
    model = LinearAttention(tokens=9, width=5, classes=4).double()
    rule = lambda x, order, eps: x * cotangent(model, x, TARGET, factorization=order, eps=eps)
    return model, model, rule


def pixel_network():
    """As ``linear_attention``, with a bias wherever there can be one."""
    specification = pixel_attention.Specification(
        embedding="own", embedding_bias=True, positions="learned", qkv_bias=True, scale="width",
        pooling="flatten", input="unit",
    )  # fmt: skip
    model = pixel_attention.PixelAttention(specification, tokens=9, width=4, classes=4).double()

    def rule(x, order, eps):
        chosen = pixel_attention.GRADIENT if eps is None else pixel_attention.Rules(eps=eps)
        found = pixel_attention.relevance(model, x, TARGET, factorization=order, rule=chosen)
        return found["pixel"]

    return model, partial(pixels.logits_of, model), rule


@pytest.fixture(scope="module", params=[linear_attention, pixel_network])
def network(request):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return request.param()


def test_shares_of_a_linear_block_are_attnlrp_of_its_factorizations(network, images):
    model, logits, rule = network
    found = pixels.by_shares(model, logits, images, TARGET)
    for name, order in ORDERS.items():
        cases.close(found[name], rule(images, order, 0.0))


def test_merged_linear_attention_is_a_third_of_gradient_times_pixel_for_both_orders(
    network, images
):
    model, logits, rule = network
    found = pixels.by_shares(model, logits, images, TARGET)["merged"]
    for order in FACTORIZATIONS:
        cases.close(found, rule(images, order, None) / 3)


def untrained(*, seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LinearAttention(width=4).double().requires_grad_(requires_grad=False)


def test_networks_on_digits_are_measured_and_put_together(monkeypatch, capsys):
    few = digits.images()["test"][0][:3]
    monkeypatch.setattr(digits, "images", lambda: {"test": (few, None)})
    monkeypatch.setattr(digits, "train", untrained)
    pixels.main([])
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [line[1] for line in lines] == [*pixels.SHARES, "Integrated Gradients"]
    want = []
    for seed in experiment.SEEDS:
        model = untrained(seed=seed)
        target = model(few).argmax(dim=1)
        lrp = few * cotangent(model, few, target, factorization="qk_first", eps=0.0)
        loo = methods.leave_one_out(model, few, target)
        want += [np.corrcoef(*pair)[0, 1] for pair in zip(lrp, loo, strict=True)]
    assert lines[0][2].split()[0] == f"{np.mean(want):.3f}"


def test_networks_on_mnist_are_the_main_ones_of_the_sweep(tmp_path, monkeypatch):
    save(tmp_path, arrays(train=640))
    grid = mnist.declared(reduced=True)
    grid = replace(grid, analysis=grid.analysis | {"epsilon": 0.0})
    monkeypatch.setattr(mnist, "declared", lambda: grid)
    (found,) = pixels.of_mnist(tmp_path)
    swept = mnist.measure(grid, ("main", 0), mnist.load(data_dir=tmp_path))
    for keep in ("all", "ink"):
        for name, order in ORDERS.items():
            r = swept[f"AttnLRP {order} vs LOO, pixel, inside, raw, {keep}"].to_numpy()
            np.testing.assert_allclose(found[name][keep], r, atol=1e-9)
        r = swept[f"IG vs LOO, zero image, raw, {keep}"].to_numpy()
        np.testing.assert_allclose(found["Integrated Gradients"][keep], r, atol=1e-9)


def test_sentences_are_measured_by_rule(capsys):
    texts.main(["embedded", "--examples", "3"])
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [line[1] for line in lines] == [*texts.RULES, texts.LOO]
    assert lines[-1][2:4] == ["1.000", "1.000"]


def test_statistics_are_of_each_text_and_leave_padding_out():
    loo = np.array([[1.0, 2.0, 4.0, 9.0], [5.0, 1.0, 2.0, 3.0]])
    found = np.array([[4.0, 2.0, 1.0, -9.0], [2.0, -1.0, -2.0, -3.0]])
    present = np.array([[True, True, True, False], [True] * 4])
    special = np.array([[True, False, False, True], [True, False, False, False]])
    got = texts.statistics(found, loo, present, special)
    want = np.corrcoef(found[0, :3], loo[0, :3])[0, 1]
    np.testing.assert_allclose(got["all"][0], want)
    np.testing.assert_allclose(got["content"], [-1, -1])
    np.testing.assert_allclose(got["special"], [4 / 7, 2 / 8])
