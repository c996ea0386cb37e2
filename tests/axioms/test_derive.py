"""Every rule follows from its forward operation, and no wrong rule does."""

import functools
import re
from dataclasses import replace

import pytest
import sympy as sp
from sympy import Matrix

from axioms import kinds
from axioms.decide.identity import differ_at, identical
from axioms.derivations.derive import EPS, OUTPUT, SUM, derive
from axioms.derivations.operations import OPERATIONS, derivations
from axioms.derivations.roots import ROOTS
from axioms.evidence.statements import table
from axioms.rules import norms
from axioms.rules.activations import identity
from axioms.rules.attention import softmax as softmax_rule
from axioms.rules.attention import taylor
from axioms.rules.attention import value_only as value_only_rule
from axioms.rules.linear import add, epsilon, epsilon_without_bias
from axioms.rules.products import bilinear_epsilon, chain_epsilon, equal_split


def stabilised(d):
    return {"eps": EPS, "sign": d.signs}


def factors(d):
    return d.operation.operands.values()


def symbols(name, like):
    """The symbols that a derivation names ``name`` + indices, as a matrix of some shape."""
    return Matrix(*like.shape, lambda i, j: sp.Symbol(f"{name}{i}{j}", real=True))


def scores(d):
    q, k = factors(d)
    scale = sp.Symbol("scale", positive=True)
    r_q, r_k = bilinear_epsilon(q, k.T, d.relevance, scale=scale, **stabilised(d))
    return r_q, r_k.T


def linear(rule):
    def message(d):
        (x,) = factors(d)
        columns = d.relevance.cols
        w, b = symbols("w", sp.zeros(x.cols, columns)), symbols("b", d.relevance)
        return rule(x, w, d.relevance, bias=b, **stabilised(d))

    return message


def value_only(d):
    (v,) = factors(d)
    a = symbols("a", sp.zeros(d.relevance.rows, v.rows))
    return value_only_rule(a, v, d.relevance, **stabilised(d))[1:]


def softmax(d):
    (z,) = factors(d)
    e = z.applyfunc(lambda x: d.operation.names[sp.exp(x)])
    return taylor(z, d.relevance, exp_z=e)


def batch_norm(d):
    (x,) = factors(d)
    r = d.relevance
    w, b = symbols("w", sp.zeros(x.cols, r.cols)), symbols("b", r)
    scale, shift = symbols("g", r), symbols("t", r)
    bias = b.multiply_elementwise(scale) + shift
    return epsilon(x, w * sp.diag(*scale), r, bias=bias, **stabilised(d))


def merged_attention(d):
    q, k, v = factors(d)
    r_q, r_k, r_v = chain_epsilon((q, k.T, v), d.relevance, **stabilised(d))
    return r_q, r_k.T, r_v


def held(d):
    (x,) = factors(d)
    w, b = symbols("w", x), symbols("b", x)
    std = [sp.Symbol("std", positive=True)]
    return norms.held_deviation(x, w, b, d.relevance, deviation=std, **stabilised(d))


def held_root(d):
    (x,) = factors(d)
    rms = [sp.Symbol("rms", positive=True)]
    w = symbols("w", x)
    return norms.held_root_mean_square(x, w, d.relevance, rms=rms, **stabilised(d))


def state_space(d):
    """The value-only rule of one readout by the row (A, B), of the column of h and x."""
    h, x = factors(d)
    both = symbols("a", sp.zeros(h.rows, h.rows)).row_join(symbols("b", h))
    _, received = value_only_rule(both, h.col_join(x), d.relevance, **stabilised(d))
    return received[: h.rows, :], received[h.rows :, :]


# name: (the formula of axioms.rules on the same symbols, arguments for a larger shape)
TEXTS = {
    "product": (lambda d: equal_split(len(factors(d)), d.relevance), (4,)),
    "linear": (linear(epsilon), (3, 2)),
    "linear without bias": (linear(epsilon_without_bias), (3, 2)),
    "linear, then BatchNorm": (batch_norm, (3, 2)),
    "add": (lambda d: add(list(factors(d)), d.relevance, **stabilised(d)), (3,)),
    "readout": (lambda d: bilinear_epsilon(*factors(d), d.relevance, **stabilised(d)), (2, 3, 2)),
    "scores": (scores, (2, 2, 3)),
    "value only": (value_only, (2, 3, 2)),
    "merged attention": (merged_attention, (1, 2, 2)),
    "softmax": (softmax, (3,)),
    "LayerNorm, deviation held": (held, (3,)),
    "RMSNorm, root mean square held": (held_root, (3,)),
    "state space step": (state_space, (3,)),
    "activation": (lambda d: identity(d.relevance), ()),
}


@functools.cache
def at_larger_shape(name):
    return derive(OPERATIONS[name](*TEXTS[name][1]))


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_last_formula_is_the_message_of_a_rule_of_the_vocabulary(name):
    for derivation in (derive(OPERATIONS[name]()), at_larger_shape(name)):
        messages = TEXTS[name][0](derivation)
        assert all(identical(a, b) for a, b in zip(derivation.messages, messages, strict=True))
    assert any(OPERATIONS[name]().rule in names for names in kinds.RULES.values())


def test_the_other_denominator_gives_other_rules():
    """Divided by the output, each factor gets all of R; divided by the sum, softmax conserves."""
    readout, softmax = (OPERATIONS[name] for name in ("readout", "softmax"))
    halves, wholes = derive(readout()), derive(replace(readout(), denominator=OUTPUT))
    divided = [next(x.text for x in d.steps if "Divide" in x.text) for d in (halves, wholes)]
    assert [SUM in text for text in divided] == [OUTPUT not in text for text in divided]
    assert divided[0] != divided[1]
    for half, whole in zip(halves.messages, wholes.messages, strict=True):
        assert identical(whole.subs(EPS, 0), 2 * half.subs(EPS, 0))
        assert not identical(whole, 2 * half)  # the stabiliser was not doubled
    eq5, conserving = derive(softmax()), derive(replace(softmax(), denominator=SUM))
    assert identical(sum(conserving.messages[0]), sum(eq5.relevance))
    assert not identical(sum(eq5.messages[0]), sum(eq5.relevance))
    assert differ_at(
        eq5.messages[0][0],
        conserving.messages[0][0],
        {x: n + 2 for n, x in enumerate(sorted(eq5.messages[0].free_symbols, key=str))},
    )


def test_one_output_without_contributions_is_enough_to_say_nothing():
    product = OPERATIONS["product"]()
    both = replace(product, outputs=product.outputs.row_join(sp.Matrix([[symbol("w")]])))
    with pytest.raises(ValueError, match="says nothing"):
        derive(both)


def symbol(name):
    return sp.Symbol(f"{name}00", real=True)


DROPPED = {  # beginning of the words -> output 0 of the dropped part
    "the bias of the folded layer": lambda d: symbol("b") * symbol("g") + symbol("t"),
    "the bias": lambda d: symbol("b"),
    "nothing": lambda d: 0,
    r"(-\d) times the product": lambda d, n: int(n) * d.operation.outputs[0],
    "-[OZ],": lambda d: -d.operation.outputs[0],
    "-2 O,": lambda d: -2 * d.operation.outputs[0],
    r"A \(1 - z \+ zbar\)": lambda d: softmax_residual(d),
    "y minus x times the slope": lambda d: (
        sp.Symbol("y") - sp.Symbol("slope") * next(iter(factors(d)))[0]
    ),
}


def softmax_residual(d):
    (z,) = factors(d)
    a = softmax_rule(z, exp_z=z.applyfunc(lambda x: d.operation.names[sp.exp(x)]))
    return a[0] * (1 - z[0] + (a * z.T)[0])


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_the_expansion_drops_is_what_the_derivation_says(name):
    for derivation in (derive(OPERATIONS[name]()), at_larger_shape(name)):
        words = derivation.operation.drops
        assert any(words in step.text for step in derivation.steps)
        known = ((re.match(text, words), found) for text, found in DROPPED.items())
        dropped = next(found(derivation, *match.groups()) for match, found in known if match)
        assert identical(derivation.residual[0], dropped)
        assert not identical(derivation.residual[0], dropped + 1)


@pytest.mark.parametrize("name", OPERATIONS)
def test_all_that_is_held_constant_is_named(name):
    operation = OPERATIONS[name]()
    operands = {x for operand in operation.operands.values() for x in operand}
    outputs = operation.outputs.subs(operation.names)
    held = {re.match("[a-z]+", str(x))[0] for x in outputs.free_symbols - operands}
    said = re.findall("[a-z]+", operation.assumes.replace("a constant", "").lower())
    assert held - {"y", "slope"} <= set(said)
    assert operation.assumes in derive(operation).steps[0].text


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_printed_steps_lead_to_the_printed_message(name):
    """Read from the steps alone: f - sum = rest, and for one output R_x = R c / d."""
    derivation = derive(OPERATIONS[name]())
    said = {str(eq.lhs): eq.rhs for step in derivation.steps for eq in step.formulas}
    for part, symbol in derivation.operation.names.items():
        assert said[str(symbol)] == part
    assert identical(said["f"] - said["sum"], said["rest"])
    entries = [str(x) for operand in factors(derivation) for x in operand]
    assert identical(sum(said[f"c_{x}"] for x in entries), said["sum"])
    (divide,) = (step for step in derivation.steps if step.text.startswith("Divide"))
    assert ("epsilon" in divide.text) == divide.formulas[0].has(EPS)
    others = dict.fromkeys(derivation.relevance[1:], 0)  # relevance at the first output only
    for x in entries:
        one = derivation.relevance[0] * said[f"c_{x}"] / said["d"]
        assert identical(said[f"R_{x}"].subs(others), one)


def test_every_derivation_is_that_of_a_theorem_whose_file_names_it():
    named = table("DERIVATIONS")
    assert {name for names in named.values() for name in names} == {*OPERATIONS, *ROOTS}
    assert list(derivations(named[12])) == ["add", "sum split by absolute value"]
    assert not {20, 24} & named.keys()
