"""Checks certificates of the theorems by arithmetic of its own: ``python axioms/check.py DIR``.

Trusts Python, its standard library, and the arithmetic and rules below.  The reader of a
certificate judges whether its graphs, formulas and cases express its statement, and whether
``index.json`` lacks a statement.  Symbols are free, even a symbol named ``exp[x]``.
"""

import json
import sys
from collections import ChainMap, Counter
from fractions import Fraction
from functools import cache, reduce
from itertools import product
from pathlib import Path

MAKES = {"proved": "equal", "refuted": "apart"}  # what a verdict cannot do without
BYTES, STEPS = 8 * 2**20, 4 * 10**7  # limits of a file, and of a run of a test
FACTS = {"": lambda x: True, "positive": lambda x: x > 0, "nonzero": lambda x: x != 0}


def spend(x, steps=0, power=1):
    Value.steps += 50 + steps + (power * len(str(x))) ** 2 // 100
    if Value.steps > STEPS:
        raise ValueError(f"more than {STEPS} steps of arithmetic, at ({str(x)[:20]})^{power}")
    return x


class Value:  # a number times powers of polynomials, each a set of (symbols, coefficient)
    facts, assumed, divisors, steps = {}, set(), set(), 0  # of the current run

    def __init__(self, number, powers=()):
        self.powers = {p: n for p, n in dict(powers).items() if n and number and p != {((), 1)}}
        self.number = spend(Fraction(number), 50 * len(self.powers))

    def __mul__(self, other):
        powers = {p: n + self.powers.get(p, 0) for p, n in other.powers.items()}
        return Value(self.number * other.number, self.powers | powers)

    def __pow__(self, n):
        Value.divisors.update(self.powers if n < 0 else ())
        return Value(spend(self.number, power=n) ** n, {p: n * k for p, k in self.powers.items()})

    def sign(self):  # 1 or -1, and 1 of 0, if all symbols and coefficients are positive
        if any(a < 0 or self.facts[s] != "positive" for p in self.powers for t, a in p for s in t):
            raise ValueError(f"the sign of {shown(self)} is undecided")
        Value.assumed.update(s for p in self.powers for t, _ in p for s in t)
        return Value(1 if self.number >= 0 else -1)


def summed(terms):
    found = Counter()
    for term, a in terms:
        found[term] = spend(found[term] + a, len(term))
    return [(term, a) for term, a in sorted(found.items()) if a]


def total(*values):  # the sum over their common denominator, times their common factors
    spend(0, len(values) * sum(len(v.powers) for v in values))
    common = {p: min(v.powers.get(p, 0) for v in values) for v in values for p in v.powers}
    rest = lambda v: (Counter(v.powers) - Counter(common)).elements()
    found = summed(term for v in values for term in reduce(expanded, rest(v), [((), v.number)]))
    first = found[0][1] if found else 0
    return Value(first, common) * Value(1, {frozenset((t, a / first) for t, a in found): 1})


text = lambda polynomial: " + ".join("*".join([str(a), *t]) for t, a in sorted(polynomial))
factors = lambda v: sorted(f"({text(p)})^{n}" for p, n in v.powers.items())
shown = lambda v: " * ".join([str(spend(v.number, 100 * sum(map(len, v.powers)))), *factors(v)])
once = lambda pairs: dict(zip(dict(pairs), (x for _, x in pairs), strict=True))  # no key twice
read = lambda path: json.loads(path.read_text(), parse_float=str, object_pairs_hook=once)
expanded = lambda p, q: summed((tuple(sorted(s + t)), a * b) for (s, a), (t, b) in product(p, q))
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


def messages(op, rule, m, xs, z, r):  # the relevance that each operand of an operation receives
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


class Run:  # evaluates formulas and graphs of one run of a test; at: the value of each symbol
    def __init__(self, data, at):
        self.data, self.at, self.swept = data, at, cache(self.sweep)
        self.shared = cache(lambda n: self.value(data["shared"][n]))

    def value(self, e):
        if isinstance(e, str):
            return Value(Fraction(*map(int, e.split("/")))) if e[0] in "-0123456789" else self.at[e]
        if isinstance(e, int):
            return self.shared(e)
        op, *xs = e
        if op in ("value", "relevance"):
            return self.swept(xs[0])[op == "relevance"][xs[1]][xs[2]][xs[3]]
        return self.value(xs[0]) ** xs[1] if op == "^" else FORMULAS[op](*map(self.value, xs))

    def sweep(self, graph):  # values and relevance of all nodes; the last node is the root
        nodes, values, found = {}, {}, {}
        for n, (op, rule, args, more) in enumerate(self.data["graphs"][graph]):
            spend(0, 50 * sum(map(len, [*(operands := [values[a] for a in args]), *more.values()])))
            m = {k: [[self.value(x) for x in row] for row in rows] for k, rows in more.items()}
            values[n] = FORWARD[op](m, *operands) if op in FORWARD else m["value"]
            found[n] = scaled(Value(0), values[n])
            nodes[n] = args, (op, rule, m, operands, values[n])
        found[n] = m.get("relevance", values[n])
        for n, (args, node) in reversed(nodes.items()):
            for a, part in zip(args, messages(*node, found[n]), strict=False):
                found[a] = each(total, found[a], part)
        return values, found


def completed(run):  # the run as computed again; ValueError if a decision is false
    Value.facts, Value.assumed, Value.divisors, Value.steps = run["symbols"], set(), set(), 0
    free, rows = Run(run, {s: Value(1, {frozenset({((s,), 1)}): 1}) for s in Value.facts}), []
    for kind, sides, _, at, signs in run["decisions"]:
        point = {s: free.value(x) for s, x in at.items()}
        if any(x.powers or not FACTS[Value.facts[s]](x.number) for s, x in point.items()):
            raise ValueError(f"what is assumed rules out the point {at}")
        a, b = map((Run(run, ChainMap(point, free.at)) if kind == "apart" else free).value, sides)
        gap = total(a, Value(-1) * b)
        if (kind == "equal") == bool(gap.number) or (kind == "apart" and gap.powers):
            raise ValueError(f"{shown(a)} and {shown(b)} are not {kind}")
        rows.append([kind, sides, [shown(a), shown(b)], at, signs])
        Value.assumed.update(at)
    cases = Counter(tuple(map(tuple, signs)) for *_, signs in rows)
    for case, count in cases.items():
        spend(0, 2 ** min(sum(map(len, case)), 30))
        every = product(*(product((1, -1), repeat=len(signs)) for signs in case))
        if any(cases[other] != count for other in every):
            raise ValueError(f"not every case of signs is there as often as {case}")
    facts = {s: fact if s in Value.assumed else "" for s, fact in Value.facts.items()}
    return run | {"symbols": facts, "decisions": rows, "nonzero": sorted(map(text, Value.divisors))}


def check(folder):
    """Every error in a folder of certificates, none if all of them are confirmed; and a summary."""
    found, errors = Counter(), []
    try:
        paths = [*Path(folder).iterdir()]
        if odd := [p.name for p in paths if p.is_symlink() or not 0 < p.stat().st_size <= BYTES]:
            raise ValueError(f"{odd} are links, empty, or of more than {BYTES} bytes")
        index = read(Path(folder, "index.json"))
        left = "; ".join(f"{label}, since {why}" for label, why in index["not certified"].items())
        listed = sorted(["index.json", *(f"{e['label']}.json" for e in index["statements"])])
        if sorted(p.name for p in paths) != listed or not listed[1:]:
            raise ValueError("it does not list every certificate of the folder once")
    except Exception as error:
        return [f"index.json: {type(error).__name__}: {error}"], "no certificate is confirmed"
    for entry in index["statements"]:
        try:
            certificate = read(Path(folder, f"{entry['label']}.json"))
            for run in (runs := certificate.pop("runs")):
                if other := [key for key, value in completed(run).items() if run[key] != value]:
                    raise ValueError(f"{' and '.join(other)} are not what they come to")
            counts = Counter(kind for run in runs for kind, *_ in run["decisions"])
            if certificate | {"decisions": counts} != entry or not counts[MAKES[entry["verdict"]]]:
                raise ValueError(f"the index has {entry}, the certificate {certificate}, {counts}")
            found.update([entry["verdict"], "graphs" if all(r["graphs"] for r in runs) else ""])
        except Exception as error:
            errors.append(f"{entry['label']}: {type(error).__name__}: {error}")
    told = f"{found['proved']} proofs and {found['refuted']} refutations confirmed, of which "
    return errors, told + f"{found['graphs']} rebuilt from graphs; not certified: {left or 'none'}"


if __name__ == "__main__":
    wrong, said = check(sys.argv[1])  # of which a terminal may obey no letter
    print("\n".join("".join(x if x.isprintable() else "\ufffd" for x in y) for y in [*wrong, said]))
    sys.exit(bool(wrong))
