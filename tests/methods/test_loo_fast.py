"""Leave-One-Out by shortcuts is the plain loop over texts and tokens, whatever the shortcut."""

import dataclasses

import pytest
import torch

from numeric import attribute
from numeric.evaluation.perturbation import ORDERS, perturbation_curves
from numeric.methods import loo, masking, removals
from numeric.methods.shared import whole
from numeric.models.facts import facts_of
from numeric.models.inputs import prepare
from tests.evaluation.test_perturbation import loop
from tests.methods.test_methods_in_batches import Mean
from tests.support import cases
from tests.support.cases import DECODERS, ENCODERS, SINGLE, close, six_texts, tolerance
from tests.support.loops import left_out, logits_of
from tests.support.traces import contains, refused, watch

PROJECTING = [name for name in ENCODERS if name != "albert"]


def check(model, inputs, a, *, tolerance=1e-10):
    close(a.relevance, left_out(inputs, logits_of(model, a.target)), tolerance=tolerance)


@pytest.mark.parametrize(("hole", "batch_size"), [(False, 1), (False, 128), (True, 5)])
@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS])
def test_texts_of_many_lengths_are_the_plain_loop(name, hole, batch_size):
    model, inputs = cases.family(name)[0], six_texts(name, hole=hole)
    a = attribute(model, inputs, "loo", batch_size=batch_size)
    check(model, inputs, a, tolerance=tolerance(name))


@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS])
def test_scores_that_are_spelled_out_give_the_same(name):
    model, inputs = cases.family(name)
    eager, _ = cases.family(name, attn_implementation="eager")
    fused, spelled_out = (attribute(m, inputs, "loo").relevance for m in (model, eager))
    close(fused, spelled_out, tolerance=tolerance(name))


@pytest.mark.filterwarnings("ignore:attention_mask hides the first column")
@pytest.mark.parametrize("name", DECODERS)
def test_texts_padded_on_the_left_are_the_plain_loop(name):
    model, inputs = cases.family(name)
    moved = {key: x.roll(2, 1).contiguous() for key, x in inputs.items()}
    inputs = {
        key: x.where(torch.tensor([[False], [True]]), inputs[key]) for key, x in moved.items()
    }
    a = attribute(model, inputs, "loo")
    check(model, inputs, a, tolerance=tolerance(name))


def test_a_window_of_attention_is_not_narrowed_by_what_is_left_out():
    model, _ = cases.family("mistral", sliding_window=4)
    inputs = six_texts("mistral")
    a = attribute(model, inputs, "loo")
    check(model, inputs, a, tolerance=SINGLE)
    wide, _ = cases.family("mistral")
    far = (attribute(wide, inputs, "loo").relevance - a.relevance).abs().max()
    assert far > 1e-3


@pytest.mark.parametrize("name", DECODERS)
def test_curves_of_decoders_are_the_plain_loop(name):
    model, inputs = cases.family(name)
    relevance = torch.randn(2, 6, generator=torch.Generator().manual_seed(0)).double()
    target = torch.tensor([0, 2])
    (both,) = perturbation_curves(model, prepare(model, inputs), [relevance], target)
    for order, curve in zip(ORDERS, both, strict=True):
        wanted = loop(model, inputs, relevance, target, order=order, chunk=1)
        for row, want in zip(curve.logits, wanted, strict=True):
            close(
                row[: len(want)], torch.tensor(want, dtype=torch.float64), tolerance=tolerance(name)
            )


def test_rotary_positions_by_the_longest_text_are_those_of_the_batch():
    factors = [1.0] * 4
    rope = dict(
        rope_type="longrope", rope_theta=1e4, short_factor=factors, factor=2.0,
        long_factor=[2 * x for x in factors], original_max_position_embeddings=8,
    )  # fmt: skip
    model, _ = cases.family("llama", rope_parameters=rope, head_dim=8)
    ids = torch.randint(4, 50, (2, 12), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    ids[1, 6:], mask[1, 6:] = 0, 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    a = attribute(model, inputs, "loo", batch_size=1)
    check(model, inputs, a, tolerance=SINGLE)


# Shared work


@pytest.mark.parametrize("name", PROJECTING)
def test_encoders_project_once_and_finish_one_row(name):
    model, inputs = cases.family(name)
    kept = whole(model, prepare(model, inputs))
    assert len(kept.first) == 3
    rows = []
    last = [m for m in model.modules() if type(m) is torch.nn.LayerNorm][-1]
    with watch(last, lambda out: rows.append(out.shape[1])):
        attribute(model, inputs, "loo", batch_size=10)
    # The batch with a witness; six copies of 5 tokens; four of 3 and the witness again.
    assert rows == [6, 1, 1]


def test_layers_that_run_twice_share_nothing_and_are_right():
    model, inputs = cases.family("albert")
    kept = whole(model, prepare(model, inputs))
    assert kept.first == {}
    assert kept.last is None
    model, inputs = cases.family("bert")
    for layers in ([0, 1, 0], [0, 0], [1, 0, 1, 0]):
        ours = model.bert.encoder.layer
        model.bert.encoder.layer = torch.nn.ModuleList([ours[n] for n in layers]).eval()
        a = attribute(model, inputs, "loo")
        check(model, inputs, a)
        model.bert.encoder.layer = ours


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_run_only_what_comes_behind_the_token(name):
    model, inputs = cases.one_text(name)
    seen = []
    with watch(model.get_input_embeddings(), lambda out: seen.append(out.shape)):
        attribute(model, inputs, "loo", batch_size=1)
    # The text and a witness; six copies and, behind the first token, the witness again.
    assert {shape[0] for shape in seen} == {1}
    first, second, *copies = [shape[1] for shape in seen]
    assert first == second == 6
    assert sorted(copies, reverse=True) == [5, 4, 3, 2, 2, 1, 1]


WRONG = {  # mistakes of a shortcut: fields of Whole, made from right ones
    "tables of another text": lambda kept: {
        "first": {m: x.roll(-1, 0) for m, x in kept.first.items()}
    },
    "tables of moved tokens": lambda kept: {
        "first": {m: x.roll(1, 1) for m, x in kept.first.items()}
    },
    "one table for all": lambda kept: {
        "first": dict.fromkeys(kept.first, next(iter(kept.first.values())))
    },
    "the end of another layer": lambda kept: {
        "last": kept.model.bert.encoder.layer[0].attention.output
    },
}


def check_with(fields, monkeypatch, *, proved=True):
    """Runs the check with some fields of ``Whole`` replaced; returns how often copies ran whole."""
    model, inputs = cases.family("bert")
    kept = whole(model, prepare(model, inputs))
    kept = dataclasses.replace(kept, **fields(kept), **({} if proved else {"witness": None}))
    monkeypatch.setattr(loo, "whole", lambda *_: kept)
    return check_again("bert", model, inputs, monkeypatch)


def check_again(name, model, inputs, monkeypatch):
    ran_whole, real = [], masking._plan_whole
    monkeypatch.setattr(masking, "_plan_whole", lambda *args: ran_whole.append(1) or real(*args))
    a = attribute(model, inputs, "loo")
    check(model, inputs, a, tolerance=tolerance(name))
    return len(ran_whole)


def test_the_right_tables_pass(monkeypatch):
    assert check_with(lambda _: {}, monkeypatch) == 0


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_shortcut_is_noticed_by_its_witness(wrong, monkeypatch):
    assert check_with(WRONG[wrong], monkeypatch) == 1
    with pytest.raises((AssertionError, RuntimeError)):
        check_with(WRONG[wrong], monkeypatch, proved=False)


@pytest.mark.parametrize("name", DECODERS)
def test_a_wrong_prefix_is_noticed_by_its_witness(name, monkeypatch):
    model, inputs = cases.family(name)
    real = masking.first_keys
    wrong = lambda cache, where, n: real(cache, 1 - where, n)
    monkeypatch.setattr(masking, "first_keys", wrong)
    assert check_again(name, model, inputs, monkeypatch) == 1


@pytest.mark.parametrize("kernel", ["flash_attention_2", "kernels-community/flash-attn2"])
def test_attention_that_drops_masked_queries_is_refused(tiny, kernel):
    tiny.config._attn_implementation = kernel
    for removal in removals.REMOVALS:
        with pytest.raises(ValueError, match=rf"'{kernel}' drops .*\(\"sdpa\"\)"):
            masking.check(tiny, facts_of(tiny), removal)
    masking.check(tiny, facts_of(tiny), 7)  # everything stays in view


def test_a_class_that_reads_all_rows_is_the_plain_loop_over_whole_texts():
    model, batch = cases.perturbed(Mean), cases.tiny_batch()
    a = attribute(model, batch, "loo", batch_size=4)
    check(model, batch, a)


class Deaf(type(cases.tiny_bert())):
    """It takes an attention mask, and drops it."""

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        return super().forward(input_ids, token_type_ids=token_type_ids)


def test_a_model_that_drops_the_mask_is_refused_but_can_replace_tokens():
    model, batch = cases.perturbed(Deaf), cases.tiny_batch()
    says = ("attention_mask changes no logit", "Deaf", "removal=tokenizer.mask_token_id")
    contains(refused(ValueError, model, batch, "loo"), *says)
    assert (attribute(model, batch, "loo", removal=9).relevance[0] != 0).all()
