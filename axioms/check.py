"""Checks certificates of the theorems by arithmetic of its own: ``python axioms/check.py DIR``.

Trusted: Python and its standard library; the arithmetic and the rules of propagation below; and the
reader of a certificate, who judges that its graphs, formulas and cases say what its statement says,
and that ``index.json`` lacks no statement.  Symbols are free, also one that is named ``exp[x]``.
Neither trusted nor imported: SymPy and the rest of this project.
"""

import json
import sys
from collections import Counter
from fractions import Fraction
from functools import cache, reduce
from itertools import product
from pathlib import Path

MAKES = {"proved": "equal", "refuted": "apart"}  # what a verdict cannot do without
FACTS = {"": lambda x: True, "positive": lambda x: x > 0, "nonzero": lambda x: x != 0}


class Value:
    """A rational function: a number times powers of polynomials, sets of (symbols, coefficient)."""

    facts, assumed, divisors = {}, set(), set()  # what is assumed, used, and divided by in a run

    def __init__(self, number, powers=()):
        self.number = Fraction(number)
        self.powers = {p: n for p, n in dict(powers).items() if n and number and p != {((), 1)}}

    def __mul__(self, other):
        powers = Counter(self.powers)
        powers.update(other.powers)
        return Value(self.number * other.number, powers)

    def __pow__(self, n):
        Value.divisors.update(self.powers if n < 0 else ())
        return Value(self.number**n, {p: n * k for p, k in self.powers.items()})

    def __str__(self):
        powers = sorted(f"({text(p)})^{n}" for p, n in self.powers.items())
        return " * ".join([str(self.number), *powers])

    def sign(self):
        """+1 or -1, of 0 too, where all symbols are positive and all terms have one sign."""
        terms = [term for p in self.powers for term in p]
        if any(a < 0 or self.facts.get(s) != "positive" for t, a in terms for s in t):
            raise ValueError(f"the sign of {self} is undecided")
        Value.assumed.update(s for t, _ in terms for s in t)
        return Value(1 if self.number >= 0 else -1)


text = lambda polynomial: " + ".join("*".join([str(a), *t]) for t, a in sorted(polynomial))


def total(*values):
    """The sum of values over their common denominator, times their common factors."""
    common = {p: min(v.powers.get(p, 0) for v in values) for v in values for p in v.powers}
    found = Counter()
    for value in values:
        terms, rest = {(): value.number}, Counter(value.powers)
        rest.subtract(common)
        for factor in rest.elements():
            longer = Counter()
            for (one, a), (other, b) in product(terms.items(), factor):
                longer[tuple(sorted(one + other))] += a * b
            terms = longer
        found.update(terms)
    found = {term: a for term, a in found.items() if a}
    first = found[min(found)] if found else 0
    return Value(first, common) * Value(1, {frozenset((t, a / first) for t, a in found.items()): 1})


times = lambda *xs: reduce(Value.__mul__, xs, Value(1))
turned = lambda a: [list(row) for row in zip(*a, strict=True)]
each = lambda f, *a: [[f(*xs) for xs in zip(*rows, strict=True)] for rows in zip(*a, strict=True)]
through = lambda a, b: [[total(*each(times, [x], [y])[0]) for y in turned(b)] for x in a]
scaled = lambda c, a: each(lambda x: c * x, a)
around = lambda xs, k, s: [*map(turned, xs[:k][::-1]), s, *map(turned, xs[:k:-1])]
FORMULAS = {"+": total, "*": times, "abs": lambda x: x * x.sign()}
FORWARD = {  # of matrices, which are lists of rows; m has the other matrices of a node
    "transpose": lambda m, x: turned(x),
    "linear": lambda m, x, w, *b: each(total, through(x, w), *(bias * len(x) for bias in b)),
    "add": lambda m, *xs: each(total, *xs),
    "product": lambda m, *xs: each(times, *xs),
    "bilinear": lambda m, *xs: scaled(m["scale"][0][0], reduce(through, xs)),
    "softmax": lambda m, z: [[x * total(*row) ** -1 for x in row] for row in m["exp"]],
    "relu": lambda m, x: each(lambda z: z if z.sign().number > 0 else Value(0), x),
}
FACTORS = {"epsilon": 1, "epsilon-without-bias": 1, "value-only": 1, "bilinear-epsilon": 2}
SLOPES = {  # of the sum of s z by each operand, where z is the output and s relevance per output
    "linear": lambda s, x, w, *b: [through(s, turned(w))],
    "add": lambda s, *xs: [s] * len(xs),
    "bilinear": lambda s, *xs: [reduce(through, around(xs, k, s)) for k in range(len(xs))],
}


def messages(op, rule, m, xs, z, r):
    """The relevance that each operand of one operation receives."""
    if rule in ("", "transpose"):
        return [turned(r)] if rule else []
    if rule in ("identity", "equal-split"):
        return [scaled(Value(Fraction(1, len(xs))), r)] * len(xs)
    if rule == "taylor":
        left = lambda x, a, r, sum_of_r: x * total(r, Value(-1) * a * sum_of_r)
        return [each(left, xs[0], z, r, [[total(*row)] * len(row) for row in r])]
    z = through(*xs[:2]) if rule == "epsilon-without-bias" else z
    n, eps = Value(len(xs) if FACTORS[rule] > 1 else 1), m["eps"][0][0]
    signs = m.get("sign") or each(lambda z: None if eps.number else eps, z)
    sign = lambda z, given: given if given and z.powers else z.sign()
    s = each(lambda r, z, given: r * total(n * z, eps * sign(z, given)) ** -1, r, z, signs)
    slopes = SLOPES[op](scaled(m["scale"][0][0], s) if op == "bilinear" else s, *xs)
    found = [each(times, x, slope) for x, slope in zip(xs, slopes, strict=False)]
    return [scaled(Value(rule != "value-only"), found[0]), *found[1:]]


class Run:
    """The formulas and graphs of one run of a test, where its symbols have the values ``at``."""

    def __init__(self, data, at):
        self.data, self.at, self.swept = data, at, cache(self.sweep)
        self.shared = cache(lambda n: self.value(data["shared"][n]))

    def value(self, e):
        if isinstance(e, str):
            return Value(e) if e[0] in "-0123456789" else self.at[e]
        if isinstance(e, int):
            return self.shared(e)
        op, *xs = e
        if op in ("value", "relevance"):
            return self.swept(xs[0])[op == "relevance"][xs[1]][xs[2]][xs[3]]
        return self.value(xs[0]) ** xs[1] if op == "^" else FORMULAS[op](*map(self.value, xs))

    def sweep(self, graph):
        """Values and relevance of all nodes of a graph, whose last one is the root."""
        nodes, values = [], {}
        for n, (op, rule, args, more) in enumerate(self.data["graphs"][graph]):
            m = {k: [[self.value(x) for x in row] for row in rows] for k, rows in more.items()}
            operands = [values[a] for a in args]
            values[n] = FORWARD[op](m, *operands) if op in FORWARD else m["value"]
            nodes.append((op, rule, m, operands, values[n]))
        found = {n: scaled(Value(0), z) for n, z in values.items()}
        found[n] = m.get("relevance", values[n])
        for n in reversed(values):
            parts = messages(*nodes[n], found[n])
            for a, part in zip(self.data["graphs"][graph][n][2], parts, strict=False):
                found[a] = each(total, found[a], part)
        return values, found


def completed(run):
    """A run of a test with what it comes to; ValueError if one of its decisions does not hold."""
    Value.facts, Value.assumed, Value.divisors = run["symbols"], set(), set()
    free, rows = Run(run, {s: Value(1, {frozenset({((s,), 1)}): 1}) for s in Value.facts}), []
    for kind, sides, _, at, signs in run["decisions"]:
        point = {s: free.value(x) for s, x in at.items()}
        if any(x.powers or not FACTS[Value.facts[s]](x.number) for s, x in point.items()):
            raise ValueError(f"what is assumed rules out the point {at}")
        left, right = map((Run(run, free.at | point) if kind == "apart" else free).value, sides)
        gap = total(left, Value(-1) * right)
        if (kind == "equal") == bool(gap.number) or (kind == "apart" and gap.powers):
            raise ValueError(f"{left} and {right} are not {kind}")
        rows.append([kind, sides, [str(left), str(right)], at, signs])
        Value.assumed.update(at)
    cases = Counter(tuple(map(tuple, signs)) for *_, signs in rows)
    for case, count in cases.items():
        every = product(*(product((1, -1), repeat=len(signs)) for signs in case))
        if any(cases[other] != count for other in every):
            raise ValueError(f"not every case of signs is there as often as {case}")
    facts = {s: fact if s in Value.assumed else "" for s, fact in Value.facts.items()}
    return run | {"symbols": facts, "decisions": rows, "nonzero": sorted(map(text, Value.divisors))}


def check(folder):
    """Every error in a folder of certificates, none if all of them are confirmed; and a summary."""
    read = lambda name: json.loads(Path(folder, name).read_text(), parse_float="float {}".format)
    index, found, errors = read("index.json"), Counter(), []
    for entry in index["statements"]:
        try:
            certificate = read(f"{entry['label']}.json")
            for run in (runs := certificate.pop("runs")):
                if other := [key for key, value in completed(run).items() if run[key] != value]:
                    raise ValueError(f"{' and '.join(other)} are not what they come to")
            counts = Counter(kind for run in runs for kind, *_ in run["decisions"])
            if certificate | {"decisions": counts} != entry or not counts[MAKES[entry["verdict"]]]:
                raise ValueError(f"the index has {entry}, the certificate {certificate}, {counts}")
            found.update([entry["verdict"], "graphs" if all(r["graphs"] for r in runs) else ""])
        except Exception as error:
            errors.append(f"{entry['label']}: {type(error).__name__}: {error}")
    listed = sorted(["index", *(entry["label"] for entry in index["statements"])])
    if sorted(path.stem for path in Path(folder).iterdir()) != listed or not found:
        errors.append("index.json: it does not list every certificate of the folder once")
    left = "; ".join(f"{label}, since {why}" for label, why in index["not certified"].items())
    told = f"{found['proved']} proofs and {found['refuted']} refutations confirmed, of which "
    return errors, told + f"{found['graphs']} rebuilt from graphs; not certified: {left or 'none'}"


if __name__ == "__main__":
    wrong, summary = check(sys.argv[1])
    print(*wrong, summary, sep="\n")
    sys.exit(bool(wrong))
