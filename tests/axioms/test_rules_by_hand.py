"""Rules whose claims are true, true in the limit or false, each known by hand.

A row is the kind, the messages in Python, and the known status of one claim: T, L or F.
"""

import pytest
import sympy as sp

from axioms.own_rules import rule, sign
from axioms.own_rules.operations import OPERATIONS
from axioms.own_rules.properties import CONSERVES, claims
from axioms.own_rules.settings import Setting
from axioms.own_rules.uniform import read
from axioms.own_rules.verdicts import decisions
from axioms.verdict import IN_LIMIT, PROVED, REFUTED

KNOWN = {"T": PROVED, "L": IN_LIMIT, "F": REFUTED}
NAMES = {
    **{x: getattr(sp, x) for x in ("Max", "Min", "Piecewise", "Rational", "And", "Xor", "oo",
        "nan")},
    "P": sp.Piecewise, "sign": sign,
    "prod": sp.prod,
    "up": lambda x, w: [sp.Max(a * b, 0) for a, b in zip(x, w, strict=True)],
    "down": lambda x, w: [sp.Max(-a * b, 0) for a, b in zip(x, w, strict=True)],
    "shared": lambda c, r, eps: [r * each / (sum(c) + eps) for each in c],
    "shares": lambda c, z, r, eps: [r * each / (z + eps * sign(z)) for each in c],
    "half": lambda x, y: sp.Max(x, 0) / (sp.Max(x, 0) + sp.Max(y, 0)),
    "part": lambda y, z, eps: sp.expand(  # 0 for all y >= 0, as the squares of signs are 1
        (z + eps * sign(z)) - (z * sign(z) ** 2 + eps * sign(z) ** 3) * (1 + sign(y)) / 2
    ),
    "beyond": lambda n, a: 1 + sign(2 * len(a) * sum(a) - 2 * n - 1),  # 2 for more inputs than n
    "sizes": lambda v: sum([1 / (1 + abs(c) + c**2) - 1 / (1 + c + c**2) for c in v]),
    "both": lambda x, w: zip(NAMES["up"](x, w), NAMES["down"](x, w), strict=True),
    "dot": lambda x, w: [a * b for a, b in zip(x, w, strict=True)],
}  # fmt: skip
CONSERVATION = """
product T R, 0
product T Piecewise((R, x > 0), (0, True)), Piecewise((R, x <= 0), (0, True))
product T R * Max(x, y) / (x + y), R * Min(x, y) / (x + y)
product T R * abs(x) / (abs(x) + abs(y)), R * abs(y) / (abs(x) + abs(y))
product T R * x**2 / (x**2 + y**2), R * y**2 / (x**2 + y**2)
product T R * x * y / z, 0
product T R * (1 + 2**Rational(1, 2)) / (2 + 2**Rational(1, 2)), R / (2 + 2**Rational(1, 2))
product T R * Max(x, -x) / abs(x), 0
product T R * (1 + sign(x - y)) / 2, R * (1 - sign(x - y)) / 2
product T R * sign(z) * sign(x * y), 0
product T R * x / 3, R - R * x / 3
product T Min(R, 0), Max(R, 0)
product L R / 2, R / 2 + eps * R
product L R / 2, R * Max(eps, 1) / 2
product L R * x / (x + eps * sign(x)), 0
product L R * (3 + sign(eps - Rational(1, 1000))) / 2, 0
product F R / 2, R / 3
product F R / eps, 0
product F R * (3 - sign(eps - Rational(1, 1000))) / 2, 0
product F R * sign(x) * sign(y), 0
product F -R * sign(x) * sign(-x), 0
product F R * (1 + sign(x - y)) / 2, R * (1 + sign(y - x)) / 2
product F R * Max(x, 0) / (Max(x, 0) + Max(y, 0)), R * Max(y, 0) / (Max(x, 0) + Max(y, 0))
product F R * Max(x, 0) / Max(x, 0), 0
product F Piecewise((R, x > 0), (0, True)), Piecewise((R, x < 0), (0, True))
product F Piecewise((R, x > y), (0, True)), Piecewise((R, y > x), (0, True))
product F R * Min(abs(x), 1), R - R * abs(x)
product F R * abs(x * y) / z, 0
product F R * x**2 / (x**2 + y**2 + 1), R * y**2 / (x**2 + y**2 + 1)
product F R / 2, R / 2 + prod([x - k for k in range(-9, 10)])
product F R / 2, R / 2 + Max(0, x - 10**9)
product F R / 2, R / 2 + Max(0, 1 - abs(1000 * x - 1)) * R
product F abs(R), 0
product F R * 2 * eps / (z - x * y + eps), 0
product F R + P((1 / (z - x * y), x > 0), (0, True)), -P((1 / (z - x * y), x > 0), (0, True))
product F R + Piecewise((oo, x > 0), (0, True)), -Piecewise((oo, x > 0), (0, True))
product F R + Piecewise((nan, x > 0), (0, True)), 0
product F R + 1 / part(y, z, eps), -1 / part(y, z, eps)
product T R * (x + y) / (x + y), 0
product T Piecewise((R, Xor(x > 0, y > 0)), (R, True)), 0
product F Piecewise((R, Xor(x > 0, y > 0)), (2 * R, True)), 0
product L R * x / (x + eps * sign(x)) * (Max(y, 0) + eps) / (Max(y, 0) + eps + eps**2), 0
product L R * sign(x) * sign(x - eps), 0
add T R * (x + y) / (x + y), 0
add F P((half(x, y) * R, x > 0), (0, True)), half(y, x) * R
add F half(x, y) * R, P((half(y, x) * R, y > 0), (0, True))
linear F [2 * R * eps / (z - sum(dot(x, w)) - b + eps) / len(x) for _ in x]
readout F [2 * R * eps / (1 - sum(a) + eps) / len(a) for _ in a], [0 for _ in v]
softmax T [P((r, And(z[0] > s, a[0] > p)), (r, z[0] <= s), (5, True)) for r, s, p in zip(R, z, a)]
product F R * Max(sign(x**2 - 2), sign(2 - x**2)) * sign(x**2 - 2) * sign(2 - x**2) * -1, 0
add T R * abs(x) / (abs(x) + abs(y)), R * abs(y) / (abs(x) + abs(y))
add T R * Min(abs(x), abs(y)) / (abs(x) + abs(y)), R * Max(abs(x), abs(y)) / (abs(x) + abs(y))
add T R * x / z, R * y / (x + y)
add T R * Min(abs(x), abs(y)) / (2 * Min(abs(x), abs(y))), R / 2
add T R * (x - y) / 2 + R / 2, R * (y - x) / 2 + R / 2
add L R * x / (z + eps * sign(z)), R * y / (z + eps * sign(z))
add L R * x / (z + eps), R * y / (z + eps)
add L R * abs(x) / (abs(x) + abs(y) + eps), R * abs(y) / (abs(x) + abs(y) + eps)
add F x, y
add F R * x / (z + 1), R * y / (z + 1)
add F R * x / (abs(z) + eps), R * y / (abs(z) + eps)
add F R * Max(x, 0) / (Max(x, 0) + Max(y, 0) + eps), R * Max(y, 0) / (Max(x, 0) + Max(y, 0) + eps)
add F R * abs(x) / abs(z), R * abs(y) / abs(z)
add F R * (1 + sign(x)) / 2, R * (1 + sign(-x)) / 2
add F R * x / (x - y), -R * y / (x + y)
add F [Piecewise((R * c / z, c / z > 0), (0, True)) for c in (x, y)]
add F [R * Max(c / z, 0) for c in (x, y)]
linear T [R / len(x) for _ in x]
linear T [R * a * c / (z - b) for a, c in zip(x, w)]
linear T [R * c**2 / sum([d**2 for d in w]) for c in w]
linear T [R * abs(a) / sum([abs(d) for d in x]) for a in x]
linear T [R * abs(c) / sum([abs(d) for d in dot(x, w)]) for c in dot(x, w)]
linear T [R if k == 0 else 0 for k in range(len(x))]
linear T [R * (a - sum(x) / len(x)) + R / len(x) for a in x]
linear L [R * c / (z - b + eps * sign(z - b)) for c in dot(x, w)]
linear L [R * c / (z - b + eps * sign(z)) for c in dot(x, w)]
linear L [R * (c + eps) / (z - b) for c in dot(x, w)]
linear F [R for _ in x]
linear F [R * (2 if len(x) == 7 else 1) / len(x) for _ in x]
linear F [R * c / (z + eps * sign(z)) for c in dot(x, w)]
linear F [R * c / z for c in dot(x, w)]
linear F [R * u / sum(up(x, w)) for u in up(x, w)]
linear F [R * u / (sum(up(x, w)) + eps) for u in up(x, w)]
linear F [(p + q) / 2 for p, q in zip(shared(up(x, w), R, eps), shared(down(x, w), R, eps))]
linear F [R * p / (sum(up(x, w)) + eps) + R * q / (sum(down(x, w)) + eps) for p, q in both(x, w)]
linear F [R * abs(c) / (sum([abs(d) for d in dot(x, w)]) + abs(b)) for c in dot(x, w)]
linear F [R * c / sum([abs(d) for d in dot(x, w)]) for c in dot(x, w)]
linear F [R / (len(x) - 1) if len(x) > 1 else R for _ in x]
linear F [R * a / (sum(x) + 1) for a in x]
softmax T R
softmax T [sum(R) / len(R) for _ in z]
softmax T [sum(R) * p for p in a]
softmax T [2 * r - sum(R) * p for r, p in zip(R, a)]
softmax T [sum(R) * p**2 / sum([q**2 for q in a]) for p in a]
softmax T [r * sign(z[0] - y) * sign(a[0] - p) for y, p, r in zip(z, a, R)]
softmax T [r * Max(p, -p) / p for p, r in zip(a, R)]
softmax F [r * p for r, p in zip(R, a)]
softmax F [y * (r - p * sum(R)) for y, p, r in zip(z, a, R)]
softmax F [r * sign(y) for y, r in zip(z, R)]
softmax L [sum(R) * y / sum(z) + eps for y in z]
softmax F [sum(R) * y / sum(z) + 1 for y in z]
softmax F [r * (1 + sign(p - Rational(1, 2))) / 2 for p, r in zip(a, R)]
readout T [R * p for p in a], [0 for _ in v]
readout T [R * p * Max(p, 1) / 2 for p in a], [R * abs(p) / 2 for p in a]
readout T [R * Min(p, 2) for p in a], [0 for _ in v]
readout L [0 for _ in a], [R * c / (o + eps * sign(o)) for c in dot(a, v)]
readout F [R * p for p in a], [R * p for p in a]
readout F [R * (p - 1) for p in a], [0 for _ in v]
readout F [0 for _ in a], [R * abs(c) / (abs(o) + eps) for c in dot(a, v)]
readout F [R / len(a) + beyond(4, a) * (1 - sign(sizes(v))) for _ in a], [0 for _ in v]
bilinear T [R / len(a) for _ in a], [0 for _ in v]
bilinear L shares(dot(a, v), 2 * o, R, eps), shares(dot(a, v), 2 * o, R, eps)
bilinear F [R * p for p in a], [0 for _ in v]
bilinear F [R * p * Max(p, 1) for p in a], [0 for _ in v]
scores L [R * c / (z + eps * sign(z)) for c in dot(q, k)], [0 for _ in k]
scores F shares(dot(q, k), z, R, eps), shares(dot(q, k), z, R, eps)
activation T R
activation T R * sign(x)**2
activation T R * Max(x, -x) / abs(x)
activation L R * y / (y + eps * sign(y))
activation F R * x * slope / y
activation F R * slope
activation F R * (1 + sign(y)) / 2
activation F R * Max(y, 0) / Max(y, 0)
activation F R * y / (y + eps * sign(x) + 1)
"""
OTHERS = """
product linear F abs(R), 0
product linear F R * R, 0
product linear F Max(R, 0), Min(R, 0)
product linear F R * x + y, 0
product linear L R + eps, 0
product linear T R * x * y, R * sign(x)
product c T R / 2, R / 2
product c F R * abs(x) / (abs(x) + abs(y)), R * abs(y) / (abs(x) + abs(y))
product c T R * sign(x), R * sign(y)
linear order F [R if k == 0 else 0 for k in range(len(x))]
linear order T [R * abs(a) / sum([abs(d) for d in x]) for a in x]
linear linear T [R * u / (sum(up(x, w)) + eps) for u in up(x, w)]
bilinear transpose F [R * c / o / 3 for c in dot(a, v)], [2 * R * c / o / 3 for c in dot(a, v)]
bilinear transpose T [R * abs(c) for c in dot(a, v)], [R * abs(c) for c in dot(a, v)]
bilinear c F [R * p for p in a], [R * p for p in v]
readout order F [R * (k + 1) for k in range(len(a))], [0 for _ in v]
softmax order T [sum(R) * p for p in a]
softmax c T [sum(R) * p for p in a]
softmax c F [r * y for r, y in zip(R, z)]
softmax c T [r * sign(y - z[0]) for r, y in zip(R, z)]
softmax linear F [abs(r) for r in R]
softmax linear T [y * (r - p * sum(R)) for y, p, r in zip(z, a, R)]
"""


def rule_of(kind, source):
    return rule(kind)(eval(f"lambda {OPERATIONS[kind].arguments}: ({source})", dict(NAMES)))


def judged(kind, source, word):
    own = rule_of(kind, source)
    (claim,) = (x for x in claims(kind) if word in x.replace("(", "").split())
    return decisions(own)[claim]()


def rows(text, count):
    return [line.split(" ", count) for line in text.strip().splitlines()]


CONSERVING = [(kind, "conserves", *rest) for kind, *rest in rows(CONSERVATION, 2)]


@pytest.mark.parametrize(("kind", "word", "known", "source"), CONSERVING + rows(OTHERS, 3))
def test_rules_have_the_properties_that_they_have(kind, word, known, source):
    found = judged(kind, source, word)
    assert found.status == KNOWN[known], found


@pytest.mark.parametrize(("source", "scope"), [
    ("R * sign(x) * sign(x - eps), 0", "where x != 0"),
    (
        "R * x / (x + eps * sign(x)) * (Max(y, 0) + eps) / (Max(y, 0) + eps + eps**2), 0",
        "almost everywhere",
    ),
    ("R + eps * Max(x, eps), 0", "almost everywhere"),
    ("Piecewise((R, x > 0), (R, x < 0)), 0", "almost everywhere"),
    ("R * (x - y) / (x - y), 0", "for all operands, where the rule itself is not 0/0"),
    ("R * x * y / z, 0", "where z != 0"),
])  # fmt: skip
def test_a_scope_leaves_out_the_points_where_a_limit_or_a_rule_is_another(source, scope):
    assert judged("product", source, "conserves").scope == scope


@pytest.mark.parametrize(("kind", "source", "word", "scope"), [
    # y = 0 is half of the inputs of ReLU
    ("activation", "R * Min(abs(y) / eps, 1)", "conserves", "for almost all x, y and slope"),
    ("activation", "R * abs(y) / Piecewise((y, y > 0), (-y, True))", "conserves",
        "for every activation, where y != 0"),
    # 4 inputs have another divisor
    ("linear", "[R * c / sum(x) for c in x]", "order", "for 1, 2 and 3 inputs, where "),
])  # fmt: skip
def test_a_scope_is_no_wider_than_what_was_decided(kind, source, word, scope):
    assert judged(kind, source, word).scope.startswith(scope)


@pytest.mark.parametrize("source", [
    "R / len(a) + beyond(12, a) * (1 - sign(sizes(v)))",  # |c| in a divisor adds up to less
    "R / len(a) + eps * R + beyond(12, a) * eps * sum([1 / (Max(c, 0) + eps) for c in v])",
    "R / len(a) * (Max(sum(v), 0) + eps) / (Max(sum(v), 0) + eps + eps**2)"
    " + eps / (eps + (len(a) * sum(a) - 12)**2)",  # another limit for 12 inputs
])  # fmt: skip
def test_what_may_fail_for_many_inputs_is_claimed_of_few(source):
    source = f"[{source} for _ in a], [0 for _ in v]"
    assert read(rule_of("readout", source))  # one formula
    assert judged("readout", source, "conserves").scope.startswith("for 1, 2 and 3 inputs")


OPEN_0 = "R * Max(2 * abs(x) - 1, 0) / Max(2 * abs(x) - 1, 0), 0"  # 0/0 for |x| < 1/2
AT_0 = "R * (1 - sign(x) * sign(-x)) / 2, 0"  # which is 0 at x = 0, and R elsewhere
GONE, FOUND = "undefined (0/0 or a pole)", {"undefined": True}


@pytest.mark.parametrize(("source", "x", "eps", "options", "said"), [
    ("R * (x - y) / (x - y), 0", 1, 1, FOUND, ""),  # at one point alone
    ("R * x / x, 0", 0, 1, FOUND, ""),
    (OPEN_0, 0, 1, {}, ""),
    (OPEN_0, 0, 1, FOUND, GONE),
    (OPEN_0, 0, 0, FOUND, GONE),
    (OPEN_0, 1, 0, FOUND, ""),
    (AT_0, 1, 1, {}, ""),
    (AT_0, 0, 1, {}, "0 versus 1"),
    (AT_0, 0, 0, {"nearby": False}, "0 versus 1"),
    (AT_0, 0, 0, {}, ""),
])  # fmt: skip
def test_a_rule_fails_where_it_does_so_in_a_limit_also_nearby(source, x, eps, options, said):
    setting = Setting(claims("product")[CONSERVES], rule_of("product", source), None)
    point = setting.at({sp.Symbol("x", real=True): sp.Integer(x)})
    found = setting.witness(point, sp.Integer(eps), **options)
    assert (found[-len(said) :] if said else found) == said


@pytest.mark.parametrize(("kind", "source", "witness"), [
    ("add", "half(x, y) * R, half(y, x) * R", "x = -1, y = -1,"),
    ("product", "R * Max(-x, 0) / Max(-x, 0), 0", "x = 1, y = 1,"),  # and at x = 0 by accident
])  # fmt: skip
def test_the_witness_of_what_is_0_over_0_is_a_small_point_without_0(kind, source, witness):
    assert judged(kind, source, "conserves").witness.startswith(witness)


ORTHOGONAL = "[R * a / sum(x) + {} * (a * sum(w) - d * sum(x)) * z for a, d in zip(x, w)]"


@pytest.mark.parametrize("factor", [
    *("5", "7", "Rational(1, 7)", "len(x)", "Rational(1, len(x))", "7 * len(x)"),
    "sum([len(x) * d**2 for d in w])",
])  # fmt: skip
def test_a_number_is_the_number_of_inputs_only_where_it_grows_with_them(factor):
    """In a formula that is read for 7 inputs."""
    source = ORTHOGONAL.format(factor)
    assert (read(rule_of("linear", source)) is None) == (factor == "7 * len(x)")
    assert judged("linear", source, "conserves").status == PROVED
