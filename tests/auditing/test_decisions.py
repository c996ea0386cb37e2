"""What an audit decides of a graph and of what its operations absorb."""

from axioms import audit as decisions
from axioms import kinds
from axioms.composites import ATTNLRP, Composite
from axioms.graph import Node, leaf, parameter


def graph_of_two_linear_layers():
    """b = W2 (W1 x), as a captured graph has it: by module, the lower one called first."""
    x = leaf("x")
    for name in ("lower", "upper"):
        x = Node(kinds.LINEAR, (x, parameter(f"W of {name}")), name)
    return x


def test_a_lemma_of_one_table_is_not_claimed_where_two_rules_meet():
    root = graph_of_two_linear_layers()
    below = {"lower": {kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS}}
    options = {"eps": 0.0, "absorbed": {}, "started": 1.0, "missing": 0.0}
    found = {}
    for name, modules in (("one", {}), ("two", below)):
        composite = Composite(name, ATTNLRP.rules, modules=modules)
        for verdict in decisions.verdicts(root, composite, **options):
            found[name, verdict.statement.partition(" at these")[0]] = verdict
    fold = "invariant under: fold linear"
    assert found["one", fold].verdict == decisions.PROVED
    assert found["two", fold].verdict == decisions.OPEN
    assert "different rules" in found["two", fold].reason


def test_a_fixed_term_of_a_sum_absorbs():
    root = Node(kinds.ADD, (leaf("x"), parameter("one")), "sum")
    options = {"eps": 0.0, "started": 3.0, "missing": 1.0}
    hands_on, adds_up, _ = decisions.verdicts(
        root, ATTNLRP, absorbed={(root, "bias"): 1.0}, **options
    )[:3]
    assert hands_on.verdict == decisions.REFUTED
    assert hands_on.nodes == (root,)
    assert "bias at add" in hands_on.witness
    assert adds_up.verdict == decisions.PROVED
