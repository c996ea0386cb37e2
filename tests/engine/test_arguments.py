"""Two ways to write one operation of torch have one relevance, whatever its arguments are."""

import pytest
import torch
from torch.nn import functional

from axioms.composites import ATTNLRP, CP_LRP, GRADIENT_X_INPUT, UnassignedOperation
from numeric import attribute
from numeric.engine.marks import TOKEN_TYPE, marked
from tests.support import cases
from tests.support.audits import behind
from tests.support.changes import then

WIDTH = 24
DRAWN = torch.Generator().manual_seed(0)
MEAN, VARIANCE, WEIGHT, BIAS = torch.rand(4, WIDTH, generator=DRAWN).double() + 0.5
PROTOTYPES = torch.randn(WIDTH, 6, generator=DRAWN).double()
BUILT_IN = (False, 0.1, 1e-5, False)  # training, momentum, eps, cudnn
EXPERTS = torch.randn(WIDTH, 3, generator=DRAWN).double()


def by_channel(norm, *given):
    """Applies a norm of batches to (batch, channel, token)."""
    return lambda x: norm(x.mT, *given).mT


def similar(x, other):
    return torch.cosine_similarity(x.reshape(-1, WIDTH, 1), other) @ PROTOTYPES.T + x


def modulated(x, norm):
    scale, shift = (torch.tanh(x).sum((0, 1)), torch.sigmoid(x).sum((0, 1)))
    return norm(x, scale, shift)


def dispatched(x, chosen):
    weights = torch.softmax(x @ EXPERTS, -1)
    index = weights.topk(1, -1)[1]
    mask = torch.zeros_like(weights).scatter_(-1, chosen(index), 1.0)
    return mask @ (mask.mT @ x)


def written(x, write):
    scores = x @ x.mT
    return torch.softmax(write(scores, x.sum(-1)), -1) @ x


def in_place(scores, sink):
    scores[..., 0] = sink
    return scores


def in_a_view(scores, sink):
    scores.view(-1, scores.shape[-1])[:, 0] = sink.reshape(-1)
    return scores


WAYS = {
    "quotient that is rounded": (
        lambda x: torch.div(x, 0.05, rounding_mode="floor"), lambda x: (x / 0.05).floor()
    ),
    "function of a norm of batches": (
        by_channel(torch.batch_norm, WEIGHT, BIAS, MEAN, VARIANCE, *BUILT_IN),
        by_channel(functional.batch_norm, MEAN, VARIANCE, WEIGHT, BIAS),
    ),
    "similarity to several": (
        lambda x: similar(x, PROTOTYPES),
        lambda x: similar(x, PROTOTYPES.expand(x.shape[0] * x.shape[1], WIDTH, 6)),
    ),
    "norm with weights that depend on the input": (
        lambda x: modulated(x, lambda x, a, b: functional.layer_norm(x, (WIDTH,), a, b)),
        lambda x: modulated(x, lambda x, a, b: functional.layer_norm(x, (WIDTH,)) * a + b),
    ),
    "tokens that a router chose": (
        lambda x: dispatched(x, lambda index: index),
        lambda x: dispatched(x, lambda index: torch.tensor(index.tolist())),
    ),
    "scores with a column of their own, in a view": (
        lambda x: written(x, in_a_view), lambda x: written(x, in_place)
    ),
    "scores with a column of their own": (
        lambda x: written(x, in_place),
        lambda x: written(x, lambda s, sink: torch.cat([sink[..., None], s[..., 1:]], -1)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("composite", [ATTNLRP, CP_LRP, GRADIENT_X_INPUT], ids=lambda x: x.name)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:relevance of examples")  # is amplified
def test_both_ways_have_one_relevance(way, composite):
    one, other = (attribute(*behind(step), composite, target=1) for step in WAYS[way])
    assert torch.allclose(one.logit, other.logit)
    torch.testing.assert_close(one.relevance, other.relevance, rtol=1e-8, atol=1e-10)


def test_a_quotient_of_two_activations_is_not_rounded():
    with pytest.raises(UnassignedOperation, match="div with rounding_mode"):
        attribute(*behind(lambda x: torch.div(x, x * x, rounding_mode="trunc")), ATTNLRP)


def test_a_part_of_a_product_is_not_written_into():
    def write(scores, sink):
        scores[..., 0].add_(torch.ones(()).double().expand(scores.shape[:-1]))
        return scores

    with pytest.raises(UnassignedOperation, match="a part of a product"):
        attribute(*behind(lambda x: written(x, write)), ATTNLRP, target=1)


SUMS = {
    "scaled": (lambda x, y: torch.add(x, y, alpha=0.1), lambda x, y: x + 0.1 * y),
    "scaled in place": (lambda x, y: x.add_(y, alpha=0.1), lambda x, y: x + 0.1 * y),
    "less": (lambda x, y: torch.sub(x, y, alpha=2), lambda x, y: x + -2 * y),
    "taken away": (lambda x, y: y - x, lambda x, y: x * -1 + y),
    "scaled itself": (lambda x, y: torch.add(y, x, alpha=3), lambda x, y: x * 3 + y),
}


@pytest.mark.parametrize("share", ["embedding", "word", "token type"])
@pytest.mark.parametrize("way", SUMS)
def test_embeddings_grow_by_what_torch_adds(way, share):
    def found(add):
        model, inputs = cases.tiny_bert(), cases.tiny_batch()
        table = model.bert.embeddings.position_embeddings.weight.detach()
        kinds = model.bert.embeddings.token_type_embeddings(torch.zeros(1, dtype=torch.long))
        typed = lambda x: x + marked(kinds.detach().expand_as(x).clone(), TOKEN_TYPE)
        change = then(lambda x: add(typed(x), table[: x.shape[1]].expand_as(x)))
        change(model.bert.embeddings.word_embeddings)
        if share == "token type":
            return attribute(model, inputs, positions="signed").details[share]
        return attribute(model, inputs, share=share).relevance

    one, other = map(found, SUMS[way])
    torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)
