"""bfloat16 on a GPU: AttnLRP against its kernels or the gradient, and the error of Leave-One-Out.

``make bench`` times BERT-base, and a language model of a billion parameters, where there is a GPU,
and skips them by name where there is none.  The ordinary test run does so on two narrow layers,
and checks the answers.  The error is measured on the device at hand, also a CPU.
"""

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import AutoModelForCausalLM, LlamaConfig

from lrp_axioms import attribute, compiled
from lrp_axioms.benchmarks.research.speed.test_long import RUNS, VOCABULARY
from lrp_axioms.benchmarks.research.speed.test_speed import (
    DEVICE,
    SMALL,
    assert_right,
    bert,
    rounding,
)
from lrp_axioms.benchmarks.research.speed.usage import operations, peak_memory
from lrp_axioms.benchmarks.running.timing import alternate, random_text
from lrp_axioms.benchmarks.sources import data, models
from lrp_axioms.numeric.replay import calls

GROUP = "GPU"
SIZES = [(32, 128), (64, 512)]
GOAL = 1.2  # times the kernels
ROUNDS = 15
LOO_SIZE = 8, 64
LLAMA_1B = dict(
    hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
    intermediate_size=8192, vocab_size=VOCABULARY,
)  # fmt: skip
NARROW = LLAMA_1B | dict(hidden_size=128, num_hidden_layers=2, intermediate_size=256)
LONG, OVER_GRADIENT = 4096, 1.1  # tokens; how many times the gradient's time and memory
UNITS = {name: torch.finfo(getattr(torch, name)).eps for name in ("bfloat16", "float16")}


@pytest.fixture
def sizes(timed):
    """Yields the sizes of the model; skips timing on a CPU."""
    if timed and DEVICE == "cpu":
        pytest.skip("bfloat16 is timed on a GPU, and this machine has none")
    yield {} if timed else SMALL
    torch._dynamo.reset()


def kernels(model, inputs):
    """Returns a run of only the linear products and the attention, forward and backward."""
    batch, tokens = inputs["input_ids"].shape
    encoder = model.bert.encoder
    linear = [module for module in encoder.modules() if type(module) is nn.Linear]
    widths = {n for module in linear for n in (module.in_features, module.out_features)}
    like = {"device": model.device, "dtype": model.dtype}
    streams = {n: torch.randn(batch, tokens, n, **like) for n in widths}
    heads = model.config.num_attention_heads
    head = batch, heads, tokens, model.config.hidden_size // heads
    q, k, v = (torch.randn(head, **like).requires_grad_() for _ in range(3))
    c = torch.randn(head, **like)

    def run():
        for module in linear:
            functional.linear(streams[module.in_features], module.weight, module.bias)
            streams[module.out_features] @ module.weight
        for _ in encoder.layer:
            out = functional.scaled_dot_product_attention(q, k, v)
            torch.autograd.grad(out, (q, k, v), c)

    return run


def test_kernels_are_the_products_of_a_gradient(sizes):
    model = bert("float32", **sizes).requires_grad_(requires_grad=False)
    inputs = random_text(model, batch=2, tokens=128)

    def gradient():
        words = model.get_input_embeddings()(inputs["input_ids"]).requires_grad_()
        torch.autograd.grad(model(inputs_embeds=words).logits.sum(), words)

    want = operations(gradient)
    assert operations(kernels(model, inputs)) == pytest.approx(want, rel=0.02)  # the head


@pytest.mark.filterwarnings("ignore")  # of the compiler
@pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)
def test_compiled_attnlrp_takes_about_the_time_of_its_kernels(size, sizes, timed, ratios):
    batch, tokens = size if timed else (2, size[1] // 8)
    model = bert("bfloat16", **sizes)
    inputs = random_text(model, batch=batch, tokens=tokens)
    alone = kernels(model, inputs)
    with compiled(model, **({} if timed else {"backend": "eager"})) as explain:
        relevance = explain(inputs).relevance
        run = {"kernels": alone, "compiled": lambda: explain(inputs)}
        seconds = alternate(run, repeats=ROUNDS if timed else 1)
    assert_right(model, inputs, "attnlrp", relevance)
    name = f"compiled AttnLRP / kernels, batch {size[0]}, {size[1]} tokens, bfloat16"
    ratios.over(name, seconds["compiled"], seconds["kernels"], group=GROUP, goal=GOAL)


@pytest.mark.usefixtures("sizes")
def test_attnlrp_of_a_long_text_takes_about_the_time_and_memory_of_a_gradient(timed, ratios):
    torch.manual_seed(0)
    config = LlamaConfig(**LLAMA_1B if timed else NARROW)
    with torch.device(DEVICE):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    short = random_text(model, batch=1, tokens=32)
    for name in ("gradient", "AttnLRP"):
        assert_right(model, short, name.lower(), RUNS[name](model, short))
    text = random_text(model, batch=1, tokens=LONG if timed else 64)
    runs = {name: partial(run, model, text) for name, run in RUNS.items()}
    ready = calls.AFTER + 2 if timed else 1  # from then on calls are replayed
    seconds = alternate(runs, repeats=ROUNDS if timed else 1, warm_up=ready)
    used = {name: peak_memory(run, device=DEVICE) for name, run in runs.items()}
    where = f"/ gradient, Llama of 1 B parameters, {LONG:,} tokens, bfloat16"
    about = {"group": GROUP, "goal": OVER_GRADIENT}
    ratios.over(f"time of AttnLRP {where}", seconds["AttnLRP"], seconds["gradient"], **about)
    for name, goal in {"AttnLRP": OVER_GRADIENT, "AttnLRP, again": None}.items():
        share = used[name] / used["gradient"]
        ratios.note(f"memory of {name} {where}", [share], group=GROUP, goal=goal)


def test_leave_one_out_in_bfloat16_is_timed_against_float32(sizes, timed, ratios):
    model = bert("float32", **sizes)
    batch, tokens = LOO_SIZE if timed else (2, 8)
    inputs = random_text(model, batch=batch, tokens=tokens)
    dtypes = {"float32": None, "bfloat16": "bfloat16"}
    run = {name: partial(attribute, model, inputs, "loo", dtype=x) for name, x in dtypes.items()}
    seconds = alternate(run, repeats=ROUNDS if timed else 1)
    name = "Leave-One-Out, bfloat16 / float32"
    ratios.over(name, seconds["bfloat16"], seconds["float32"], group=GROUP, goal=1.0)
    found, want = (run[name]().relevance for name in ("bfloat16", "float32"))
    if not timed:  # with weights as small as BERT-base's a token does less than rounding
        assert error(found, want) <= rounding(model.bfloat16())


@pytest.fixture(scope="module")
def leave_one_out(timed):
    """Explains a trained model by precision: in a random one rounding hides a token's effect."""
    classifier = models.load(device=DEVICE)
    texts = list(data.load().texts)[: 50 if timed else 8]
    tokens = classifier.tokenizer(texts, padding=True, return_tensors="pt")
    return {
        dtype: attribute(classifier.model, tokens, "loo", dtype=dtype).relevance
        for dtype in (None, *UNITS)
    }


def error(found, want):
    return ((found - want).norm() / want.norm()).item()


def assert_nothing_but_rounding(leave_one_out):
    """Asserts that errors grow in proportion to the unit of rounding."""
    coarse, fine = (error(leave_one_out[dtype], leave_one_out[None]) for dtype in UNITS)
    assert coarse / fine > math.sqrt(UNITS["bfloat16"] / UNITS["float16"])


def test_leave_one_out_in_bfloat16_differs_by_rounding_alone(leave_one_out, ratios):
    assert_nothing_but_rounding(leave_one_out)
    name = f"error of bfloat16 Leave-One-Out, {'CPU' if DEVICE == 'cpu' else 'GPU'}"
    ratios.note(name, [error(leave_one_out["bfloat16"], leave_one_out[None])], group="precision")


WRONG = {
    "half": lambda relevance: relevance / 2,
    "a tenth too much": lambda relevance: 1.1 * relevance,
    "one token missing": lambda relevance: relevance * (torch.arange(relevance.shape[1]) != 3),
    "the tokens in another order": lambda relevance: relevance.flip(1),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_leave_one_out_differs_by_more_than_rounding(leave_one_out, wrong):
    changed = {dtype: WRONG[wrong](leave_one_out[dtype].cpu()) for dtype in UNITS}
    with pytest.raises(AssertionError):
        assert_nothing_but_rounding(changed | {None: leave_one_out[None].cpu()})
