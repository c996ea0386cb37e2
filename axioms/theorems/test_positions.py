"""Position in attention: what each way of encoding it takes, and what it should have taken.

Main statements
  45  in nine ways to encode position, content and position receive all that arrives as eps -> 0
      and stabilisers absorb the rest
  46  a bias that is equal along a row changes nothing, and in total receives nothing as eps -> 0;
      nor does it take anything from the scores; its absolute values do not vanish
  47  multiplied into the weights, position receives a quarter of the readout's relevance, even
      where it is 1 everywhere
  48  a linear map of scores and biases explains as the bias that it amounts to
  49  a chain of steps k <- k - P k leaves out steps that do nothing; as a chain of products it
      gives a key that is n steps away R/2^n, even where every step does nothing
  50  rotary position receives half at every angle, also at 0; measured from angle 0 it receives
      nothing there, and still conserves
That the signed sums of rotary position conserve, and absolute ones do not, is theorem 22.
"""

import pytest
import sympy as sp

from axioms import kinds
from axioms.algebra import positional
from axioms.algebra.decide import differ_at, generic, identical, limit, where
from axioms.algebra.ledger import causes, ledger, unknown_messages
from axioms.algebra.positional import FAMILIES, POSITION
from axioms.algebra.propagate import evaluate, explain
from axioms.algebra.rules import add, bilinear_epsilon, equal_split, taylor
from axioms.causes import STABILISER
from axioms.composites import ATTNLRP
from axioms.graph import LEAVES, Node, leaf, parameter, topological

EPS = sp.Symbol("epsilon", positive=True)
N = 3
S, R = generic("s", 1, N), generic("r", 1, N)
E = generic("e", 1, N, positive=True)  # exponentials of logits, independent of them
C = sp.Symbol("c", real=True)


def leaves(root):
    return [node.name for node in topological(root) if node.op in LEAVES]


def symbols(root):
    names = leaves(root)
    return {name: generic(f"v{n}_", *positional.shape(name)) for n, name in enumerate(names)}


def arriving(root, point):
    """Generic relevance: so much per unit of output, which keeps fractions small."""
    z = evaluate(root, point)[root]
    return z.multiply_elementwise(generic("g", *z.shape))


def total(found, *, of_position):
    """The signed sum over position leaves, or over the others."""
    return sum(sum(r) for name, r in found.items() if name.startswith(POSITION) == of_position)


@pytest.mark.theorem(
    45,
    "As epsilon -> 0, content and position together receive all relevance that arrives at the "
    "logits (or weights, or embedding) where position enters, signed, in each of nine encodings.",
    "proved",
)
@pytest.mark.parametrize("family", FAMILIES)
def test_signed_relevance_of_content_and_position_conserves(family, record_property):
    root = FAMILIES[family]()
    point = symbols(root)
    if family == "logit map":  # so that the logits and biases that f acts on are symbols
        point |= dict.fromkeys(("k", "features"), sp.eye(2))
    r = arriving(root, point)
    found = explain(root, point, ATTNLRP, relevance=r)
    content, place = total(found, of_position=False), total(found, of_position=True)
    assert identical(content + place, sum(r))
    assert not identical(place, 0)
    assert not identical(content, 0)
    record_property("method", "cancel over generic values, one sweep per encoding")


@pytest.mark.theorem(
    45,
    "At finite epsilon the same encodings lose to stabilisers alone, operation by operation.",
    "proved",
)
@pytest.mark.parametrize("family", FAMILIES)
def test_only_stabilisers_absorb_where_position_enters(family, record_property):
    root = FAMILIES[family]()
    assert {cause for _, cause in causes(root, ATTNLRP)} <= {STABILISER}
    shapes = {node: value.shape for node, value in evaluate(root, symbols(root)).items()}
    for node in topological(root):
        if node.args:
            check_operation(node, [shapes[arg] for arg in node.args], shapes[node])
    kept, absorbed = unknown_messages(root, C)
    assert identical(kept + sum(absorbed), C)
    record_property(
        "method",
        "cancel over generic operands of every operation alone; what they absorb adds up along "
        "the graph, by the sweep with unknown messages",
    )


def check_operation(node, shapes, shape):
    """Raises AssertionError unless stabilisers absorb all that one operation does not hand on."""
    operands = [
        (parameter if k and node.op == kinds.LINEAR else leaf)(f"x{k}_") for k in range(len(shapes))
    ]
    root = Node(node.op, tuple(operands), attributes=node.attributes)
    point = {x.name: generic(x.name, *s) for x, s in zip(operands, shapes, strict=True)}
    signs = {root: generic("sign", *shape)}
    for j in range(shape[0] * shape[1]):
        r = sp.zeros(*shape)
        r[j] = C
        books = ledger(root, point, ATTNLRP, eps=EPS, signs=signs, relevance=r)
        absorbed = sum(books.absorbed.values())
        assert {cause for _, cause in books.absorbed} <= {STABILISER}
        assert identical(sum(books.kept.values()) + absorbed, C)
        assert identical(limit(absorbed, EPS), 0)


def split(scores, bias, r_a, exponentials, *, eps=0):
    """Relevance of scores and bias, from that of the weights: Eq. 5, then Eq. 1 on their sum."""
    (r_z,) = taylor(scores + bias, r_a, exp_z=exponentials)
    return add((scores, bias), r_z, eps=eps)


@pytest.mark.theorem(
    46,
    "A bias that is equal along a row of logits receives nothing in total as epsilon -> 0, and "
    "every score what it would receive without the bias.",
    "proved",
)
def test_a_bias_that_changes_nothing_receives_nothing_in_total(record_property):
    of_scores, of_bias = split(S, C * sp.ones(1, N), R, E)
    (without,) = taylor(S, R, exp_z=E)
    assert identical(sum(of_bias), 0)
    assert identical(of_scores, without)
    record_property("method", f"cancel over {N} generic scores, exponentials, relevances and c")


@pytest.mark.theorem(
    46,
    "The absolute values of what the entries of that bias receive sum to nothing either.",
    "refuted",
)
def test_the_absolute_values_of_a_bias_that_changes_nothing_do_not_vanish(record_property):
    _, of_bias = split(C * sp.ones(1, N), C * sp.ones(1, N), R, sp.ones(1, N))
    assert identical(sum(of_bias), 0)
    assert differ_at(sum(map(abs, of_bias)), 0, where((C, 1), (R, [1, 2, 3])))
    record_property(
        "witness",
        "scores and bias 1, relevance of the weights (1, 2, 3): bias (-1, 0, 1), signed 0, "
        "absolute 2",
    )


@pytest.mark.theorem(
    46,
    "Adding c to all entries of any bias, which changes no weight, changes neither its total as "
    "epsilon -> 0 nor the relevance of any score.",
    "proved",
)
def test_the_total_of_a_bias_does_not_depend_on_its_zero(record_property):
    bias = generic("b", 1, N)
    of_scores, of_bias = split(S, bias, R, E)
    same_scores, moved = split(S, bias + C * sp.ones(1, N), R, E)
    assert identical(sum(moved), sum(of_bias))
    assert identical(same_scores, of_scores)
    record_property("method", f"cancel over {N} generic scores, biases, relevances and c")


def weighted():
    return Node(kinds.READOUT, (positional.multiplied_weights(), leaf("v")))


@pytest.mark.theorem(
    47,
    "A table multiplied into the attention weights receives a quarter of the readout's relevance "
    "as epsilon -> 0, the weights a quarter, and the values half, whatever their values.",
    "proved",
)
def test_a_multiplied_table_receives_a_quarter(record_property):
    root = weighted()
    point = symbols(root) | {"v": generic("v", 2, 1)}
    r = arriving(root, point)
    found = explain(root, point, ATTNLRP, relevance=r)
    quarter = sum(r) / 4
    assert identical(sum(found["position table"]), quarter)
    assert identical(sum(found["weights"]), quarter)
    assert identical(sum(found["v"]), 2 * quarter)
    record_property("method", "cancel over generic weights, table, features and values")


@pytest.mark.theorem(
    47,
    "A table of ones, which changes no weight, receives nothing.",
    "refuted",
)
def test_a_multiplied_table_of_ones_receives_a_quarter_all_the_same(record_property):
    root, weights, v = weighted(), generic("w", 1, 2), generic("v", 2, 1)
    ones = {"position table": sp.ones(1, 2), "features": sp.eye(2)}
    point = {"weights": weights, "v": v, **ones}
    value = evaluate(root, point)[root][0]
    share = sum(explain(root, point, ATTNLRP)["position table"])
    assert identical(value, (weights * v)[0])
    assert identical(share, value / 4)
    half = sp.Rational(1, 2)
    assert differ_at(share, 0, where((weights, [half, half]), (v, [2, 6])))
    record_property("witness", "weights 1/2, v = (2, 6), table (1, 1): 1 of 4, not 0")


@pytest.mark.theorem(
    48,
    "Where the map of logits is linear, Z = S + a S + b B, scores and table receive as epsilon -> "
    "0 what they receive of the same logits as a sum of two terms, (1 + a) S + b B.",
    "proved",
)
def test_a_linear_map_of_logits_explains_as_the_bias_that_it_is(record_property):
    a, b = (sp.Matrix([[sp.Symbol(name, real=True)]]) for name in "ab")
    scores, table = leaf("scores"), positional.position("table")

    def scaled(x, name):
        return Node(kinds.LINEAR, (x, parameter(name)))

    mapped = scores + (scaled(scores, "a") + scaled(table, "b"))
    plain = scaled(scores, "1 + a") + scaled(table, "b")
    point = {
        "scores": generic("s", 2, 1),
        "position table": generic("t", 2, 1),
        "a": a,
        "b": b,
        "1 + a": sp.ones(1, 1) + a,
    }
    r = generic("r", 2, 1)
    one, other = (explain(root, point, ATTNLRP, relevance=r) for root in (mapped, plain))
    for name in ("scores", "position table"):
        assert identical(one[name], other[name])
    record_property("method", "cancel over generic scores, table, weights and relevance")


@pytest.mark.theorem(
    49,
    "A step of k <- k + k N gives N half of what k N is of the sum, and k the rest, as epsilon -> "
    "0; where N = 0 it receives exactly nothing, in a chain of any length.",
    "proved",
)
def test_steps_that_do_nothing_receive_nothing(record_property):
    k, r, n = generic("k", 1, 2), generic("r", 1, 2), generic("n", 2, 2)
    away = k * n
    of_k, of_away = add((k, away), r, eps=0)
    more, of_n = bilinear_epsilon(k, n, of_away, eps=0)
    moved = k + away
    part = sum(r[i] * away[i] / moved[i] for i in range(2)) / 2
    assert identical(sum(of_n), part)
    assert identical(sum(of_k) + sum(more), sum(r) - part)
    thirds = equal_split(3, of_n)  # beta, w and w: no relevance is lost on the way
    assert identical(sum(sum(third) for third in thirds), part)

    # With N = 0 the sum is k and a product that is 0, whose relevance R 0/k is 0.
    nothing = sp.zeros(1, 2)
    of_k, of_away = add((k, nothing), r, eps=0)
    assert identical(of_k, r)
    assert identical(of_away, nothing)
    record_property("method", "cancel over a generic key and step; induction on the chain")


def products(steps):
    """k H_1 ... H_n, one matrix product after the other."""
    key = leaf("k")
    for step in range(steps):
        key = key @ positional.position(f"step {step}")
    return key


@pytest.mark.theorem(
    49,
    "As a chain of n matrix products with half to each factor, a key n steps away keeps R/2^n of "
    "its relevance, whatever the steps.",
    "proved",
)
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_chain_of_products_takes_a_half_with_every_step(steps, record_property):
    key = products(steps)
    point = symbols(key)
    r = arriving(key, point)
    found = explain(key, point, ATTNLRP, relevance=r)
    assert identical(sum(found["k"]), sum(r) / 2**steps)
    for step in range(steps):  # the last one is the first to take its half
        assert identical(sum(found[f"position step {step}"]), sum(r) / 2 ** (steps - step))
    record_property("method", "induction by theorem 7; up to 3 steps by cancel over generic steps")


@pytest.mark.theorem(
    49,
    "In that chain, steps by the identity matrix, which move no key, receive nothing.",
    "refuted",
)
def test_a_chain_of_identities_takes_all_but_a_power_of_two(record_property):
    steps, k = 3, sp.Symbol("k", positive=True)
    chain = products(steps)
    ones = {name: k if name == "k" else 1 for name in leaves(chain)}
    assert identical(evaluate(chain, ones)[chain][0], k)
    found = explain(chain, ones, ATTNLRP)
    assert identical(found.pop("k"), k / 2**steps)
    assert differ_at(sum(found.values()), 0, {k: 1})

    same = leaf("k")
    for step in range(steps):
        same = same + same @ positional.position(f"step {step}")
    still = {name: k if name == "k" else 0 for name in leaves(same)}
    # 0 in the limit: the product of k and 0 is 0, where the rule needs a stabiliser
    found = explain(same, still, ATTNLRP, eps=EPS)
    assert identical(sum(found.values()), found["k"])
    record_property("witness", "k = 1, 3 steps of 1: 7/8 of 1, not 0; as sums, with steps of 0: 0")


def turned(q, cos, sin, r, *, from_zero):
    """Relevance of q and of position from that of the turned q.

    ``from_zero``: q + q (cos - 1) + q' sin, so that position is what differs from angle 0.
    """
    other = sp.Matrix([[-q[1], q[0]]])
    factors = [(q, cos - int(from_zero)), (other, sin)]
    terms = [x * factor for x, factor in factors]
    own, *parts = add(([q] if from_zero else [sp.zeros(1, 2)]) + terms, r, eps=0)
    halves = [equal_split(2, part) for part in parts]
    return sum(own) + sum(sum(h[0]) for h in halves), sum(sum(h[1]) for h in halves)


@pytest.mark.theorem(
    50,
    "Rotary position receives half of the relevance of the turned query as epsilon -> 0, whatever "
    "the angle: so its total says nothing of what position did, and only its spread over tokens "
    "and layers does.",
    "proved",
)
def test_rotary_position_receives_half_at_every_angle(record_property):
    q, r = generic("q", 1, 2), generic("r", 1, 2)
    cos, sin = sp.symbols("cos sin", real=True)
    of_q, of_position = turned(q, cos, sin, r, from_zero=False)
    assert identical(of_position, sum(r) / 2)
    assert identical(of_q, sum(r) / 2)
    record_property("method", "cancel over a generic query, cos, sin and relevance")


@pytest.mark.theorem(
    50,
    "At angle 0, where the query is not turned, rotary position receives nothing.",
    "refuted",
)
def test_rotary_position_receives_half_at_angle_zero(record_property):
    q, r = generic("q", 1, 2), generic("r", 1, 2)
    of_q, of_position = turned(q, sp.Integer(1), sp.Integer(0), r, from_zero=False)
    assert identical(of_q, of_position)
    assert differ_at(of_position, 0, where((q, [2, 3]), (r, [1, 1])))
    record_property("witness", "q = (2, 3), R = (1, 1): position 1, not 0, and query 1")


@pytest.mark.theorem(
    50,
    "Written as q + q (cos - 1) + q' sin, rotary position receives nothing at angle 0, and query "
    "and position still receive all relevance at every angle.",
    "proved",
)
def test_measured_from_angle_zero_rotary_position_vanishes_there(record_property):
    q, r = generic("q", 1, 2), generic("r", 1, 2)
    cos, sin = sp.symbols("cos sin", real=True)
    of_q, of_position = turned(q, cos, sin, r, from_zero=True)
    assert identical(of_q + of_position, sum(r))
    assert identical(of_position.subs({cos: 1, sin: 0}), 0)
    assert not identical(of_position, 0)
    record_property("method", "cancel over a generic query, cos, sin and relevance")
