"""The scoreboard is up to date, and a check mark on it is a proof."""

import itertools
import random
from dataclasses import replace

import pytest
import sympy as sp

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, DEPASS, GRADIENT_X_INPUT, LIBRAGRAD, MAMBA_LRP, RELP
from axioms.graph import Node, attend, leaf, linear, parameter
from axioms.pages.scoreboard import ATTENTION, PAGE, UNITS, filled
from axioms.rewrites.canonizers import canonize, merge
from axioms.rewrites.points import points, random_point
from axioms.rewrites.rewrites import EVERY_REWRITE, REWRITES
from axioms.rules.effects import (
    by_masks,
    integrated_gradients,
    leave_key_out,
    leave_one_out,
    mask_relevance,
)
from axioms.rules.linear import add, add_by_size, epsilon
from axioms.rules.linear import z_plus as z_plus_rule
from axioms.rules.propagate import evaluate
from axioms.scoreboard import rule_sets
from axioms.scoreboard.rule_sets import (
    MASK_RELEVANCE,
    RuleSet,
    absolute_split,
    positive_split,
    z_plus,
)
from axioms.scoreboard.scoreboard import (
    COVERED,
    FINITE,
    LIMIT,
    NOT_APPLICABLE,
    ON_TEMPLATES,
    REFUTED,
    decide,
    on_attention,
    on_units,
    scoreboard,
)
from axioms.scoreboard.witness import differ
from axioms.theorems.test_axioms_of_methods import AXIOMS, METHODS, axioms_of
from tests.support.scoreboard import marks


@pytest.mark.parametrize(
    ("board", "of"),
    [(scoreboard, {}), (on_attention, {"of": ATTENTION}), (on_units, {"of": UNITS})],
)
def test_the_document_has_the_computed_cells(board, of):
    cells, page = board(), PAGE.read_text("utf-8")
    said = "docs/SCOREBOARD.md: run `python -m axioms.pages.scoreboard`, which writes it"
    assert filled(page, cells, **of) == page, said
    assert filled(page.replace("✓", "x"), cells, **of).count("✓") > 9
    assert all(bool(cell.witness) == (cell.verdict == REFUTED) for cell in cells)


def test_methods_of_other_papers_have_the_rules_of_cp_lrp():
    """So that their cells of the first two tables are its cells, or not applicable."""
    assert RELP.rules == LIBRAGRAD.rules == CP_LRP.rules
    assert MAMBA_LRP.rules.items() | DEPASS.rules.items() <= CP_LRP.rules.items()


def test_the_findings_have_the_axioms_that_methods_obey():
    page = (PAGE.parent / "FINDINGS.md").read_text("utf-8")
    assert f"| method | {' | '.join(AXIOMS)} |" in page
    for method, parts in METHODS.items():
        holds = axioms_of(*parts)
        cells = ["✓" if axiom in holds else "✗" for axiom in AXIOMS]
        assert f"\n| {method} | {' | '.join(cells)} |\n" in page


@pytest.mark.parametrize(("rows", "keys", "channels"), [(1, 2, 1), (2, 3, 2), (3, 2, 2)])
def test_mask_relevance_of_a_graph_is_leave_one_out_of_its_keys(rows, keys, channels):
    """Multiplies each row of every head by the gradient there, and adds up all heads.

    The graph is S * S, S the sum of three heads with layers, so that its gradient at S is 2 S.
    """
    chance = random.Random(keys)
    shapes = {"z": (rows, keys), "v": (keys, channels), "w": (channels, 2)}
    of_heads = {f"{name}{h}": shape for h in range(3) for name, shape in shapes.items()}
    at = {name: sp.Matrix(m) for name, m in random_point(chance, of_heads).items()}
    sizes = {h: at[f"z{h}"].applyfunc(abs) for h in range(3)}  # the exponentials of logits
    at |= {f"z{h}": size.applyfunc(sp.log) for h, size in sizes.items()}
    gradient = sp.Matrix(random_point(chance, {"r": (rows, 2)})["r"])
    heads = [linear(attend(leaf(f"z{h}"), leaf(f"v{h}")), parameter(f"w{h}")) for h in range(3)]
    total = Node(kinds.ADD, tuple(heads))
    for start in (None, gradient):
        found = by_masks(total * total, at, start)["masks"]
        behind = 2 * evaluate(total, at)[total]
        behind = behind if start is None else behind.multiply_elementwise(start)
        expected = sp.zeros(rows, keys)
        for h, n in itertools.product(range(3), range(rows)):
            loo = leave_key_out(sizes[h][n, :], at[f"v{h}"])
            expected[n, :] += (loo * at[f"w{h}"] * behind[n, :].T).T
        assert found.applyfunc(sp.simplify) == expected.applyfunc(sp.simplify)


def test_mask_relevance_takes_copies_of_a_key_for_one_and_needs_attention():
    (template,) = EVERY_REWRITE["duplicate keys"].templates
    (copied,) = EVERY_REWRITE["duplicate keys"](template.root)
    at = {"x": sp.zeros(1, 1), "y": sp.Matrix([1, 2]), "v": sp.Matrix([3, 5])}
    values = evaluate(copied, at)
    each = mask_relevance(*(values[x] for x in copied.args), sp.ones(1, 1))  # of 2 keys, twice
    assert by_masks(copied, at)["masks"] == sp.Matrix([[each[0] + each[2], each[1] + each[3]]])
    cell = decide(MASK_RELEVANCE, "fold linear", LIMIT)
    assert cell.verdict == NOT_APPLICABLE


def test_a_theorem_about_a_canonizer_says_nothing_of_another_one():
    own = RuleSet(name="prepared", composite=ATTNLRP, prepare=canonize)
    of_layers = {"instead": {kinds.LINEAR: z_plus}}
    for given in ({"prepare": merge}, {"composite": GRADIENT_X_INPUT}, of_layers):
        cell = decide(replace(own, **given), "commute products", LIMIT)
        assert (cell.verdict, cell.theorem) == (ON_TEMPLATES, 0)


def test_every_proof_beyond_templates_names_its_theorem():
    marked = lambda key: f"✓ ({COVERED[key]})" if key in COVERED else "✗"
    want = {name: {eps: marked((name, eps)) for eps in (LIMIT, FINITE)} for name in REWRITES}
    assert marks("AttnLRP, canonized") == want


def first_takes_all(node, xs, r, options):
    return [r, *(sp.zeros(*x.shape) for x in xs[1:])]


def weighted_by_square(node, xs, r, options):
    squares = [x.multiply_elementwise(x) for x in xs]
    return add(squares, r, eps=0)


def unseen_at_its_value(node, xs, r, options):
    """Eq. 1 and something else, which is 0 where relevance is the value of the sum."""
    z = xs[0] + xs[1]
    gap = (r[0] * z[-1] - r[-1] * z[0]) * sp.ones(*z.shape)
    first, second = add(xs, r, eps=0)
    return [first + gap, second - gap]


WRONG = {  # a rule that no rewrite of this name leaves alone
    "the first operand takes all": ("commute sums", kinds.ADD, first_takes_all),
    "the first factor takes all": ("commute products", kinds.PRODUCT, first_takes_all),
    "a sum splits by squares": ("re-associate sums", kinds.ADD, weighted_by_square),
    "relevance of one entry": ("commute sums", kinds.ADD, unseen_at_its_value),
    "a layer passes on half": (
        "insert identity layer", kinds.LINEAR,
        lambda node, xs, r, options: (epsilon(*xs[:2], r, eps=0)[0] / 2,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_rule_that_is_not_invariant_is_refuted_with_a_witness(name):
    rewrite, kind, message = WRONG[name]
    cell = decide(RuleSet(name=name, composite=ATTNLRP, instead={kind: message}), rewrite, LIMIT)
    assert cell.verdict == REFUTED
    assert "gives" in cell.witness
    assert ("R = [1 0]" in cell.witness) == (name == "relevance of one entry")


POLYNOMIAL = (
    "re-associate products",
    "distribute products",
    "factorize attention",
    "fold linear",
    "rescale Q and K",
)


@pytest.mark.parametrize("rewrite", POLYNOMIAL)
def test_functionals_of_the_function_agree_when_they_are_computed(rewrite):
    """The last three columns infer this from the equality of functions; here it is computed."""
    template = REWRITES[rewrite].templates[0]
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


@pytest.mark.parametrize("seed", range(4))
def test_the_symbolic_splits_are_the_rules_at_numbers(seed):
    """In three rows, and the splits of three terms."""
    shapes = {"x": (3, 2), "y": (3, 2), "u": (3, 2), "r": (3, 2), "w": (2, 2), "b": (1, 2)}
    at = {n: sp.Matrix(m) for n, m in random_point(random.Random(seed), shapes).items()}
    x, r, w, bias, eps = at["x"], at["r"], at["w"], at["b"], sp.Rational(1, 4)
    terms = [at[name] for name in "xyu"]
    for split, size in ((absolute_split, abs), (positive_split, lambda v: sp.Max(v, 0))):
        found = split(None, terms, r, {"eps": eps})
        assert tuple(found) == tuple(add_by_size(terms, r, eps=eps, size=size))
    for b in (None, bias):
        (found,) = z_plus(None, [x, w, *([] if b is None else [b])], r, {"eps": eps})
        rows = [z_plus_rule(x[n, :], w, r[n, :], eps=eps, bias=b)[0] for n in range(3)]
        assert found == sp.Matrix.vstack(*rows)


def test_sizes_and_positive_parts_of_symbols_keep_their_numbers_apart():
    x, y = sp.symbols("x y", real=True)
    size = rule_sets._absolute
    found = size(-6 * x**2 * y / (4 * (x - y) ** 3))
    assert found == sp.Rational(3, 2) * size(x) ** 2 * size(-y) / size(y - x) ** 3
    part = rule_sets._positive
    assert part(6 * x / 4 - y) == part(3 * x - 2 * y) / 2 == 3 * part(x / 2 - y / 3)
    assert part(-x) != part(x)
    for number in (-2, 0, 2):
        assert (size(sp.Integer(number)), part(sp.Integer(number))) == (abs(number), max(number, 0))


@pytest.mark.parametrize(("held", "parts"), [("010", (2, 0, 2)), ("110", (0, 0, 4)),
    ("000", (1, 1, 1)), ("111", (1, 1, 1))])  # fmt: skip
def test_a_gate_passes_all_to_what_is_no_gate(held, parts):
    kind = {"0": kinds.ADD, "1": kinds.ACTIVATION}
    node = Node(kinds.PRODUCT, tuple(Node(kind[x], (leaf("x"),)) for x in held))
    r = sp.Matrix([[4, 8]]) if sum(parts) == 4 else sp.Matrix([[3, 6]])
    found = rule_sets.gate_held(node, [r] * 3, r, {"eps": 0})
    assert found == tuple(r * part / sum(parts) for part in parts)


def test_only_a_certain_digit_tells_numbers_apart():
    shares = [sp.exp(k) / sum(sp.exp(j) for j in (1, 2, 3)) for k in (1, 2, 3)]
    zero = sum(shares) - 1  # which SymPy does not see
    for noise in (1 / zero, zero / (zero**2 + zero)):
        assert not differ([noise], [sp.Integer(7)])
    assert not differ([zero], [sp.Integer(0)])
    assert differ([zero], [sp.Integer(7)])
    assert differ([shares[0]], [shares[0] + sp.E / 10**40])
    assert differ([sp.Rational(1, 3)], [sp.Rational(1, 3) + sp.Rational(1, 10**40)])
