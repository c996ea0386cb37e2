"""Ways to remove a token, each against an explicit loop over tokens and edited inputs."""

import pytest
import torch

from numeric import attribute
from numeric.methods.catalogue import METHODS
from numeric.methods.removals import REMOVALS
from tests.support.loops import delete, hide, left_out, logits_of
from tests.support.traces import contains, refused

MASK = 10  # a token id of the tiny model


def by_token(batch, column):
    batch["input_ids"][:, column] = MASK


LOOPS = {"attention-mask": hide, "deletion": delete, MASK: by_token}


def loop(model, batch, target, change):
    """Leave-One-Out of every text by itself, without its padding."""
    result = torch.zeros(batch["input_ids"].shape, dtype=torch.float64)
    for row, c in enumerate(target.tolist()):
        n = int(batch["attention_mask"][row].sum())
        one = {key: x[[row], :n] for key, x in batch.items()}
        result[row, :n] = left_out(one, logits_of(model, c), change)[0]
    return result


@pytest.mark.parametrize("batch_size", [1, 4, 128])
@pytest.mark.parametrize("removal", LOOPS)
def test_leave_one_out_is_the_loop(tiny, batch, removal, batch_size):
    a = attribute(tiny, batch, "loo", removal=removal, batch_size=batch_size)
    want = loop(tiny, batch, a.target, LOOPS[removal])
    torch.testing.assert_close(a.relevance, want, rtol=1e-10, atol=1e-10)
    defaults = {key: x for key, x in METHODS["loo"].options.items() if key != "each"}
    assert a.options == defaults | {"removal": removal, "batch_size": batch_size}


@pytest.mark.parametrize("removal", LOOPS)
def test_the_loop_of_another_removal_is_rejected(tiny, batch, removal):
    a = attribute(tiny, batch, "loo", removal=removal)
    for other, without in LOOPS.items():
        if other != removal:
            far = (a.relevance - loop(tiny, batch, a.target, without)).abs().max()
            assert far > 1e-3


def test_all_named_removals_have_a_loop_and_the_attention_mask_is_the_default(tiny, batch):
    assert {*REMOVALS, MASK} == LOOPS.keys()
    default = attribute(tiny, batch, "loo")
    assert default.options["removal"] == "attention-mask"
    same = attribute(tiny, batch, "loo", removal="attention-mask")
    assert torch.equal(same.relevance, default.relevance)


def test_deletion_moves_what_follows_up(tiny, batch):
    """Without positions, deletion and attention mask are one; with them they are not."""
    with torch.no_grad():
        tiny.bert.embeddings.position_embeddings.weight.zero_()
    masked, deleted = (attribute(tiny, batch, "loo", removal=removal) for removal in REMOVALS)
    torch.testing.assert_close(masked.relevance, deleted.relevance, rtol=1e-10, atol=1e-10)


def test_a_token_replaced_by_itself_changes_nothing(tiny, batch):
    batch["input_ids"][0, 2] = MASK
    relevance = attribute(tiny, batch, "loo", removal=MASK).relevance
    assert relevance[0, 2].abs() < 1e-12
    assert relevance[0, 1].abs() > 1e-3


@pytest.mark.parametrize("removal", [0, 10])
def test_the_first_and_the_last_token_id_are_allowed(tiny, batch, removal):
    assert attribute(tiny, batch, "loo", removal=removal).relevance.abs().max() > 0


def test_tokens_without_which_logits_are_not_finite_are_named(tiny, batch):
    with torch.no_grad():
        tiny.get_input_embeddings().weight[MASK] = torch.nan
    message = refused(ValueError, tiny, batch, "loo", removal=MASK)
    contains(message, "without tokens [0, 1, 2", "of example 0", "tokens [0, 1, 2] of example 1")
    contains(message, "load the model in float32")
    assert "epsilon" not in message
