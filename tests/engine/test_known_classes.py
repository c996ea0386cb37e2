"""Facts of a family are known of its class, wherever its model stands."""

import importlib

import pytest
import torch

from numeric import attribute, attribute_each, compiled, plan, sweep
from numeric.models import families, heads
from numeric.models.checks import check_model
from numeric.models.facts import facts_of
from numeric.models.inputs import prepare
from tests.census.build import CAUSAL, MASKED, TAGS, build
from tests.census.build import inputs as made
from tests.census.measure import conditions
from tests.support import cases
from tests.support.cases import SINGLE, close


def test_positions_that_are_counted_from_padding_are_found_at_any_depth():
    model, inputs = cases.family("roberta")
    found = prepare(model, inputs).position_ids
    assert (found != torch.arange(found.shape[1])).any()
    within = torch.nn.ModuleDict({"classifier": model})
    known = facts_of(model, [*within.modules()]).padding_position
    assert known == facts_of(model).padding_position is not None
    assert prepare(*cases.family("bert")).position_ids is None


POSITIONED = [
    ("gpt2", CAUSAL), ("gpt_neo", CAUSAL), ("openai-gpt", CAUSAL), ("bart", CAUSAL),
    ("opt", CAUSAL), ("bloom", CAUSAL), ("llama", CAUSAL), ("gptj", CAUSAL), ("mpt", CAUSAL),
    ("moss_transcribe_diarize", CAUSAL), ("bert", MASKED), ("deberta", MASKED), ("xlm", MASKED),
    ("roberta", MASKED), ("esm", MASKED), ("luke", MASKED), ("modernbert", TAGS), ("ibert", TAGS),
]  # fmt: skip


@pytest.mark.parametrize(("name", "task"), POSITIONED)
def test_a_model_is_known_to_number_columns_where_padding_on_the_left_changes_its_logits(
    name, task
):
    with conditions(), torch.no_grad():
        model = build(name, task)
        text = made(model, task)["input_ids"][:1]
        pad = model.config.get_text_config().pad_token_id or 0
        moved = torch.nn.functional.pad(text, (3, 0), value=pad)
        mask = torch.nn.functional.pad(torch.ones_like(text), (3, 0))
        alone = model(text).logits
        changes = model(moved, attention_mask=mask).logits[:, 3:] - alone
    change = (changes.abs().max() / alone.abs().max()).item()
    counts = facts_of(model).counts_columns
    assert change > 0.1 if counts else change < 1e-10


@pytest.mark.parametrize("name", cases.DECODERS)
def test_who_pads_such_a_model_on_the_left_is_warned_and_gets_what_it_computes(name, recwarn):
    model, inputs = cases.family(name)
    inputs = {key: x.roll(2, 1) for key, x in inputs.items()}
    inputs["attention_mask"][:, :2] = 0
    a = attribute(model, inputs, target=1)
    close(a.logit, model(**inputs).logits[:, 1].detach(), tolerance=SINGLE)
    said = [warning for warning in recwarn if "hides the first column" in str(warning.message)]
    assert len(said) == (name == "gpt2")
    for warning in said:
        assert warning.filename == __file__
        for part in ("examples [0, 1]", "GPT2ForSequenceClassification", 'padding_side = "right"'):
            assert part in str(warning.message)


def in_a_block(model, inputs):
    with compiled(model, disable=True) as explain:
        return explain(inputs)


ENTRIES = {
    "attribute": attribute,
    "attribute_each": lambda *given: attribute_each(*given, targets=[0, 1]),
    "a block of compiled": in_a_block,
    "sweep": lambda *given: sweep(*given, ["attnlrp"]),
    "plan": plan,
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_blames_the_line_of_its_caller(entry):
    model, inputs = cases.one_text("gpt2")
    inputs = {key: x.roll(2, 1) for key, x in inputs.items()}
    inputs["attention_mask"][:, :2] = 0
    with pytest.warns(UserWarning, match="hides the first column") as found:
        ENTRIES[entry](model, inputs)
    assert {warning.filename for warning in found} == {__file__}


@pytest.mark.parametrize("name", cases.ALL)
def test_modules_come_as_torch_names_them_shared_ones_once(name):
    model, _ = cases.family(name)
    model.again = next(model.children())
    assert check_model(model) == list(model.named_modules())


@pytest.mark.parametrize("name", [*families.FAMILIES, *families.ATTENTION, *families.JOINS])
def test_what_is_known_is_known_of_a_class_of_transformers(name):
    model, _, cls = name.partition(".")
    module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    assert families.name(getattr(module, cls)) == name


def test_a_subclass_is_not_what_it_is_made_from():
    model, _ = cases.family("bert")
    mine = type("BertForSequenceClassification", (type(model),), {"__module__": "mine"})
    assert families.reads(type(model)) == families.FIRST
    assert families.reads(mine) is None
    assert families.name(mine) == ""


@pytest.mark.parametrize(("task", "head"), [(MASKED, heads.MASKED), (CAUSAL, heads.NEXT)])
def test_xlm_is_what_its_config_says(task, head):
    """One class is in both tables of Transformers."""
    assert facts_of(build("xlm", task)).head == head


def test_padding_on_the_left_is_warned_of_where_the_users_own_pooler_reads_other_tokens():
    model, inputs = cases.family("bert")
    inputs = {key: x.flip(1) for key, x in inputs.items()}
    with pytest.raises(ValueError, match="first token masked out"):
        attribute(model, inputs)
    model.bert.pooler.forward = lambda hidden: hidden[:, -1]
    with pytest.warns(UserWarning, match=r"examples \[1\]") as found:
        a = attribute(model, inputs, target=1)
    said = next(str(x.message) for x in found if "first token masked out" in str(x.message))
    assert "a stock BertForSequenceClassification reads its logits there" in said
    close(a.logit, model(**inputs).logits[:, 1].detach(), tolerance=SINGLE)
