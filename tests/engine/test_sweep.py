"""Many mixes of attention rules by layer from one forward pass equal one run for each."""

from dataclasses import replace
from itertools import chain, combinations

import pytest
import torch

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, IDENTITY_SOFTMAX, Composite, bypass_softmax
from benchmarks.experiments import rows, text
from numeric import attribute
from numeric import layer_mixes as sweep
from numeric.engine.engine import Propagation
from numeric.methods import amplification
from tests.support import cases, one_by_one
from tests.support.traces import assert_same, contains, failing, snapshot, watch

IDENTITY_NORMS = Composite("identity norms", ATTNLRP.rules | {kinds.LAYER_NORM: kinds.IDENTITY})
NO_SCORES = {kinds.SCORES: kinds.CONSTANT}
PLAIN = dict.fromkeys((kinds.SCORES, kinds.SOFTMAX, kinds.READOUT), kinds.GRADIENT)
PLAIN_ATTENTION = Composite("plain attention", ATTNLRP.rules | PLAIN)


def every_mix(depth):
    sets = chain.from_iterable(combinations(range(depth), n) for n in range(depth + 1))
    return [bypass_softmax(layers) for layers in sets]


def table_a3(depth):
    return [variant.method for variant in rows.load("figure2-sst2").composites(depth).values()]


def check(model, inputs, composites, target=None, **options):
    """Separate runs give the same in float64, to 1e-10 of the largest relevance."""
    found = sweep.sweep(model, inputs, composites, target, **options)
    assert len(found.relevance) == len(found.logit) == len(found.residual) == len(composites)
    for n, composite in enumerate(composites):
        alone = attribute(model, inputs, composite, target, **options)
        bound = 1e-10 * alone.relevance.abs().max().item()
        assert torch.equal(found.target, alone.target)
        for part in ("relevance", "logit", "residual"):
            got, want = getattr(found, part)[n], getattr(alone, part)
            torch.testing.assert_close(got, want, rtol=0, atol=bound, msg=composite.name)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_every_mix_of_four_layers_equals_its_own_run(batch, attention):
    tiny = cases.tiny_bert(num_hidden_layers=4, attn_implementation=attention)
    check(tiny, batch, every_mix(4))
    check(tiny, batch, every_mix(4)[::-1], [2, 0], share="word")


@pytest.mark.filterwarnings("ignore::numeric.methods.amplification.AmplifiedRelevance")
def test_mixes_within_the_identity_rule_at_the_softmax_equal_their_own_runs(batch):
    tiny = cases.tiny_bert(num_hidden_layers=3)
    mixes = [bypass_softmax(layers, IDENTITY_SOFTMAX) for layers in ([], [0], [1, 2], [0, 1, 2])]
    check(tiny, batch, [bypass_softmax([1]), *mixes, IDENTITY_SOFTMAX])
    both = replace(IDENTITY_SOFTMAX, layers={1: dict(ATTNLRP.rules)})
    with pytest.raises(ValueError, match="several rules at softmaxes"):
        sweep.sweep(tiny, batch, [both])


@pytest.mark.parametrize("name", [name for name in cases.FAMILIES if name != "albert"])
def test_every_family_whose_layers_run_once_can_be_swept(name):
    model, inputs = cases.family(name)
    check(model, inputs, [CP_LRP, *every_mix(2), PLAIN_ATTENTION])


@pytest.mark.parametrize("activation", [torch.nn.ReLU, torch.nn.SiLU])
def test_an_activation_in_place_is_like_any_other(activation):
    model, batch = cases.family("bert")
    composites = [ATTNLRP, CP_LRP, bypass_softmax([0])]
    found = {}
    for inplace in (False, True):
        for layer in model.bert.encoder.layer:
            layer.intermediate.intermediate_act_fn = activation(inplace=inplace).eval()
        swept = sweep.sweep(model, batch, composites).relevance
        found[inplace] = torch.stack([*swept, attribute(model, batch).relevance])
    torch.testing.assert_close(found[True], found[False], rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::numeric.methods.amplification.AmplifiedRelevance")
def test_composites_need_not_be_mixes_of_two(batch):
    tiny = cases.tiny_bert(num_hidden_layers=3)
    path = "bert.encoder.layer.1.attention.self"
    others = [
        IDENTITY_NORMS,
        replace(ATTNLRP, layers={0: PLAIN, 2: NO_SCORES}),
        replace(CP_LRP, layers={1: dict(ATTNLRP.rules)}),
        replace(ATTNLRP, modules={path: PLAIN}),
        replace(ATTNLRP, layers={1: {kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS}}),
        replace(IDENTITY_NORMS, layers={1: PLAIN}),
    ]
    check(tiny, batch, [ATTNLRP, *others, ATTNLRP])


def test_in_float32_the_sweep_differs_from_float64_by_rounding(embedded):
    exact, inputs = embedded["sdpa"], cases.encode(cases.SENTENCES)
    single = cases.load_embedded("sdpa").float()
    composites = table_a3(12)
    truth = sweep.sweep(exact, inputs, composites).relevance
    found = sweep.sweep(single, inputs, composites).relevance
    assert found.dtype == torch.float32
    # Each term of the inner products on a path is rounded, forth and back, and errors of either
    # sign add up as the root of their number: so on any processor, whatever its kernels.
    config = exact.config
    terms = 2 * config.num_hidden_layers * (5 * config.hidden_size + config.intermediate_size)
    unit = torch.finfo(torch.float32).eps / 2
    size = lambda x: x.square().mean().sqrt().item()
    assert 0 < size(found - truth) < terms**0.5 * unit * size(truth)


# Work


def count(monkeypatch, model, inputs, composites):
    """Forward passes, and vector-Jacobian products."""
    products, passes = [], []
    plain = torch.autograd.grad

    def counted(*arguments, **options):
        if options:  # slopes of activations at zero come without any
            products.append(options)
        return plain(*arguments, **options)

    monkeypatch.setattr(amplification, "warn", lambda *_given, **_options: None)
    monkeypatch.setattr(torch.autograd, "grad", counted)
    with watch(model, passes.append):
        sweep.sweep(model, inputs, composites)
    monkeypatch.undo()
    return len(passes), len(products)


def test_table_a3_takes_one_forward_pass_and_each_prefix_once(monkeypatch, embedded):
    composites, depth = table_a3(12), 12
    rules = [[layer in c.layers for layer in range(depth)] for c in composites]
    prefixes = [len({tuple(r[layer:]) for r in rules}) for layer in range(depth + 1)]
    assert prefixes == [34, 31, 28, 25, 22, 19, 16, 13, 10, 7, 4, 2, 1]
    # Relevance goes once from a layer's output to its Q, K and V, and once from there on.
    products = sum(prefixes[1:]) + sum(prefixes[:-1]) + len(composites)
    inputs = cases.encode(cases.SENTENCES[1:2])
    assert count(monkeypatch, embedded["sdpa"], inputs, composites) == (1, products)


def test_rules_that_differ_elsewhere_take_a_forward_pass_for_each_kind(monkeypatch, tiny, batch):
    composites = [*every_mix(2), IDENTITY_NORMS, replace(IDENTITY_NORMS, layers={1: PLAIN})]
    assert count(monkeypatch, tiny, batch, composites)[0] == 2
    assert count(monkeypatch, tiny, batch, [CP_LRP] * 3)[1] == 2 + 2 + 1


# Refusals, and no traces


def refused(model, inputs, composites, *parts, error=ValueError, **options):
    before = snapshot(model)
    with pytest.raises(error) as caught:
        sweep.sweep(model, inputs, composites, **options)
    assert_same(before, snapshot(model))
    contains(str(caught.value), *parts)


def test_a_model_that_runs_one_layer_several_times_is_refused_by_its_place():
    model, inputs = cases.family("albert")
    place = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention"
    refused(model, inputs, [ATTNLRP], "AlbertForSequenceClassification", place, "attribute()")


def test_numbered_layers_that_are_one_module_are_refused(tiny, batch):
    tiny.bert.encoder.layer[1] = tiny.bert.encoder.layer[0]
    refused(tiny, batch, [ATTNLRP], "bert.encoder.layer.1.attention.self")


def test_bad_arguments_are_refused(tiny, batch):
    refused(tiny, batch, [], "methods is empty")
    refused(tiny, batch, [ATTNLRP, bypass_softmax([0, 7])], "layer 7", "0 to 1")
    refused(tiny, batch, [ATTNLRP], "target [9] out of range", target=9)
    refused(tiny, {"input_ids": batch["input_ids"].float()}, [ATTNLRP], "dtype torch.float32")
    rules = {kind: rule for kind, rule in CP_LRP.rules.items() if kind != kinds.READOUT}
    with_hole = Composite("with a hole", rules)
    refused(tiny, batch, [ATTNLRP, with_hole], "with a hole", "readout", error=LookupError)


def test_relevance_that_is_not_finite_is_refused_by_composite_and_example(tiny, batch):
    # The classifier's inputs contribute exactly 0 to a logit that is all bias.
    tiny.classifier.weight.data[1] = 0
    rules = ATTNLRP.rules | {kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS}
    composites = [CP_LRP, Composite("without bias", rules)]
    places = "in example 0 by 'without bias'; example 1 by 'without bias': a denominator"
    refused(tiny, batch, composites, places, "epsilon=1e-6", target=1)


def test_the_model_is_as_it_was_also_after_an_exception(tiny, batch):
    before = snapshot(tiny)
    first = sweep.sweep(tiny, batch, every_mix(2)).relevance
    assert_same(before, snapshot(tiny))

    with failing(tiny):
        refused(tiny, batch, every_mix(2), "itself fails on this input", "in mid-forward")
    with torch.inference_mode():
        again = sweep.sweep(tiny, batch, every_mix(2)).relevance
    assert torch.equal(first, again)
    with Propagation(tiny, ATTNLRP):
        assert torch.equal(first, sweep.sweep(tiny, batch, every_mix(2)).relevance)


# Rows of the experiment


def test_rows_store_what_separate_runs_give():
    row = replace(rows.load("figure2-sst2"), curves=False)
    classifier = one_by_one.classifier()
    shard = [4, 0, 2]
    stored = text.maps(row, classifier, one_by_one.TEXTS, shard)
    batch, _ = text.in_batch(classifier, one_by_one.TEXTS, shard)
    n = 0
    for composite in table_a3(12):
        alone = attribute(classifier.model, batch, composite)
        for relevance, logit, residual in zip(
            alone.relevance, alone.logit, alone.residual, strict=True
        ):
            kept = stored["tokens"][n]
            assert stored["relevance"][n] == pytest.approx(relevance[:kept].tolist(), abs=1e-10)
            assert stored["logit"][n] == pytest.approx(logit.item(), abs=1e-10)
            assert stored["residual"][n] == pytest.approx(residual.item(), abs=1e-10)
            n += 1
    assert n == len(stored["relevance"])
