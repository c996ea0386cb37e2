"""``attribute``: the results of every method, batched or not, in every dtype and grad mode."""

import copy
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch

from axioms.composites import ATTNLRP
from numeric import attribute, attribute_each
from numeric.methods.catalogue import METHODS
from tests.support import cases

every_method = pytest.mark.parametrize("method", METHODS)


def single(batch, row):
    """One example of a batch without its padding."""
    n = int(batch["attention_mask"][row].nonzero().max()) + 1
    return {key: value[[row], :n] for key, value in batch.items()}


def close(got, want, *, tolerance=1e-10):
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


# Batches


@every_method
def test_a_batch_gives_what_its_texts_give_alone(tiny, batch, method):
    together = attribute(tiny, batch, method)
    for row in range(2):
        alone = attribute(tiny, single(batch, row), method)
        n = alone.relevance.shape[1]
        close(together.relevance[row, :n], alone.relevance[0])
        close(together.logit[row], alone.logit[0])
        close(together.residual[row], alone.residual[0])
        for key, value in alone.details.items():
            here = together.details[key][row]
            close(here[:n] if here.ndim else here, value[0])


@every_method
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_padding_is_worth_nothing_and_its_content_does_not_matter(batch, method, attention):
    model = cases.tiny_bert(attn_implementation=attention)
    got = attribute(model, batch, method).relevance
    counted = batch["attention_mask"] == 1
    counted[:, 0] &= method != "shapley"  # the first token always stays in view
    assert ((got != 0) == counted).all()
    batch["input_ids"][1, 3:] = 9
    close(attribute(model, batch, method).relevance, got)


@every_method
def test_the_residual_is_what_relevance_does_not_explain(tiny, batch, method):
    a = attribute(tiny, batch, method)
    close(a.residual, a.logit - a.relevance.sum(dim=1))
    with torch.no_grad():
        logits = tiny(**batch).logits
    close(a.logit, logits.max(dim=1).values)
    assert torch.equal(a.target, logits.argmax(dim=1))


@every_method
def test_token_types_are_honoured(tiny, batch, method):
    other = batch | {"token_type_ids": 1 - batch["token_type_ids"]}
    none = {key: value for key, value in batch.items() if key != "token_type_ids"}
    zero = batch | {"token_type_ids": torch.zeros_like(batch["token_type_ids"])}
    got, different = (attribute(tiny, x, method, 0).relevance for x in (batch, other))
    assert (got - different).abs().max() > 1e-3
    absent, zeros = (attribute(tiny, x, method, 0).relevance for x in (none, zero))
    assert torch.equal(absent, zeros)
    assert torch.equal(attribute(tiny, none | {"token_type_ids": None}, method, 0).relevance, zeros)


@every_method
def test_a_mask_with_a_hole_hides_one_token(tiny, batch, method):
    batch["attention_mask"][0, 2] = 0
    got = attribute(tiny, batch, method).relevance
    assert got[0, 2] == 0
    batch["input_ids"][0, 2] = 9
    close(attribute(tiny, batch, method).relevance, got)


@every_method
def test_a_mask_may_be_of_any_dtype(tiny, batch, method):
    want = attribute(tiny, batch, method).relevance
    for dtype in (torch.bool, torch.float32, torch.int32):
        given = batch | {"attention_mask": batch["attention_mask"].to(dtype)}
        assert torch.equal(attribute(tiny, given, method).relevance, want), dtype


# Targets and options


TARGETS = [0, 2, [0, 2], (0, 2), torch.tensor(2), torch.tensor([0, 2]), np.array([0, 2])]


SPELLED = [(target, "attnlrp") for target in [*TARGETS, torch.tensor([0, 2]).to(torch.int8)]]


@pytest.mark.parametrize(("target", "method"), [*SPELLED, *(([0, 2], x) for x in METHODS)], ids=str)
def test_a_target_is_a_class_or_one_class_per_example(tiny, batch, method, target):
    a = attribute(tiny, batch, method, target)
    assert a.target.tolist() == np.broadcast_to(np.asarray(target), 2).tolist()
    with torch.no_grad():
        close(a.logit, tiny(**batch).logits.gather(1, a.target[:, None])[:, 0])


def test_no_target_is_the_predicted_class(tiny, batch):
    a = attribute(tiny, batch)
    assert torch.equal(a.relevance, attribute(tiny, batch, target=a.target).relevance)
    assert (
        a.relevance - attribute(tiny, batch, target=(a.target + 1) % 3).relevance
    ).abs().max() > 0


def test_a_name_is_its_composite_and_the_options_are_reported(tiny, batch):
    named, given = attribute(tiny, batch, "attnlrp", epsilon=0.1), attribute(tiny, batch, ATTNLRP)
    used = {"epsilon": 0.1, "share": "embedding", "positions": None, "at": None, "channels": False}
    used |= {"checkpoint": False}
    assert (named.method, named.options) == (given.method, used)
    assert given.options == used | {"epsilon": 0.0}
    assert torch.equal(attribute(tiny, batch, ATTNLRP, epsilon=0.1).relevance, named.relevance)


@pytest.mark.parametrize(("method", "option"), [
    ("loo", "batch_size"), ("loo", "removal"), ("loo", "budget"), ("integrated-gradients", "steps"),
    ("shapley", "seed"), ("mask-relevance", "midpoint"),
])  # fmt: skip
def test_a_whole_number_of_numpy_is_one(tiny, batch, method, option):
    found, same = (attribute(tiny, batch, method, **{option: x}) for x in (np.int64(5), 5))
    assert found.relevance.equal(same.relevance)
    assert found.options == same.options
    assert type(found.options[option]) is int


def test_an_attribution_cannot_be_changed_and_compares_by_identity(tiny, batch):
    a, b = attribute(tiny, batch), attribute(tiny, batch)
    with pytest.raises(FrozenInstanceError):
        a.relevance = b.relevance
    assert a == a
    assert a != b


# Dtypes and grad modes


@every_method
def test_relevance_is_in_float32_or_the_wider_dtype_of_the_model(tiny, batch, method):
    want = attribute(tiny, batch, method, 0).relevance
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        a = attribute(copy.deepcopy(tiny).to(dtype), batch, method, 0)
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        tensors = (a.relevance, a.logit, a.residual, *a.details.values())
        found = {x.dtype for x in tensors if x.is_floating_point()}  # others are counts
        assert found == {wide}, dtype
        rounding = 100 * torch.finfo(dtype).eps * want.abs().max().item()
        torch.testing.assert_close(a.relevance.double(), want, rtol=0, atol=rounding)


MODES = {
    "no grad": torch.no_grad,
    "inference": torch.inference_mode,
    "grad": torch.enable_grad,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "default device": lambda: torch.device("meta"),
}


@every_method
def test_modes_of_the_caller_do_not_matter(tiny, batch, method):
    want = attribute(tiny.float(), batch, method, [0, 2]).relevance
    for name, mode in MODES.items():
        with mode():  # the tensors of a batch that is made inside have this mode
            inside = batch if name == "default device" else cases.tiny_batch()
            a = attribute(tiny, inside, method, [0, 2])
        assert torch.equal(a.relevance, want), name
        assert not any(x.requires_grad for x in (a.relevance, a.logit, a.residual)), name


# Single methods


def test_gradient_x_input_of_the_whole_embedding_is_zero(tiny, batch):
    # A LayerNorm follows, whose output does not change when its input is scaled (up to its
    # epsilon, 1e-12), so that the derivative along the embedding itself is 0 at every token.
    whole = attribute(tiny, batch, "gradient-x-input", share="embedding").relevance
    assert whole.abs().max() < 1e-8
    assert attribute(tiny, batch, "gradient-x-input").relevance.abs().max() > 0.1


def test_gradient_x_input_is_autograd_on_the_words(tiny, batch):
    words = tiny.get_input_embeddings()(batch["input_ids"]).detach().requires_grad_()
    rest = {key: value for key, value in batch.items() if key != "input_ids"}
    logits = tiny(inputs_embeds=words, **rest).logits
    (gradient,) = torch.autograd.grad(logits[:, 1].sum(), words)
    want = (words * gradient).sum(dim=-1).detach() * batch["attention_mask"]
    for epsilon in (0.0, 0.25):  # no rule, hence no stabiliser
        a = attribute(tiny, batch, "gradient-x-input", 1, epsilon=epsilon)
        close(a.relevance, want)


@pytest.mark.parametrize("baseline", ["zero", "pad"])
def test_integrated_gradients_are_complete(tiny, batch, baseline):
    fine, coarse = (
        attribute(tiny, batch, "integrated-gradients", steps=steps, baseline=baseline)
        for steps in (200, 1)
    )
    gap, logit = fine.details["completeness_gap"], fine.details["baseline_logit"]
    assert gap.abs().max() < 1e-6
    assert coarse.details["completeness_gap"].abs().max() > 1e-2
    close(fine.relevance.sum(dim=1), fine.logit - logit - gap)
    words = tiny.get_input_embeddings().weight
    start = torch.zeros_like(words[0]) if baseline == "zero" else words[0]
    rest = {key: value for key, value in batch.items() if key != "input_ids"}
    with torch.no_grad():
        logits = tiny(inputs_embeds=start.expand(2, 6, 8), **rest).logits
    close(logit, logits.gather(1, fine.target[:, None])[:, 0])


def test_rollout_is_the_product_of_mean_attentions(tiny, batch):
    eager = cases.tiny_bert(attn_implementation="eager")
    with torch.no_grad():
        first, second = (a.mean(dim=1) for a in eager(**batch, output_attentions=True).attentions)
    one = torch.eye(6).double()
    paper = attribute(tiny, batch, "attention-rollout").relevance
    residual = attribute(tiny, batch, "attention-rollout", variant="abnar-zuidema").relevance
    close(paper, (second @ first)[:, 0])
    close(residual, ((second + one) @ (first + one))[:, 0] / 4)
    for rows in (paper, residual):
        close(rows.sum(dim=1), torch.ones(2).double())
    assert (paper - residual).abs().max() > 0.1


def test_a_causal_model_is_explained_too(batch):
    model = cases.tiny_bert(is_decoder=True)
    for method in ("attnlrp", "cp-lrp"):
        a = attribute(model, batch, method).relevance
        assert (a[:, 1:] == 0).all()  # the first token, which is read, sees no other
        assert (a[:, 0] != 0).all()
        close(attribute(model, batch, method, epsilon=1e-13).relevance, a, tolerance=1e-7)


def test_results_share_no_options(tiny, batch):
    one, other = attribute_each(tiny, batch, targets=[0, 1])
    assert one.options == other.options
    assert one.options is not other.options
