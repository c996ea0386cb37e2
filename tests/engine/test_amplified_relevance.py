"""Relevance far larger than the logit is warned of, with the operation that amplifies it."""

import warnings

import pytest
import torch

from axioms.composites import CP_LRP
from numeric import attribute, audit, sweep
from numeric.engine.marks import Chain
from numeric.methods import amplification
from numeric.methods.amplification import AmplifiedRelevance
from numeric.methods.catalogue import WITH_RULES
from numeric.methods.mask_relevance import GRADIENTS
from tests.support import cases
from tests.support.changes import ACT, LAYER, on, then

PLACE = LAYER(0) + ACT


def nearly_cancelling(function, rows):
    """Adds ``function`` of products whose sum nearly cancels in some rows of a batch."""

    def added(x):
        v = torch.linspace(-1, 2, x.shape[-1], dtype=x.dtype)
        fixed = x.detach()
        across = (fixed * v).sum(-1, keepdim=True) / fixed.square().sum(-1, keepdim=True) * fixed
        near = torch.zeros(len(x), 1, 1, dtype=x.dtype)
        near[rows] = 1 - 1e-5
        return x + function(torch.einsum("btc,btc->bt", x, v - near * across))[..., None]

    return added


def altered(function, rows):
    model, inputs = cases.family("bert")
    on(then(nearly_cancelling(function, rows)), PLACE)({"model": model})
    return model, inputs


@pytest.fixture
def identity_of_all(monkeypatch):
    """The former rule: the input gets all relevance, whatever the value at 0."""
    at_zero = Chain.at_zero
    monkeypatch.setattr(Chain, "at_zero", lambda chain: (None, at_zero(chain)[1]))


@pytest.fixture
def infinite():
    """A model with a function that is infinite at 0, and its inputs."""
    return altered(lambda x: torch.log(x.abs()), [0])


@pytest.fixture
def asked(monkeypatch):
    """The options of every pass whose gradients are compared with relevance."""
    found, real = [], amplification.lrp
    noted = lambda *given, **options: found.append(options) or real(*given, **options)
    monkeypatch.setattr(amplification, "lrp", noted)
    return found


@pytest.mark.usefixtures("identity_of_all")
@pytest.mark.parametrize("rows", [[1], [0, 1]])
def test_a_wrong_rule_is_warned_of_with_its_rows_and_its_place(rows):
    model, inputs = altered(torch.sigmoid, rows)
    with pytest.warns(AmplifiedRelevance) as found:
        attribute(model, inputs, "cp-lrp")
    (said,) = [str(each.message) for each in found]
    assert f"examples {rows} is amplified" in said
    assert f"einsum in {PLACE} (test_amplified_relevance.py:" in said
    assert found[0].filename == __file__


def test_by_the_rule_as_it_is_a_sigmoid_amplifies_nothing():
    model, inputs = altered(torch.sigmoid, [0, 1])
    for method in WITH_RULES:
        attribute(model, inputs, method)  # every warning is an error


def test_a_function_that_is_infinite_at_zero_is_warned_of_and_noted_by_the_audit(infinite):
    model, one = infinite[0], cases.first(infinite[1])
    with pytest.warns(AmplifiedRelevance, match="log|einsum"):
        attribute(model, one, "cp-lrp")
    (note,) = [x for x in audit(model, one, CP_LRP).notes if "amplified" in x]
    assert PLACE in note


def test_a_sweep_warns_its_caller_of_all_composites_once_and_shares_their_passes(infinite, asked):
    with pytest.warns(AmplifiedRelevance, match="so is relevance by 'cp-lrp'") as found:
        sweep(*infinite, ["attnlrp", "cp-lrp"])
    assert [each.filename for each in found] == [__file__]
    names = [options["composite"].name for options in asked]
    assert names == [GRADIENTS[x].name for x in ("held", "true")]


def test_a_checkpointed_call_stays_in_its_memory(infinite, asked):
    with pytest.warns(AmplifiedRelevance, match="the operation that amplifies it is unknown"):
        attribute(*infinite, "cp-lrp", checkpoint=True)
    assert [options["checkpoint"] for options in asked] == [True, True]


def test_a_test_that_memory_does_not_allow_is_no_verdict(infinite, monkeypatch):
    def full(*_given, **_options):
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(amplification, "lrp", full)
    said = "not tested for amplification, for want of memory"
    for explain in (attribute, lambda *given: sweep(*given[:2], ["cp-lrp"])):
        with pytest.warns(AmplifiedRelevance, match=said):
            explain(*infinite, "cp-lrp")
    model, inputs = infinite
    assert any(said in note for note in audit(model, cases.first(inputs), CP_LRP).notes)


@pytest.mark.parametrize("share", ["embedding", "word"])
def test_relevance_is_compared_with_gradients_of_its_own_share(share, infinite, asked):
    with pytest.warns(AmplifiedRelevance):
        attribute(*infinite, "cp-lrp", share=share)
    assert {options["share"] for options in asked} == {share}


@pytest.mark.filterwarnings("ignore::lrp_axioms.numeric.methods.amplification.AmplifiedRelevance")
@pytest.mark.parametrize("rows", [[0], [1], [0, 1]])
def test_the_gradients_of_no_other_rows_are_taken(rows, monkeypatch):
    model, inputs = altered(lambda x: torch.log(x.abs()), rows)
    seen, real = [], amplification.lrp
    noted = lambda m, batch, *more, **how: seen.append(batch.ids) or real(m, batch, *more, **how)
    monkeypatch.setattr(amplification, "lrp", noted)
    attribute(model, inputs, "cp-lrp")
    assert len(seen) == 2
    for ids in seen:
        assert torch.equal(ids, inputs["input_ids"][rows])


def test_functions_of_jit_elsewhere_do_not_hinder_the_search_for_the_place(infinite):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(torch.nn.Identity())
    with pytest.warns(AmplifiedRelevance, match="amplified"):
        attribute(*infinite, "cp-lrp", epsilon=1e-6)


def test_gradient_times_input_of_0_in_front_of_a_norm_is_no_reason():
    """BLOOM and Swin have such norms, and a small logit makes their relevance look large."""
    model, inputs = cases.family("bert")
    embeddings = model.bert.embeddings
    embeddings.word_embeddings.weight.data.mul_(1000)  # the norm removes this factor
    with torch.no_grad():
        logits = model(**inputs).logits
        model.classifier.bias.sub_(logits[0] - 1e-3)
    attribute(model, inputs, "cp-lrp", 0)  # every warning is an error


def test_there_is_one_pass_where_nothing_is_amplified_and_four_where_something_is():
    for function, passes in ((torch.tanh, 1), (lambda x: torch.log(x.abs()), 4)):
        model, inputs = altered(function, [1])
        seen = []
        model.register_forward_pre_hook(lambda *_, seen=seen: seen.append(1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AmplifiedRelevance)
            attribute(model, inputs, "cp-lrp")
        assert len(seen) == passes
