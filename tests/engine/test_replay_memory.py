"""Tapes, counts and models that are of no use are dropped, and nothing else is."""

import copy
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest
import torch
from torch.nn.modules.module import register_module_full_backward_hook

from lrp_axioms import attribute
from lrp_axioms.numeric.models import identity
from lrp_axioms.numeric.models.identity import is_stock
from lrp_axioms.numeric.replay import calls
from tests.census.build import CLASSES, with_inputs
from tests.engine.test_replay import assert_equal, assert_replays, by_rules, proved, warmed
from tests.support import cases

pytestmark = pytest.mark.usefixtures("soon")


def test_a_hook_of_all_modules_that_is_gone_does_not_matter(tiny, batch):
    register_module_full_backward_hook(lambda *_: None).remove()
    warmed(tiny, batch)
    assert proved(tiny)


def test_a_tape_that_gives_no_result_is_dropped(tiny, batch):
    warmed(tiny, batch)
    (tape,) = proved(tiny)
    ran = []
    tape.play = lambda *_: ran.append(1)
    for _ in range(2 * calls.MOST_FAILURES):
        attribute(tiny, batch)
    assert len(ran) == calls.MOST_FAILURES


def test_shapes_of_calls_are_forgotten(monkeypatch):
    monkeypatch.setattr(calls, "SHAPES", 2)
    model = cases.tiny_bert()
    for size in range(2, 7):
        attribute(model, {"input_ids": torch.full((1, size), 5)})
        assert len(calls.MEMORIES[model].calls) <= 3


def test_to_make_a_stock_model_draws_no_random_number():
    model, _ = with_inputs("diffllama", CLASSES)  # which draws while it is made
    identity._make.cache_clear()
    before = torch.get_rng_state()
    assert is_stock(model)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_part_with_an_equal_config_and_other_attention_is_not_stock():
    model, _ = with_inputs("t5", CLASSES)
    of_encoder = model.transformer.encoder.config
    assert of_encoder is not model.config
    changed = copy.deepcopy(of_encoder)
    changed._attn_implementation = "eager"
    assert is_stock(model)
    assert changed == of_encoder
    for module in model.modules():
        if getattr(module, "config", None) is of_encoder:
            module.config = changed
    assert not is_stock(model)


@pytest.mark.parametrize("leads_back", [False, True])
@pytest.mark.parametrize("kind", ["bert", "t5", "qwen2"])
def test_a_tape_does_not_keep_its_model(kind, leads_back):
    def used():
        model, inputs = with_inputs(kind, CLASSES)
        if leads_back:
            model.explain = partial(attribute, model)
        assert_replays(model, inputs)
        assert bool(proved(model)) != leads_back
        return weakref.ref(model)

    known = used()
    gc.collect()
    assert known() is None


def test_a_tape_keeps_no_weights_until_garbage_is_collected():
    def used():
        model, inputs = cases.tiny_bert(), cases.tiny_batch()
        warmed(model, inputs)
        return weakref.ref(model.classifier.weight)

    gc.collect()
    gc.disable()
    try:
        assert used()() is None
    finally:
        gc.enable()


def test_threads_that_see_one_change_forget_once(tiny, batch):
    warmed(tiny, batch)
    memory, at_once = calls.MEMORIES[tiny], Barrier(4, timeout=60)
    asked = memory.snapshot.is_current
    memory.snapshot.is_current = lambda x: (asked(x), at_once.wait())[0]
    tiny.float()
    after = memory.after
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: attribute(tiny, batch), range(4)))
    assert memory.after == 2 * after


def test_the_oldest_tapes_are_dropped_and_come_again(monkeypatch, tiny, batch):
    monkeypatch.setattr(calls, "TAPES", 2)
    cut = lambda n: {key: x[:1, :n] for key, x in batch.items()}
    for length in (3, 4, 5, 3):
        warmed(tiny, cut(length))
        assert len(calls.MEMORIES[tiny].tapes) <= 2
        assert_equal(attribute(tiny, cut(length)), by_rules(tiny, cut(length)))


def test_a_checkpoint_with_old_names_of_weights_is_replayed(tmp_path, tiny, batch):
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    weights = tiny.state_dict()
    for new, name in old.items():
        weights = {path.replace(new, name): x for path, x in weights.items()}
    tiny.config.save_pretrained(tmp_path)
    torch.save(weights, tmp_path / "pytorch_model.bin")
    loaded = type(tiny).from_pretrained(tmp_path, dtype=tiny.dtype).eval()
    assert loaded._weight_conversions
    warmed(loaded, batch)
    assert_equal(attribute(loaded, batch), by_rules(tiny, batch))
