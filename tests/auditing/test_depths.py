"""Lines of an audit name their layers, in groups and in several stacks, too."""

import pytest

from numeric import audit
from tests.census.build import with_inputs
from tests.census.measure import conditions
from tests.support.audits import eager


def depths(model, inputs, **options):
    """The layers of an audit, from the logit down, each once."""
    lines = audit(model, inputs, **options).ledger.lines
    return [*dict.fromkeys(x.node.attributes["depth"] for x in lines)]


GROUPS = {
    "groups": ({"num_hidden_groups": 2}, [None, 1, 0]),
    "layers in a group": ({"inner_group_num": 2}, [None, 3, 2, 1, 0]),
}


@pytest.mark.parametrize("name", GROUPS)
def test_layers_of_groups_are_numbered_as_they_run(name):
    options, want = GROUPS[name]
    model, inputs = eager("albert", **options)
    assert depths(model, inputs) == want


def test_layers_of_several_stacks_are_named():
    with conditions():
        model, inputs = with_inputs("t5", "sequence classification")
        inputs = {key: x[:1] for key, x in inputs.items()}
        found = depths(model, inputs)
    names = [f"transformer.{part}.block {n}" for part in ("decoder", "encoder") for n in (1, 0)]
    assert [x for x in found if x] == names
