"""The reference's BERT: forward pass and relevance."""

import numpy as np
import pytest
import torch

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, Composite, UnassignedOperation
from tests.oracles import bert, bert_relevance
from tests.support import cases


def tiny(**options):
    """A random two-layer BERT with three labels, and its parameters for the reference."""
    stock = cases.tiny_bert(attn_implementation="eager", **options)
    return stock, cases.reference_of(stock)


@pytest.fixture(scope="module")
def pretrained():
    ids = cases.encode(cases.SENTENCES[:1])["input_ids"][0].tolist()
    return cases.load_embedded("eager"), bert.load(cases.EMBEDDED), ids


def stock_logits(stock, ids, *, types=None, keep=None):
    batch = {"input_ids": ids, "token_type_ids": types, "attention_mask": keep}
    tensors = {name: torch.tensor([x]).long() for name, x in batch.items() if x is not None}
    with torch.no_grad():
        return stock(**tensors).logits[0].numpy()


IDS, TYPES = [2, 7, 1, 5, 7, 3], [0, 0, 0, 1, 1, 1]
KEEP = [True, True, False, True, True, True]


def check_forward(stock, model, ids, **options):
    types, keep = options.get("types"), options.get("keep")
    got = bert.forward(model, ids, token_type_ids=types, keep=keep)["classifier"]
    np.testing.assert_allclose(got, stock_logits(stock, ids, **options), rtol=0, atol=1e-10)


def test_the_forward_pass_is_that_of_transformers(pretrained):
    check_forward(*pretrained)
    check_forward(*pretrained, keep=[n != 3 for n in range(len(pretrained[-1]))])


@pytest.mark.parametrize("act", sorted(bert.ACTIVATIONS))
def test_the_forward_pass_of_a_tiny_model_is_that_of_transformers(act):
    stock_and_model = tiny(hidden_act=act, layer_norm_eps=0.25)  # so large that it matters
    check_forward(*stock_and_model, IDS, types=TYPES, keep=KEEP)


# Relevance of the whole model, against an independent implementation: input x modified gradient.


def scale_gradient(y, factor):
    """y, with the gradient that passes through it multiplied by ``factor``."""
    factor = factor.detach()
    return y * factor + (y * (1 - factor)).detach()


def damped(z, eps, *, halves=1):
    """The gradient form of the stabilised denominator: z / (halves z + eps sign z)."""
    return scale_gradient(z, z / (halves * z + eps * torch.where(z >= 0, 1.0, -1.0)))


def modified_gradient(model, ids, types, keep, *, target, eps, value_only):
    """Channels at the sum of embeddings, and the shares of word, position and type per token."""
    w = {name: torch.tensor(array) for name, array in model.parameters.items()}
    heads = model.num_attention_heads

    def linear(name, x):
        return damped(x @ w[f"{name}.weight"].T + w[f"{name}.bias"], eps)

    def norm(name, x):
        std = (x.var(-1, keepdim=True, correction=0) + model.layer_norm_eps).sqrt().detach()
        y = (x - x.mean(-1, keepdim=True)) / std
        return damped(y * w[f"{name}.weight"] + w[f"{name}.bias"], eps)

    def slope(function, x):
        return x * (function(x) / x).detach()

    def heads_of(x):
        return x.unflatten(-1, (heads, -1)).transpose(0, 1)

    table = "bert.embeddings.{}_embeddings.weight".format
    leaves = [w[table("word")][ids], w[table("position")][: len(ids)]]
    leaves = [x.requires_grad_() for x in (*leaves, w[table("token_type")][types])]
    embedded = sum(leaves)
    embedded.retain_grad()
    x = norm("bert.embeddings.LayerNorm", damped(embedded, eps))
    mask = torch.where(torch.tensor(keep), 0.0, -torch.inf)
    for layer in range(model.num_layers):
        at = f"bert.encoder.layer.{layer}.".__add__
        q, k, v = (
            heads_of(linear(at(f"attention.self.{n}"), x)) for n in ("query", "key", "value")
        )
        z = damped(q @ k.mT / q.shape[-1] ** 0.5, eps, halves=2)
        a = (z + mask).softmax(-1)
        o = damped(a.detach() @ v, eps) if value_only else damped(a @ v, eps, halves=2)
        o = linear(at("attention.output.dense"), o.transpose(0, 1).flatten(1))
        x = norm(at("attention.output.LayerNorm"), damped(o + x, eps))
        h = slope(torch.nn.functional.gelu, linear(at("intermediate.dense"), x))
        x = norm(at("output.LayerNorm"), damped(linear(at("output.dense"), h) + x, eps))
    pooled = slope(torch.tanh, linear("bert.pooler.dense", x[0]))
    linear("classifier", pooled)[target].backward()
    shares = [(x * x.grad).detach().numpy().sum(-1) for x in leaves]
    # Undo the damping of the sum itself: its relevance is read before the rule of the sum.
    before = embedded.grad * (embedded + eps * torch.where(embedded >= 0, 1.0, -1.0))
    return before.detach().numpy(), *shares


def check_relevance(*, composite, eps, target=1):
    _, model = tiny()
    options = {"target": target, "eps": eps}
    got = bert_relevance.relevance(
        model, IDS, composite=composite, token_type_ids=TYPES, keep=KEEP, **options
    )
    value_only = composite is CP_LRP
    want = modified_gradient(model, IDS, TYPES, KEEP, value_only=value_only, **options)
    parts = (got.channels, got.word, got.position, got.type)
    for part, exact in zip(parts, want, strict=True):
        np.testing.assert_allclose(part, exact, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(got.tokens, want[0].sum(-1), rtol=1e-8, atol=1e-10)
    return got


@pytest.mark.parametrize("eps", [0.0, 0.25])
@pytest.mark.parametrize("composite", [ATTNLRP, CP_LRP], ids=lambda c: c.name)
def test_relevance_is_input_times_modified_gradient(composite, eps):
    got = check_relevance(composite=composite, eps=eps)
    np.testing.assert_array_equal(got.channels[2], 0)  # masked, so that nothing reads it
    assert np.abs(got.tokens[KEEP]).min() > 1e-6


@pytest.mark.parametrize("target", [0, 2])
def test_relevance_starts_at_the_logit_that_is_asked_for(target):
    got = check_relevance(composite=ATTNLRP, eps=0.25, target=target)
    assert got.target == target


def test_relevance_starts_at_the_predicted_logit_if_none_is_asked_for():
    _, model = tiny()
    got = bert_relevance.relevance(model, IDS, composite=ATTNLRP)
    assert got.logit == bert.forward(model, IDS)["classifier"].max()


NO_BIAS = Composite(
    "every operation conserves",
    CP_LRP.rules | {kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS, kinds.LAYER_NORM: kinds.IDENTITY},
)


def test_without_biases_and_deviations_the_logit_is_conserved():
    _, model = tiny()
    got = bert_relevance.relevance(model, IDS, composite=NO_BIAS)
    np.testing.assert_allclose(got.tokens.sum(), got.logit, rtol=1e-6)


def test_an_operation_without_a_rule_is_named():
    _, model = tiny()
    rules_but = {kind: rule for kind, rule in ATTNLRP.rules.items() if kind != kinds.SOFTMAX}
    with pytest.raises(UnassignedOperation, match=r"layer\.1\.attention\.self"):
        bert_relevance.relevance(model, IDS, composite=Composite("no softmax", rules_but))
