"""The scoreboard says what is computed, proves only what holds, and its documents agree with it."""

from dataclasses import replace

import pytest
import sympy as sp

from axioms import kinds
from axioms.algebra import rules
from axioms.algebra.leave_one_out import integrated_gradients, leave_key_out, leave_one_out
from axioms.algebra.propagate import evaluate
from axioms.composites import ATTNLRP, CP_LRP, GRADIENT_X_INPUT
from axioms.invariance.attention import EVERY_TEMPLATE
from axioms.invariance.canonizers import canonize, merge
from axioms.invariance.markdown import ATTENTION, PAGE, UNITS, as_markdown, filled, witnesses
from axioms.invariance.masks import by_masks
from axioms.invariance.points import points
from axioms.invariance.rewrites import REWRITES
from axioms.invariance.rule_sets import (
    MASK_RELEVANCE,
    RULE_SETS,
    RuleSet,
    absolute_split,
    z_plus,
)
from axioms.invariance.scoreboard import (
    COVERED,
    FINITE,
    LIMIT,
    NOT_APPLICABLE,
    ON_TEMPLATES,
    PROVED,
    REFUTED,
    Cell,
    decide,
    on_attention,
    on_units,
    scoreboard,
)
from axioms.invariance.templates import TEMPLATES
from axioms.invariance.witness import differ
from axioms.neighbours import DEPASS, MAMBA_LRP, RELP
from axioms.theorems.test_axioms_of_methods import AXIOMS, METHODS, axioms_of

BY_NAME = {rule_set.name: rule_set for rule_set in RULE_SETS}


def test_the_document_is_what_is_computed():
    cells, page = scoreboard(), PAGE.read_text("utf-8")
    for part in (as_markdown(cells), witnesses(cells)):
        assert f"-->\n{part}\n<!--" in page
    said = "docs/SCOREBOARD.md: run `python -m axioms.invariance.markdown`, which writes it"
    assert filled(page, cells) == page, said
    assert filled(page.replace("✓", "x"), cells).count("✓") > 99


def test_the_document_has_what_is_computed_of_softmax_attention():
    cells, page = on_attention(), PAGE.read_text("utf-8")
    assert filled(page, cells, of=ATTENTION) == page
    verdicts = {cell.rewrite: cell.verdict for cell in cells if cell.rule_set == "mask relevance"}
    assert verdicts.pop("duplicate keys") == REFUTED
    assert set(verdicts.values()) == {PROVED}


def test_the_document_has_what_is_computed_of_gated_units_norms_and_recurrences():
    cells, page = on_units(), PAGE.read_text("utf-8")
    assert filled(page, cells, of=UNITS) == page
    verdict = {(c.rule_set, c.rewrite): c.verdict for c in cells if c.eps == LIMIT}
    assert verdict["MambaLRP", "recurrence as attention"] == PROVED  # theorem 72
    assert verdict["AttnLRP", "recurrence as attention"] == REFUTED
    assert verdict["CP-LRP", "fold weight of RMSNorm"] == PROVED  # theorem 74
    assert verdict["RelP", "re-bracket a SwiGLU"] == REFUTED  # theorem 71
    assert verdict["DePass", "re-bracket a SwiGLU"] == NOT_APPLICABLE
    assert {c.verdict for c in cells if c.rule_set == "gradient x input"} == {PROVED}


def test_methods_of_other_papers_have_the_rules_of_cp_lrp():
    """So that their cells of the first two tables are its cells, or not applicable."""
    assert RELP.rules == CP_LRP.rules
    assert MAMBA_LRP.rules.items() | DEPASS.rules.items() <= CP_LRP.rules.items()


def test_the_findings_have_the_axioms_that_methods_obey():
    page = (PAGE.parent / "FINDINGS.md").read_text("utf-8")
    assert f"| method | {' | '.join(AXIOMS)} |" in page
    for method, parts in METHODS.items():
        holds = axioms_of(*parts)
        cells = ["✓" if axiom in holds else "✗" for axiom in AXIOMS]
        assert f"\n| {method} | {' | '.join(cells)} |\n" in page


def test_mask_relevance_of_a_graph_is_leave_one_out_of_its_keys():
    """In one head that is read linearly, summed over rows; without attention there is none."""
    (head,) = EVERY_TEMPLATE["decompose softmax of attention"]
    at = {"z": sp.Matrix([[0, sp.log(2)], [0, 0]]), "v": sp.Matrix([[1, 5], [2, 3]])}
    found = by_masks(head.root, at)["masks"]
    rows = [leave_key_out(sp.Matrix([e]), at["v"]) for e in ([1, 2], [1, 1])]
    assert found == sp.Matrix([[sum(loo[i, :]) for i in range(2)] for loo in rows])
    cell = decide(MASK_RELEVANCE, "fold linear", LIMIT)
    assert cell.verdict == NOT_APPLICABLE


KNOWN = [  # each a theorem of axioms/theorems, or a consequence of one
    ("AttnLRP", "re-associate products", LIMIT, REFUTED),
    ("AttnLRP", "re-associate sums", LIMIT, PROVED),
    ("AttnLRP", "re-associate sums", FINITE, REFUTED),
    ("AttnLRP", "factorize attention", LIMIT, REFUTED),
    ("AttnLRP", "distribute products", LIMIT, PROVED),
    ("AttnLRP, canonized", "distribute products", LIMIT, REFUTED),
    ("AttnLRP, canonized", "re-associate products", FINITE, PROVED),
    ("AttnLRP, canonized", "rescale Q and K", FINITE, REFUTED),
    ("AttnLRP, abs split", "re-associate sums", LIMIT, REFUTED),
    ("plain epsilon", "commute products", LIMIT, NOT_APPLICABLE),
    ("leave-one-out", "factorize attention", LIMIT, PROVED),
]


@pytest.mark.parametrize(("name", "rewrite", "eps", "expected"), KNOWN)
def test_known_verdicts_are_found(name, rewrite, eps, expected):
    cell = decide(BY_NAME[name], rewrite, eps)
    assert cell.verdict == expected
    assert bool(cell.witness) == (expected == REFUTED)


def test_a_theorem_about_a_canonizer_says_nothing_of_another_one():
    for given in ({"prepare": merge}, {"prepare": canonize, "composite": GRADIENT_X_INPUT}):
        rule_set = RuleSet(**{"name": "prepared", "composite": ATTNLRP, **given})
        cell = decide(rule_set, "commute products", LIMIT)
        assert (cell.verdict, cell.theorem) == (ON_TEMPLATES, 0)


def test_every_proof_beyond_templates_names_its_theorem():
    cells = [cell for cell in scoreboard() if cell.rule_set == "AttnLRP, canonized"]
    proved = {(cell.rewrite, cell.eps): cell.theorem for cell in cells if cell.verdict == PROVED}
    assert proved == {key: theorem for key, theorem in COVERED.items() if key[0] in REWRITES}
    assert {cell.verdict for cell in cells} == {PROVED, REFUTED}


def first_takes_all(node, xs, r, options):
    return [r, *(sp.zeros(*x.shape) for x in xs[1:])]


def weighted_by_square(node, xs, r, options):
    squares = [x.multiply_elementwise(x) for x in xs]
    return rules.add(squares, r, eps=0)


WRONG = {  # a rule that no rewrite of this name leaves alone
    "the first operand takes all": ("commute sums", kinds.ADD, first_takes_all),
    "the first factor takes all": ("commute products", kinds.PRODUCT, first_takes_all),
    "a sum splits by squares": ("re-associate sums", kinds.ADD, weighted_by_square),
    "a layer passes on half": (
        "insert identity layer",
        kinds.LINEAR,
        lambda node, xs, r, options: (rules.epsilon(*xs[:2], r, eps=0)[0] / 2,),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_rule_that_is_not_invariant_is_refuted_with_a_witness(name):
    rewrite, kind, message = WRONG[name]
    cell = decide(RuleSet(name=name, composite=ATTNLRP, instead={kind: message}), rewrite, LIMIT)
    assert cell.verdict == REFUTED
    assert "gives" in cell.witness


POLYNOMIAL = (
    "re-associate products",
    "distribute products",
    "factorize attention",
    "fold linear",
    "rescale Q and K",
)


@pytest.mark.parametrize("rewrite", POLYNOMIAL)
def test_functionals_of_the_function_agree_when_they_are_computed(rewrite):
    """What the last three columns infer from the equality of functions, computed outright."""
    template = TEMPLATES[rewrite][0]
    point = next(points(template.least_shapes()))
    point = {x: value.applyfunc(lambda v: v + 1) for x, value in point.items()}
    inputs = {x: sp.Symbol(x) for x in ("x", "y", "a", "b", "c", "q", "k", "v") if x in point}
    symbols = {x: sp.Matrix(*point[x].shape, [s] * len(point[x])) for x, s in inputs.items()}
    at = {s: point[x][0] for x, s in inputs.items()}
    found = []
    for graph in (template.root, *REWRITES[rewrite](template.root)):
        f = sp.Add(*evaluate(graph, {**point, **symbols})[graph])
        found.append((leave_one_out(f, at), integrated_gradients(f, at)))
        gradient = RuleSet(name="gradient", composite=GRADIENT_X_INPUT)
        found[-1] += (gradient.explain(graph, point, eps=0),)
    assert all(other == found[0] for other in found[1:])


def test_the_symbolic_splits_are_the_rules_at_numbers():
    x, y, r = sp.Matrix([[1, -2]]), sp.Matrix([[-3, -1]]), sp.Matrix([[5, 7]])
    w, b, eps = sp.Matrix([[1, 2], [-1, 3]]), sp.Matrix([[2, 1]]), sp.Rational(1, 4)
    split = absolute_split(None, [x, y], r, {"eps": eps})
    assert tuple(split) == tuple(rules.add_by_size([x, y], r, eps=eps))
    assert z_plus(None, [x, w, b], r, {"eps": eps}) == rules.z_plus(x, w, r, eps=eps, bias=b)


def test_points_come_smallest_first_and_have_no_zeros():
    found = points({"x": (1, 2)})
    first = [tuple(next(found)["x"]) for _ in range(5)]
    assert first == [(1, 1), (1, 2), (2, 1), (-1, 1), (1, -1)]


def test_a_table_shows_both_regimes_where_they_differ():
    cell = Cell(rule_set="m", rewrite="r", eps=LIMIT, verdict=PROVED)
    other = replace(cell, eps=FINITE, verdict=REFUTED, witness="x = 1")
    assert as_markdown((cell, other)).endswith("| r | ✓ / ✗ |")
    assert as_markdown((cell, replace(other, verdict=PROVED))).endswith("| r | ✓ |")
    assert witnesses((cell, other)) == "### R\n\n- m, finite epsilon: x = 1."


def test_only_a_certain_digit_tells_numbers_apart():
    shares = [sp.exp(k) / sum(sp.exp(j) for j in (1, 2, 3)) for k in (1, 2, 3)]
    zero = sum(shares) - 1  # which SymPy does not see
    for noise in (1 / zero, zero / (zero**2 + zero)):
        assert not differ([noise], [sp.Integer(7)])
    assert not differ([zero], [sp.Integer(0)])
    assert differ([zero], [sp.Integer(7)])
    assert differ([shares[0]], [shares[0] + sp.E / 10**40])
    assert differ([sp.Rational(1, 3)], [sp.Rational(1, 3) + sp.Rational(1, 10**40)])
