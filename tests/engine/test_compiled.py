"""Compiled LRP is attribute's, and leaves the model as it was."""

import re

import pytest
import torch

import numeric
from numeric import attribute
from tests.census.build import MIXED, with_inputs
from tests.support import cases, tools, traces

# The compiler itself makes an instance of each autograd.Function that it traces.
pytestmark = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")

EAGER = "aot_eager"  # needs no C++ compiler


@pytest.fixture(autouse=True)
def forget():
    yield
    torch._dynamo.reset()


def one_layer():
    """Most of the time is the compiler's, and grows with the layers."""
    return cases.tiny_bert(num_hidden_layers=1)


def assert_same(found, want):
    assert found.method == want.method
    assert (found.target == want.target).all()
    for name in ("relevance", "logit", "residual"):
        torch.testing.assert_close(
            getattr(found, name), getattr(want, name), rtol=0, atol=1e-5, msg=name
        )
    assert {k: x.tolist() for k, x in found.details.items()} == {
        k: x.tolist() for k, x in want.details.items()
    }


bert = lambda: (one_layer(), cases.tiny_batch())
GIVEN = {
    "no rules": (bert, "gradient-x-input", {}),
    "finite epsilon": (bert, "cp-lrp", {"epsilon": 0.1, "share": "word"}),
    "distilbert": (lambda: cases.family("distilbert", n_layers=1), "attnlrp", {}),
    "gpt2, cp-lrp": (lambda: cases.family("gpt2", n_layer=1), "cp-lrp", {}),
    "llama": (lambda: cases.family("llama"), "attnlrp", {}),
    "vit": (lambda: cases.family("vit", num_hidden_layers=1), "attnlrp", {}),
}


@pytest.mark.parametrize("name", GIVEN)
def test_it_is_what_attribute_finds(name):
    make, method, options = GIVEN[name]
    model, batch = make()
    with numeric.compiled(model, method, **options, backend=EAGER) as explain:
        for target in (None, [0, 2]):
            assert_same(explain(batch, target), attribute(model, batch, method, target, **options))


OF_ONE = [("bert", "cp-lrp", "num_hidden_layers"), ("gpt2", "attnlrp", "n_layer")]


@pytest.mark.parametrize(("name", "method", "layers"), OF_ONE)
def test_a_graph_for_all_shapes_finds_the_same(name, method, layers):
    model, batch = cases.family(name, **{layers: 1})
    ids = torch.cat([batch["input_ids"]] * 3)[:5, :5].clamp(min=2)  # no padding
    traced = []
    look = lambda graph, inputs: traced.append(graph) or graph.forward
    with numeric.compiled(model, method, backend=look, dynamic=True) as explain:
        # A square does not show that its sides may differ, and 1 may be broadcast.
        for size, graphs in [((4, 4), 1), ((4, 5), 2), ((2, 3), 2), ((5, 5), 2), ((1, 4), 3)]:
            part = {"input_ids": ids[: size[0], : size[1]]}
            assert_same(explain(part), attribute(model, part, method))
            assert len(traced) == graphs, size


def test_a_graph_knows_the_sizes_that_it_was_traced_for():
    model, batch = cases.family("mistral", sliding_window=4)
    short, long = ({"input_ids": batch["input_ids"][:, :n]} for n in (3, 6))
    with numeric.compiled(model, backend=EAGER, dynamic=True) as explain:
        for part in (short, long, short):
            assert_same(explain(part), attribute(model, part))


def test_a_graph_holds_the_weights_of_the_model_and_no_others():
    model, batch = one_layer(), cases.tiny_batch()
    held = []
    look = lambda graph, inputs: held.append(inputs) or graph.forward
    with numeric.compiled(model, backend=look) as explain:
        explain(batch)
        with torch.no_grad():
            model.classifier.weight.mul_(-1)
        assert_same(explain(batch), attribute(model, batch))
    (inputs,) = held
    own = {x.data_ptr() for x in model.parameters()}
    assert own.issuperset(x.data_ptr() for x in inputs if isinstance(x, torch.nn.Parameter))
    others = [x for x in inputs if x.data_ptr() not in own]
    assert sum(x.numel() for x in others) <= 4 * batch["input_ids"].numel()


def test_a_graph_attends_with_a_mask_only_where_there_is_padding():
    masks = []

    def look(graph, _inputs):
        nodes = [
            n for n in graph.graph.nodes if re.search("dot_product.*cpu.default", str(n.target))
        ]
        masks.append([n.kwargs.get("attn_mask") is not None for n in nodes])
        return graph.forward

    padded = cases.tiny_batch()
    whole = cases.first(padded)
    with numeric.compiled(one_layer(), backend=look) as explain:
        for batch in (padded, whole):
            assert_same(explain(batch), attribute(one_layer(), batch))
    assert masks == [[True], [False]]


@torch._dynamo.config.patch(recompile_limit=1)
def test_block_after_block_compiles():
    """The compiler gives up a piece of code after so many graphs; each graph has its own code."""
    for seed in range(2):
        model, batch = cases.family("bert", seed=seed, num_hidden_layers=1)
        want = attribute(model, batch)
        with numeric.compiled(model, backend=EAGER) as explain:
            assert_same(explain(batch), want)


@torch._dynamo.config.patch(recompile_limit=2)
def test_more_shapes_than_the_compilers_default_are_compiled():
    model, batch = one_layer(), cases.tiny_batch()
    parts = [{key: x[:n, :m] for key, x in batch.items()} for n, m in [(1, 1), (1, 3), (2, 4)]]
    want = [attribute(model, part) for part in parts]
    with numeric.compiled(model, backend=EAGER, dynamic=False) as explain:
        for part, expected in zip(parts, want, strict=True):
            assert_same(explain(part), expected)


def test_a_model_that_cannot_be_explained_is_refused_before_anything_is_compiled():
    model = cases.tiny_bert().train()
    with pytest.raises(ValueError, match="train mode"), numeric.compiled(model, backend=EAGER):
        pass


def test_a_model_set_to_train_inside_the_block_is_refused():
    model, batch = cases.tiny_bert(), cases.tiny_batch()
    with numeric.compiled(model, backend=EAGER) as explain:
        model.bert.encoder.layer[0].train()
        with pytest.raises(ValueError, match=r"train mode.*bert\.encoder\.layer\.0"):
            explain(batch)


def test_the_model_is_left_as_it_was():
    model, batch = one_layer(), cases.tiny_batch()
    before = traces.snapshot(model)
    with numeric.compiled(model, backend=EAGER) as explain:
        explain(batch)
        traces.assert_same(before, traces.snapshot(model))
    traces.assert_same(before, traces.snapshot(model))
    with pytest.raises(RuntimeError, match=r"the block of compiled\(\) has ended"):
        explain(batch)


OPTIONS = {"epsilom": 1e-2, "positions": "signed"}
NO_OPTION = r"no option 'epsilom', 'positions'; it has epsilon, .*mode"
NO_RULES = "attnlrp, cp-lrp, gradient-x-input, or a Composite"
METHODS = ("loo", "integrated-gradients", "nonsense", None, [])
WRONG = [(OPTIONS, TypeError, NO_OPTION)]
WRONG += [({"method": x}, ValueError, NO_RULES) for x in METHODS]
WRONG += [({"share": x}, ValueError, f"share='{x}'") for x in ("half", "")]


@pytest.mark.parametrize(("options", "error", "says"), WRONG)
def test_options_that_do_not_exist_are_refused(options, error, says):
    with pytest.raises(error, match=says), numeric.compiled(cases.tiny_bert(), **options):
        pass


def test_bad_input_is_refused_as_by_attribute():
    model, batch = one_layer(), cases.tiny_batch()
    with numeric.compiled(model, backend=EAGER) as explain:
        with pytest.raises(ValueError, match=r"target \[7\] out of range"):
            explain(batch, target=7)
        with pytest.raises(ValueError, match="no class has this name; pass a number"):
            explain(batch, target="positive")
        with pytest.raises(ValueError, match="no input_ids"):
            explain({})
        assert_same(explain(batch), explain(batch, target=explain(batch).target))


def test_a_text_that_is_written_is_refused_before_anything_is_compiled():
    ids = torch.tensor([[4, 5, 6]])
    never = lambda *_: pytest.fail("compiled")
    refused = pytest.raises(ValueError, match=r"decoder_input_ids: graphs are of one text")
    with numeric.compiled(tools.translator(), backend=never) as explain, refused:
        explain({"input_ids": ids, "decoder_input_ids": ids})


def test_an_image_with_a_text_is_refused_before_anything_is_compiled():
    model, inputs = with_inputs("llava", MIXED)
    refused = pytest.raises(ValueError, match="what is asked for is of texts alone")
    never = lambda *_: pytest.fail("compiled")
    with numeric.compiled(model, backend=never) as explain, refused:
        explain(inputs)
