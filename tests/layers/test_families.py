"""Every family is explained as its equations say, unmodified, at the limit epsilon = 0."""

import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface, masking_utils
from transformers.models.gemma4 import modeling_gemma4

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, GRADIENT_X_INPUT, Composite, bypass_softmax
from numeric import attribute
from numeric.engine.engine import Propagation
from numeric.methods.catalogue import METHODS
from tests.census.build import CAUSAL, with_inputs
from tests.census.measure import conditions
from tests.support import cases
from tests.support.cases import ALL, ENCODERS, ROTARY, SINGLE, close
from tests.support.traces import assert_same, snapshot

COMPOSITES = {"attnlrp": ATTNLRP, "cp-lrp": CP_LRP}


def changed(composite, **rules):
    return Composite("changed", {**composite.rules, **rules})


@pytest.mark.parametrize("name", ALL)
def test_the_logits_are_those_of_the_stock_model(name):
    for dtype, tolerance in ((torch.float32, 0), (torch.float64, SINGLE if name in ROTARY else 0)):
        model, inputs = cases.family(name)
        model = model.to(dtype)
        for composite in COMPOSITES.values():
            with Propagation(model, composite) as tap:
                logits = tap.model(**inputs).logits
            close(logits, model(**inputs).logits, tolerance=tolerance)


def gradient_x_input(model, inputs, path, target):
    """By a hook of its own, at the input of the module at ``path``."""
    seen = []
    hook = model.get_submodule(path).register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    logits = model(**inputs).logits
    hook.remove()
    (g,) = torch.autograd.grad(logits.gather(1, target[:, None]).sum(), seen)
    return (seen[0] * g).sum(-1).detach()


SUMS = {  # where nothing but the sum of all embeddings arrives
    "bert": "bert.embeddings.LayerNorm",
    "roberta": "roberta.embeddings.LayerNorm",
    "electra": "electra.embeddings.LayerNorm",
    "albert": "albert.embeddings.LayerNorm",
    "distilbert": "distilbert.embeddings.LayerNorm",
    "gpt2": "transformer.h.0",
    "vit": "vit.layers.0",
} | dict.fromkeys(ROTARY, "model.layers.0")


@pytest.mark.parametrize("name", ALL)
def test_without_rules_it_is_the_gradient_at_the_sum_of_the_embeddings(name):
    model, inputs = cases.family(name)
    a = attribute(model, inputs, GRADIENT_X_INPUT)
    want = gradient_x_input(model, inputs, SUMS[name], a.target)
    want = want * inputs.get("attention_mask", 1)
    close(a.relevance, want, tolerance=cases.tolerance(name))
    assert (want.abs() > 1e-12).sum() > 3 or name in ENCODERS  # where a LayerNorm follows, it is 0


def test_a_scaled_embedding_receives_what_functions_of_it_receive():
    """Gemma 4's norms raise a mean of squares to a power; no rule holds the result."""
    with conditions():
        model, batch = with_inputs("gemma4_text", CAUSAL)
        text = cases.first(batch)
        found = attribute(model, text, GRADIENT_X_INPUT, share="embedding")
        seen = []
        model.model.embed_tokens.register_forward_hook(lambda _m, _x, y: seen.append(y))
        (c,) = torch.autograd.grad(model(**text).logits[0, -1, found.target[0]], seen)
        close(found.relevance, (seen[0] * c).sum(-1).detach())


@pytest.mark.parametrize("power", [torch.pow, lambda x, _: 1 / x.pow(0.5), lambda x, _: x**-0.5])
def test_a_root_that_is_spelled_as_a_power_is_held_as_any_deviation(monkeypatch, power):
    def norm(root):
        spelled = lambda _, x: x * root(x.pow(2).mean(-1, keepdim=True) + 1e-6, -0.5)
        monkeypatch.setattr(modeling_gemma4.Gemma4RMSNorm, "_norm", spelled)
        return attribute(model, batch).relevance

    with conditions():
        model, batch = with_inputs("gemma4_text", CAUSAL)
        close(norm(power), norm(lambda x, _: x.rsqrt()))


def kinds_of(model, inputs):
    """Kinds of the operations that run; a composite with a layer of its own notes them."""
    noting = Composite("noting", CP_LRP.rules, layers={0: {}})
    with Propagation(model, noting) as rules:
        model(**inputs)
    return {operation.kind for operation in rules.book.recorded}


@pytest.mark.parametrize("name", ALL)
def test_without_biases_value_only_lrp_adds_up_to_the_logit(name):
    model, inputs = cases.without_biases(name)
    a = attribute(model, inputs, CP_LRP)
    close(a.relevance.sum(1), a.logit)


LOSING = {  # kind -> a rule that does not conserve
    kinds.LAYER_NORM: kinds.GRADIENT,
    kinds.RMS_NORM: kinds.GRADIENT,
    kinds.ACTIVATION: kinds.GRADIENT,
    kinds.PRODUCT: kinds.GRADIENT,
    kinds.READOUT: kinds.BILINEAR_EPSILON,
}


@pytest.mark.parametrize("name", ALL)
def test_with_one_losing_rule_it_does_not_add_up(name):
    model, inputs = cases.without_biases(name)
    for kind in kinds_of(model, inputs) & LOSING.keys():
        a = attribute(model, inputs, changed(CP_LRP, **{kind: LOSING[kind]}))
        assert (a.residual.abs() > 1e-3 * a.logit.abs()).all(), kind


def test_a_norm_keeps_its_gradient_wherever_a_composite_says_so():
    model, inputs = cases.family("qwen3")
    plain = {kinds.RMS_NORM: kinds.GRADIENT}
    want = attribute(model, inputs, changed(CP_LRP, **plain), 1).relevance
    rest = Composite("by layer", CP_LRP.rules, {0: plain, 1: plain}, {"model.norm": plain})
    assert torch.equal(attribute(model, inputs, rest, 1).relevance, want)
    norms = [path for path, m in model.named_modules() if "Norm" in type(m).__name__]
    by_module = Composite("by module", CP_LRP.rules, modules=dict.fromkeys(norms, plain))
    assert torch.equal(attribute(model, inputs, by_module, 1).relevance, want)
    last = Composite("last", CP_LRP.rules, modules={"model.norm": plain})
    held = attribute(model, inputs, CP_LRP, 1).relevance
    found = attribute(model, inputs, last, 1).relevance
    assert all((found - x).abs().max() > 1e-3 * x.abs().max() for x in (want, held))


def test_a_layer_norm_has_no_rule_of_other_norms():
    model, inputs = cases.family("bert")
    want = attribute(model, inputs, CP_LRP, 1).relevance
    given = changed(CP_LRP, **{kinds.RMS_NORM: kinds.GRADIENT})
    assert torch.equal(attribute(model, inputs, given, 1).relevance, want)


def half(a, b, multiply):
    """The product; each factor gets half of its gradient."""
    return (multiply(a, b.detach()) + multiply(a.detach(), b)) / 2


def attention_of(*, passes_softmax):
    """Eqs. 3 and 4 at the products themselves, or all to V, on whatever heads there are."""

    def attention(module, query, key, value, attention_mask, scaling=None, **_):
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
        scores = half(query, key.mT, torch.matmul) * (scaling or query.shape[-1] ** -0.5)
        weights = (scores if attention_mask is None else scores + attention_mask).softmax(-1)
        out = half(weights, value, torch.matmul) if passes_softmax else weights.detach() @ value
        return out.transpose(1, 2).contiguous(), weights

    return attention


AS_PLAIN = dict.fromkeys((kinds.SCORES, kinds.SOFTMAX, kinds.READOUT), kinds.GRADIENT)
PLAIN = {"attnlrp": changed(ATTNLRP, **AS_PLAIN), "cp-lrp": changed(CP_LRP, **AS_PLAIN)}


def spelled_out(name, method):
    """Relevance with the attention step inside of the attention, and the other rules as ever."""
    AttentionInterface.register("halves", attention_of(passes_softmax=method == "attnlrp"))
    AttentionMaskInterface.register("halves", masking_utils.eager_mask)
    model, inputs = cases.family(name, attn_implementation="halves")
    return attribute(model, inputs, PLAIN[method]).relevance


@pytest.mark.parametrize("method", COMPOSITES)
@pytest.mark.parametrize("name", ALL)
def test_shares_of_q_k_and_v_are_shares_at_the_products(name, method):
    model, inputs = cases.family(name)
    got, want = attribute(model, inputs, method).relevance, spelled_out(name, method)
    close(got, want)
    for other in {*COMPOSITES, "plain"} - {method}:
        wrong = attribute(model, inputs, COMPOSITES.get(other, PLAIN[method])).relevance
        assert (wrong - want).abs().max() > 1e-3 * want.abs().max(), other


@pytest.mark.parametrize("method", COMPOSITES)
@pytest.mark.parametrize("name", ENCODERS)
def test_a_small_epsilon_comes_near_the_limit(name, method):
    model, inputs = cases.family(name)
    limit = attribute(model, inputs, method).relevance
    close(attribute(model, inputs, method, epsilon=1e-10).relevance, limit, tolerance=1e-5)
    far = attribute(model, inputs, method, epsilon=0.25).relevance
    assert (far - limit).abs().max() > 1e-2 * limit.abs().max()


@pytest.mark.parametrize("name", ALL)
def test_every_method_leaves_the_model_as_it_was_or_refuses(name):
    model, inputs = cases.family(name)
    next(model.parameters()).requires_grad = False
    before = snapshot(model)
    for method in METHODS:
        try:
            assert attribute(model, inputs, method).relevance.isfinite().all()
        except ValueError:
            assert (name, method) in REFUSED
        else:
            assert (name, method) not in REFUSED
    assert_same(before, snapshot(model))


OF_TEXT = ("loo", "integrated-gradients", "mask-relevance", "budgeted-loo", "atman", "shapley")
REFUSED = {("vit", name) for name in OF_TEXT}


def alone(name, inputs, row):
    if name == "vit":
        return {"pixel_values": inputs["pixel_values"][row, None]}
    present = inputs["attention_mask"][row] == 1
    return {"input_ids": inputs["input_ids"][row, present][None]}


@pytest.mark.parametrize("method", [*COMPOSITES, "gradient-x-input", "attention-rollout"])
@pytest.mark.parametrize("name", ALL)
def test_neither_batch_nor_padding_matters(name, method):
    model, inputs = cases.family(name)
    both = attribute(model, inputs, method, target=[0, 2])
    for row, target in enumerate([0, 2]):
        one = attribute(model, alone(name, inputs, row), method, target=target).relevance[0]
        tolerance = 1e-9 if "rollout" not in method else SINGLE
        close(both.relevance[row, : len(one)], one, tolerance=tolerance)
        assert (both.relevance[row, len(one) :] == 0).all()


@pytest.mark.parametrize("name", ROTARY)
def test_rotary_decoders_may_be_padded_on_the_left(name):
    # GPT-2 as well, but its stock code then puts texts at later positions, and other logits.
    model, inputs = cases.family(name)
    right = attribute(model, inputs).relevance
    rolled = {key: x.clone() for key, x in inputs.items()}
    for x in rolled.values():
        x[1] = x[1].roll(2)
    left = attribute(model, rolled).relevance
    close(left[0], right[0])
    close(left[1].roll(-2), right[1], tolerance=SINGLE)  # angles are computed in float32


@pytest.mark.parametrize("name", ALL)
def test_lower_precision_gives_about_the_same(name):
    model, inputs = cases.family(name)
    want = attribute(model, inputs, target=0).relevance
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 0.5)):
        got = attribute(model.to(dtype), inputs, target=0).relevance
        assert got.dtype == torch.float32
        assert (got - want).abs().max() < tolerance * want.abs().max()


def test_all_depths_of_albert_share_layer_0():
    with pytest.raises(ValueError, match=r"layer 1, which .* its layers are 0 to 0"):
        attribute(*cases.family("albert"), bypass_softmax([1]))


@pytest.mark.parametrize("name", sorted(set(ALL) - {"albert"}))
def test_one_layer_may_have_rules_of_its_own(name):
    model, inputs = cases.family(name)
    results = [
        attribute(model, inputs, bypass_softmax(x)).relevance for x in ([], [0], [1], [0, 1])
    ]
    close(results[0], attribute(model, inputs, ATTNLRP).relevance)
    close(results[3], attribute(model, inputs, CP_LRP).relevance)
    assert min((a - b).abs().max() for a in results for b in results if a is not b) > 1e-3
