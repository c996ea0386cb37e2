"""Uses of one model do not meet: not in threads, and not when one begins within another."""

import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_hook
from transformers.models.bert.modeling_bert import BertOutput

from axioms.composites import ATTNLRP, CP_LRP
from benchmarks.sources import models
from numeric import attribute, audit, sweep
from numeric.evaluation.perturbation import perturbation_curves
from numeric.evaluation.softmax_errors import softmax_errors
from numeric.methods.catalogue import METHODS
from numeric.models.inputs import prepare
from numeric.models.patches import OF_TRANSFORMERS
from numeric.models.texts import tokenized
from tests.support import cases
from tests.support.traces import assert_same, failing, registries, snapshot


def explained(model, batch, method="attnlrp", **options):
    found = attribute(model, batch, method, **options)
    return [found.relevance, found.logit, *found.details.values(), *found.inside.values()]


def curves(model, batch):
    relevance = torch.arange(12.0).view(2, 6)
    classes = torch.zeros(2, dtype=torch.int64)
    found = perturbation_curves(model, prepare(model, batch), [relevance], classes)
    return [curve.logits.nan_to_num() for curve in found[0]]


def audited(model, batch):
    found = audit(model, cases.first(batch))
    causes = [hash(found.captured.signatures[layer]) for layer in (0, 1)]
    return [torch.tensor(found.relevance), torch.tensor(found.residual), torch.tensor(causes)]


USES = {method: partial(explained, method=method) for method in METHODS}
USES |= {
    "finite epsilon": partial(explained, epsilon=0.1),
    "inside": partial(explained, at=["bert.encoder.layer.*", "bert.embeddings"]),
    "sweep": lambda model, batch: [sweep(model, batch, [ATTNLRP, CP_LRP]).relevance],
    "curves": curves,
    "softmax errors": lambda *given: [torch.tensor(softmax_errors(*given).taylor_r)],
    "audit": audited,
    "stock": lambda model, batch: [model(**batch).logits.detach()],
}
BESIDE = [name for name in USES if name != "audit"]  # which takes a second


def test_threads_that_share_a_tokenizer_get_what_they_ask_for():
    """A fast tokenizer keeps padding and truncation of a call, as a state of its own."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    tokenizer, pair = models.load("embedded").tokenizer, ["a film " * 200, "a"]
    asked = [{"padding": True}, {}, {"truncation": True, "max_length": 20}, {}]
    want = [tokenized(tokenizer, pair, **how)["input_ids"] for how in asked]
    try:
        with ThreadPoolExecutor(len(asked)) as threads:
            call = lambda how: [tokenized(tokenizer, pair, **how)["input_ids"] for _ in range(50)]
            for one, found in zip(want, threads.map(call, asked), strict=True):
                assert all(x == one for x in found)
    finally:
        sys.setswitchinterval(before)


@pytest.fixture(scope="module")
def alone():
    """The results of every use by itself, on a model of its own."""
    return {name: use(tiny(), cases.tiny_batch()) for name, use in USES.items()}


def tiny():
    return cases.tiny_bert(attn_implementation="eager")


def check(alone, model, name):
    found = USES[name](model, cases.tiny_batch())
    assert all(map(torch.equal, found, alone[name])), name


def others(alone, model, name):
    """Looks at the model each time it is called; every other use has its turn, and a stock pass."""
    before, turns = snapshot(model), [other for other in BESIDE if other != name]

    def look():
        assert_same(before, snapshot(model))
        check(alone, model, "stock")
        if turns:
            check(alone, model, turns.pop())
        return not turns

    return look


@pytest.mark.parametrize("name", USES)
def test_a_use_in_another_thread_does_not_matter(alone, name):
    model = tiny()
    look = others(alone, model, name)
    done = False
    while not done:
        done = beside(partial(check, alone, model, name), look)


def beside(call, look):
    """Runs ``call`` in a thread that stops after each layer, and ``look`` here at each stop."""
    stops, goes = SimpleQueue(), SimpleQueue()

    def stop(module, *_):
        if type(module) is BertOutput and threading.get_ident() == thread:
            stops.put("stop")
            goes.get(timeout=60)

    def run():
        nonlocal thread
        thread = threading.get_ident()
        try:
            call()
        finally:
            stops.put("end")

    stop.__module__ = OF_TRANSFORMERS[0]  # a hook of the user's would end all shortcuts
    thread, found = None, []
    with register_module_forward_hook(stop), ThreadPoolExecutor(1) as pool:
        future = pool.submit(run)
        try:
            while stops.get(timeout=60) == "stop":
                found.append(look())
                goes.put(None)
        finally:
            for _ in range(100):  # so that the thread ends also if ``look`` failed
                goes.put(None)
        future.result()
    assert len(found) >= 2
    return found[-1]


@pytest.mark.parametrize("name", [name for name in USES if name != "audit"])
def test_a_use_within_another_does_not_matter(alone, name):
    model = tiny()
    look = others(alone, model, name)
    done = False
    while not done:
        with inside(look) as found:
            check(alone, model, name)
        done = found[-1]


@contextmanager
def inside(look):
    """Calls ``look`` after each layer and where the backward pass reads a saved tensor."""
    found, busy = [], []

    def stop(*_):
        if not busy:
            busy.append(True)
            found.append(look())
            busy.clear()

    def unpack(x):
        stop()
        return x

    after = lambda module, *_: stop() if type(module) is BertOutput else None
    after.__module__ = OF_TRANSFORMERS[0]
    with register_module_forward_hook(after), saved_tensors_hooks(lambda x: x, unpack):
        yield found


@pytest.mark.parametrize("name", USES)
def test_nothing_is_left_in_what_all_models_share(name):
    before, model = registries(), tiny()
    USES[name](model, cases.tiny_batch())
    assert registries() == before

    with failing(model), pytest.raises((ArithmeticError, ValueError)):
        USES[name](model, cases.tiny_batch())
    assert registries() == before


def test_threads_at_random_find_what_each_finds_alone(alone):
    model, other, seeds = tiny(), tiny(), range(3)
    before, interval = snapshot(model), sys.getswitchinterval()

    def work(seed):
        drawn = random.Random(seed)
        for name in [*drawn.choices(BESIDE, k=6), "audit"]:
            check(alone, drawn.choice([model, other]), name)
            check(alone, model, "attnlrp")

    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(len(seeds)) as pool:
            list(pool.map(work, seeds))
    finally:
        sys.setswitchinterval(interval)
    assert_same(before, snapshot(model))
    check(alone, model, "stock")
