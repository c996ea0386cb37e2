"""A composite names the rule of every operation before it does anything."""

import pytest

from axioms import kinds
from axioms.composites import (
    ATTNLRP,
    BYPASS,
    CP_LRP,
    GRADIENT_X_INPUT,
    Composite,
    Operation,
    UnassignedOperation,
    bypass_softmax,
)

SELF = "bert.encoder.layer.0.attention.self"
READOUT = Operation(kind=kinds.READOUT, module=SELF, layer=0)
NORM = Operation(kind=kinds.LAYER_NORM, module="bert.encoder.layer.1.output.LayerNorm", layer=1)
ALIEN = Operation(kind="Conv1d", module="bert.encoder.layer.1.conv", layer=1)


def test_every_operation_without_a_rule_is_named_at_once():
    composite = Composite("readout only", {kinds.READOUT: kinds.VALUE_ONLY})
    with pytest.raises(UnassignedOperation) as error:
        composite.assign([READOUT, NORM, ALIEN])
    message = str(error.value)
    assert "2 of 3" in message
    for part in (NORM.kind, NORM.module, ALIEN.kind, ALIEN.module):
        assert part in message
    assert SELF not in message
    assert "\nIt has rules for: readout.\n" in message
    assert "Add an entry for: layer_norm (held-deviation, identity, gradient)." in message
    assert "No layer of this project knows Conv1d." in message


def test_a_rule_that_is_not_implemented_is_as_good_as_none_and_others_are_offered():
    known, root = {(kinds.READOUT, kinds.VALUE_ONLY)}, Operation(kind=kinds.SOFTMAX)
    with pytest.raises(UnassignedOperation) as error:
        ATTNLRP.assign([READOUT, root, ALIEN], known=known)
    assert str(error.value).splitlines()[1:4] == [
        f"  readout      {SELF}: 'bilinear-epsilon' is not implemented here",
        "  softmax      (root): 'taylor' is not implemented here",
        f"  Conv1d       {ALIEN.module}",
    ]
    assert str(error.value).endswith(
        "Add an entry for: readout (value-only).\nNo rule is implemented here for softmax."
        "\nNo layer of this project knows Conv1d."
    )
    assert CP_LRP.assign([READOUT], known=known) == [kinds.VALUE_ONLY]


@pytest.mark.parametrize("tables", [
    {"rules": {"readouts": kinds.VALUE_ONLY}},
    {"rules": {kinds.READOUT: "value_only"}},
    {"rules": {kinds.SOFTMAX: kinds.VALUE_ONLY}},  # a rule, but not of this kind
    {"rules": {}, "layers": {3: {kinds.READOUT: "half"}}},
    {"rules": {}, "modules": {SELF: {kinds.READOUT: "half"}}},
])  # fmt: skip
def test_a_rule_that_does_not_exist_is_an_error_that_lists_those_that_do(tables):
    with pytest.raises(ValueError, match="rules that do not exist") as error:
        Composite("wrong", **tables)
    assert all(kind in str(error.value) for kind in kinds.RULES)


def test_the_closest_override_wins():
    half, whole, gradient = kinds.BILINEAR_EPSILON, kinds.VALUE_ONLY, kinds.GRADIENT
    composite = Composite(
        "mixed",
        {kinds.READOUT: half},
        layers={0: {kinds.READOUT: whole}},
        modules={SELF: {kinds.READOUT: gradient}},
    )
    assert composite.rule(kinds.READOUT) == half
    assert composite.rule(kinds.READOUT, layer=1) == half
    assert composite.rule(kinds.READOUT, layer=0, module="elsewhere") == whole
    assert composite.rule(kinds.READOUT, layer=0, module=SELF) == gradient
    assert composite.rule(kinds.SOFTMAX, layer=0, module=SELF) is None


@pytest.mark.parametrize("composite", [ATTNLRP, CP_LRP, GRADIENT_X_INPUT], ids=lambda c: c.name)
def test_a_shipped_composite_has_a_rule_for_every_kind(composite):
    operations = [Operation(kind=kind) for kind in kinds.RULES]
    assert len(composite.assign(operations)) == len(kinds.RULES)


def test_cp_lrp_differs_from_attnlrp_in_the_attention_step_alone():
    changed = {kind for kind in kinds.RULES if CP_LRP.rule(kind) != ATTNLRP.rule(kind)}
    assert changed == set(BYPASS) == {kinds.SCORES, kinds.SOFTMAX, kinds.READOUT}


def test_a_mixture_bypasses_the_softmax_in_the_chosen_layers_alone():
    mixed = bypass_softmax([2, 0, 2])
    for layer in range(4):
        expected = CP_LRP if layer in (0, 2) else ATTNLRP
        for kind in kinds.RULES:
            assert mixed.rule(kind, layer=layer) == expected.rule(kind)
    assert "[0, 2]" in mixed.name


def test_one_layer_alone_is_passed_in_a_list():
    with pytest.raises(TypeError, match=r"layers=6: pass all layers in a list, such as \[6\]"):
        bypass_softmax(layers=6)
