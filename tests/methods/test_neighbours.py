"""Methods of other papers follow their formulas, written down again, and one package's numbers."""

import pytest
import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from axioms.composites import CP_LRP, GIM, LIBRAGRAD
from numeric import attribute
from tests.census.build import CAUSAL, CLASSES, with_inputs
from tests.census.measure import conditions
from tests.methods.test_mask_relevance import Watched, held, made, read, spelled_out
from tests.support.cases import close

ANY = [("roberta", CLASSES), ("distilbert", CLASSES), ("gpt2", CAUSAL), ("llama", CAUSAL)]
every_model = pytest.mark.parametrize(("name", "task"), ANY)
SCALES = 0.25, 0.25, 0.5  # of the gradients of queries, keys and values


def explained(*args, **options):
    with conditions():
        return attribute(*args, **options)


class Suppressed(Watched):
    """Every score of the key ``column`` times ``factor``, in every attention of a pass."""

    factor = 0.1

    def _weights(self, z):
        seen = z[..., self.column] > torch.finfo(z.dtype).min
        z = z.clone()
        z[..., self.column] *= torch.where(seen, self.factor, 1.0)
        return torch.softmax(z, dim=-1)


@every_model
@pytest.mark.parametrize("factor", [0.9, 1.0])
def test_atman_is_the_change_of_the_logit_when_scores_of_a_key_are_multiplied(name, task, factor):
    model, inputs = made(name, task)
    found = explained(model, inputs, "atman", factor=factor)
    words = inputs["attention_mask"].shape[1]
    want = torch.zeros_like(found.relevance)
    for k in range(words):
        mode = Suppressed(words, column=k)
        mode.factor = 1 - factor
        with torch.no_grad():
            less = read(model, inputs, found.target, watched=mode)
        want[:, k] = (found.logit - less) * inputs["attention_mask"][:, k]
    close(found.relevance, want)
    assert found.relevance.abs().max() > 0


REFUSED = {
    "scores less their largest": ("gpt_oss", "atman", "a factor below 1 then raises scores"),
    "a state in some layers": ("jamba", "attention-rollout", "weights in 1 of 2 layers"),
    "convolutions in some": ("lfm2_moe", "attention-rollout", "weights in 1 of 2 layers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_model_that_a_formula_does_not_fit_is_refused(case):
    name, method, said = REFUSED[case]
    with conditions(), pytest.raises(ValueError, match=said):
        attribute(*with_inputs(name, CAUSAL), method)


class Modified(TorchFunctionMode):
    """Gradients as a paper modifies them, in a pass whose fused attention is spelled out.

    softmax: (function, scores, axis) -> weights   scales: of the gradients of Q, K and V
    ratio: whether activations y are x times y / x, held
    """

    def __init__(self, softmax, scales, *, ratio=False):
        super().__init__()
        self.softmax, self.scales, self.ratio = softmax, scales, ratio

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention":
            qkv = [x * s + (x * (1 - s)).detach() for x, s in zip(args, self.scales, strict=True)]
            return spelled_out(*qkv, softmax=lambda z: self.softmax(torch.softmax, z), **kwargs)
        if name == "layer_norm":
            return held(*args, **kwargs)
        if name in ("gelu", "silu", "relu", "tanh") and self.ratio:
            return args[0] * (func(*args, **kwargs) / args[0]).detach()
        return func(*args, **kwargs)


def hold_modules(model, *, gates):
    """RMSNorm with its root mean square held; with ``gates`` half to each factor of a gated unit.

    GPT-2's GELU, which it spells out, has its ratio held then.
    """

    def norm(own):
        size = lambda x: (x.pow(2).mean(-1, keepdim=True) + own.variance_epsilon).sqrt().detach()
        return lambda x: own.weight * x / size(x)

    def unit(own):
        def forward(x):
            y = own.act_fn(own.gate_proj(x)) * own.up_proj(x)
            return own.down_proj(y / 2 + (y / 2).detach())

        return forward

    def ratio(own):
        whole = type(own).forward
        return lambda x: x * (whole(own, x) / x).detach()

    for module in model.modules():
        if gates and type(module).__name__ == "NewGELUActivation":
            module.forward = ratio(module)
        if type(module).__name__ == "LlamaRMSNorm":
            module.forward = norm(module)
        if gates and type(module).__name__ == "LlamaMLP":
            module.forward = unit(module)


def word_x_gradient(model, inputs, target, mode):
    words = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_()
    rest = {key: x for key, x in inputs.items() if key != "input_ids"}
    read(model, {"inputs_embeds": words, **rest}, target, watched=mode).sum().backward()
    return (words.grad * words).sum(-1).detach()


def warm(temperature):
    def run(softmax, z):
        tempered = temperature * softmax(z / temperature, -1)
        return softmax(z, -1).detach() + tempered - tempered.detach()

    return run


@every_model
def test_libragrad_times_the_word_is_cp_lrp(name, task):
    model, inputs = made(name, task)
    found = explained(model, inputs, LIBRAGRAD, share="word")
    close(found.relevance, explained(model, inputs, CP_LRP, share="word").relevance)
    hold_modules(model, gates=True)
    mode = Modified(lambda softmax, z: softmax(z, -1).detach(), (1, 1, 1), ratio=True)
    by_hand = word_x_gradient(model, inputs, found.target, mode)
    close(found.relevance, by_hand)


@every_model
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_gim_is_the_word_times_its_modified_gradient(name, task, temperature):
    model, inputs = made(name, task)
    found = explained(model, inputs, "gim", temperature=temperature)
    rules = explained(model, inputs, GIM, share="word")
    assert torch.allclose(found.relevance, rules.relevance) == (temperature == 1)
    hold_modules(model, gates=False)
    mode = Modified(warm(temperature), SCALES)
    by_hand = word_x_gradient(model, inputs, found.target, mode)
    close(found.relevance, by_hand)


@pytest.mark.parametrize(("name", "task"), ANY[:-1])
@pytest.mark.parametrize("fused", [False, True])
def test_gim_agrees_with_the_authors_package(name, task, fused, monkeypatch):
    """Its patches never meet in stock attention: a fused kernel calls no softmax in Python.

    There it is this project's composite, at temperature 1.  Spelled out, it is the method.
    """
    package = pytest.importorskip("gim", reason="pip install --no-deps gim-explain")
    model, inputs = made(name, task)
    found = explained(model, inputs, "gim", temperature=1.0 if fused else 2.0)
    if not fused:
        softmax = lambda z: functional.softmax(z, dim=-1)
        by_hand = lambda q, k, v, **given: spelled_out(q, k, v, softmax=softmax, **given)
        monkeypatch.setattr(functional, "scaled_dot_product_attention", by_hand)
        monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", by_hand)
    theirs = word_x_gradient(model, inputs, found.target, package.GIM(model))
    close(found.relevance, theirs)
