"""Models whose weights are in few bits, by hand and by the libraries that are installed."""

import copy
import gc

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForSequenceClassification

from benchmarks.research.speed.usage import peak_memory
from numeric import attribute, plan, propagation
from numeric.engine import packed
from tests.support import cases
from tests.support.traces import assert_same, snapshot
from tests.support.uses import BY_RULES, USES, assert_alike, put, relevance


class FewBits(Tensor):
    """Weights as torchao stores them, with a kernel that rounds its input and has no gradient."""

    @staticmethod
    def of(weight):
        step = weight.abs().max() / 127
        few = torch.Tensor._make_subclass(FewBits, (weight / step).round().detach())
        few.step = step
        return few

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is functional.linear:
            x, weight, bias = args
            return functional.linear((64 * x).round() / 64, weight.dequantize(), bias)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def dequantize(self):
        with torch._C.DisableTorchFunctionSubclass():
            return self.as_subclass(Tensor) * self.step


class ByHand(nn.Module):
    """The kernel's output as a linear map of its input, and constants that are its rounding."""

    def __init__(self, quantised, weight):
        super().__init__()
        self.quantised, self.weight = [quantised], weight

    def forward(self, x):
        with torch.no_grad():
            z = self.quantised[0](x)
        linear = functional.linear(x, self.weight)
        return linear + (z - linear).detach()


def in_few_bits(model):
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module._parameters["weight"] = FewBits.of(module.weight)
    return model


def by_torch_ao(model):
    if torch.backends.quantized.supported_engines == ["none"]:
        pytest.skip("this torch has no kernel for weights in few bits")
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8).eval()


def by_torchao(config, **options):
    def quantised(model):
        torchao = pytest.importorskip("torchao.quantization")
        given = {name: make() for name, make in options.items()}
        torchao.quantize_(model, getattr(torchao, config)(**given))
        return model

    return quantised


def by_quanto(weights):
    def quantised(model):
        quanto = pytest.importorskip("optimum.quanto")
        quanto.quantize(model, weights=getattr(quanto, weights))
        quanto.freeze(model)
        return model.eval()

    return quantised


def groups_of_16():
    from torchao.quantization.granularity import PerGroup

    return PerGroup(16)


FEW_BITS = {
    "by hand": in_few_bits,
    "torch.ao": by_torch_ao,
    "torchao, 8": by_torchao("Int8WeightOnlyConfig"),
    "torchao, 8 by 8": by_torchao("Int8DynamicActivationInt8WeightConfig"),
    "torchao, 4": by_torchao(
        "IntxWeightOnlyConfig", weight_dtype=lambda: torch.int4, granularity=groups_of_16
    ),
    "quanto, 8": by_quanto("qint8"),
    "quanto, 4": by_quanto("qint4"),
}


def weight_of(module):
    """The weight of a quantised module in full; None of other modules."""
    weight = getattr(module, "weight", None)
    weight = weight() if callable(weight) else weight
    return None if type(weight) in (type(None), nn.Parameter) else weight.dequantize().detach()


@pytest.mark.filterwarnings("ignore")  # torch.ao is deprecated, and torchao warns of much
@pytest.mark.parametrize("way", FEW_BITS)
def test_weights_in_few_bits_are_linear_maps_of_what_they_stand_for(way):
    model, inputs = cases.family("bert", hidden_size=32, intermediate_size=64)
    plain = model.float()
    quantised = FEW_BITS[way](copy.deepcopy(plain))
    by_hand = copy.deepcopy(plain)
    found = {path: weight_of(module) for path, module in quantised.named_modules()}
    for path, weight in found.items():
        if weight is not None:
            inner = quantised.get_submodule(path)
            put(by_hand, path, lambda _, inner=inner, w=weight: ByHand(inner, w))
    assert sum(weight is not None for weight in found.values()) == 14
    for method in BY_RULES:
        want = relevance(by_hand, inputs, method)
        assert_alike(relevance(quantised, inputs, method), want, rtol=1e-4)
        assert (relevance(plain, inputs, method) - want).abs().max() > 1e-3 * want.abs().max()
    assert relevance(quantised, inputs, epsilon=0.25).isfinite().all()
    loo = attribute(quantised, inputs, "loo", 1)
    assert loo.relevance.isfinite().all()
    with pytest.raises(ValueError, match=r"quantised weights in 14 modules.* no gradient"):
        attribute(quantised, inputs, "integrated-gradients")


# Where the product itself is hidden, a module of a known class shows its weight.


class HiddenProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, module):
        ctx.module = module
        return functional.linear((64 * x).round() / 64, module.dequantize(), module.bias)

    @staticmethod
    def backward(ctx, c):
        return c @ ctx.module.dequantize(), None


class Hidden(nn.Module):
    """A linear map as bitsandbytes and HQQ compute it."""

    def __init__(self, linear):
        super().__init__()
        self.bias, self.step = linear.bias, linear.weight.abs().max().item() / 127
        self.register_buffer("few", (linear.weight / self.step).round().to(torch.int8).detach())

    def dequantize(self):
        return self.few * self.step

    def forward(self, x):
        return HiddenProduct.apply(x, self)


def by_bitsandbytes(name, dequantize, **options):
    def hidden(linear):
        bnb = pytest.importorskip("bitsandbytes")
        cls = getattr(bnb.nn, name)
        few = cls(linear.in_features, linear.out_features, linear.bias is not None, **options)
        few.load_state_dict({key: x.detach().clone() for key, x in linear.state_dict().items()})
        few = few.to("cpu")
        return few, dequantize(bnb.functional, few.weight)

    return hidden


def by_hqq(linear):
    hqq = pytest.importorskip("hqq.core.quantize")
    config = hqq.BaseQuantizeConfig(nbits=4, group_size=32)
    options = {"compute_dtype": torch.float32, "device": "cpu", "del_orig": False}
    few = hqq.HQQLinear(linear, config, **options)
    return few, few.dequantize().detach()


HIDDEN = {
    "by hand": lambda linear: (few := Hidden(linear), few.dequantize()),
    "bitsandbytes, 4": by_bitsandbytes(
        "Linear4bit",
        lambda bnb, w: bnb.dequantize_4bit(w.data, w.quant_state),
        compute_dtype=torch.float32,
        compress_statistics=False,
        quant_type="nf4",
    ),
    "bitsandbytes, 8": by_bitsandbytes(
        "Linear8bitLt",
        lambda bnb, w: bnb.int8_vectorwise_dequant(w.data, w.SCB),
        has_fp16_weights=False,
    ),
    "hqq": by_hqq,
}


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setattr(packed, "LIBRARIES", {"torch", *packed.LIBRARIES})
    monkeypatch.setitem(packed.WEIGHTS, f"{Hidden.__module__}.Hidden", Hidden.dequantize)


@pytest.mark.filterwarnings("ignore")  # these libraries warn of much
@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("way", HIDDEN)
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_modules_that_hide_their_product_are_linear_maps_of_what_their_weights_stand_for(name, way):
    model, inputs = cases.family(name, hidden_size=64, intermediate_size=128)
    inputs = {key: x[:, :4] for key, x in inputs.items()}
    plain = model.float()
    hidden, by_hand = copy.deepcopy(plain), copy.deepcopy(plain)
    inner = [path for path, m in plain.named_modules() if type(m) is nn.Linear and "layer" in path]
    for path in inner:
        few, weight = HIDDEN[way](plain.get_submodule(path))
        put(hidden, path, lambda _, few=few: few)
        put(by_hand, path, lambda _, few=few, weight=weight: ByHand(few, weight))
    before = snapshot(hidden)
    for use in [*BY_RULES, "sweep"]:
        want = USES[use](by_hand, inputs)
        assert_alike(USES[use](hidden, inputs), want, rtol=1e-4)
        assert (USES[use](plain, inputs) - want).abs().max() > 1e-3 * want.abs().max()
    want = relevance(by_hand, inputs)
    assert_alike(relevance(hidden, inputs, checkpoint=True), want, rtol=1e-4)
    assert relevance(hidden, inputs, epsilon=0.25).isfinite().all()
    assert plan(hidden, inputs).refusal is None
    assert_same(before, snapshot(hidden))
    with torch.no_grad():  # bitsandbytes may then keep the scales of its weights in bfloat16
        hidden(**inputs)
    rounding = torch.finfo(torch.bfloat16).eps / 2
    assert_alike(relevance(hidden, inputs), relevance(by_hand, inputs), rtol=len(inner) * rounding)
    gap = attribute(hidden, inputs, "integrated-gradients", 1).details["completeness_gap"]
    assert gap.isfinite().all()
    with pytest.raises(
        ValueError, match=rf"{len(inner)} modules, first {inner[0]} .* attribute\(\)"
    ):
        propagation(hidden)


def test_weights_in_few_bits_are_never_in_full_all_at_once():
    """The way back through one more layer takes no memory for its weights."""
    sizes = dict(hidden_size=256, intermediate_size=256, vocab_size=50, num_attention_heads=2)
    inputs = {"input_ids": torch.tensor([[3, 4]]), "attention_mask": torch.ones(1, 2).long()}
    models = [
        in_few_bits(BertForSequenceClassification(BertConfig(**sizes, num_hidden_layers=n)).eval())
        for n in (2, 6)
    ]
    gc.collect()
    few, many = (peak_memory(lambda m=m: attribute(m, inputs, target=1)) for m in models)
    one = 4 * 256 * 256  # bytes of one of the six weights of a layer in full
    assert many - few < one
