"""Checks certificates of the theorems by arithmetic of its own: ``python axioms/check.py DIR``.

Trusts Python, its standard library, and the arithmetic and rules below.  The reader judges whether
graphs, formulas and assumptions fit a statement, and whether ``index.json`` lacks a statement.
``sign[p]`` is 1 or -1, ``exp[t]`` is e^t, and a "function" has the value that it is given.
"""

import json
import re
import sys
from collections import Counter
from fractions import Fraction
from functools import cache, reduce
from itertools import chain, product
from pathlib import Path

# fmt: off
MAKES = {"proved": "equal", "refuted": "apart"}  # the decision that a verdict needs
BYTES, FILES, STEPS = 8 * 2**20, 1000, 4 * 10**7  # limits of a file, a folder and a certificate
NAME = re.compile(r"[^\W\d]\w*'*|sign\[([^][]|\[[^][]*\])*\]", re.ASCII)  # of no product or sum
FACTS = {"": lambda x: True, "positive": lambda x: x > 0, "nonzero": lambda x: x != 0}

class Value:  # a number times powers of polynomials, each a set of (symbols, coefficient)
    facts, divisors, steps = {}, set(), 0  # of a run, and of a certificate
    def __init__(self, number, powers=()):
        self.powers = {p: n for p, n in dict(powers).items() if n and number and p != {((), 1)}}
        self.number = spend(Fraction(number), 50 * len(self.powers))
    def __mul__(self, other):
        powers = {p: n + self.powers.get(p, 0) for p, n in other.powers.items()}
        return Value(self.number * other.number, self.powers | powers)
    def __pow__(self, n):
        Value.divisors.update(self.powers if n < 0 else ())
        return Value(spend(self.number, power=n) ** n, {p: n * k for p, k in self.powers.items()})
    def sign(self):  # 1 or -1, and 1 of 0: so -1 is taken out of it where it is not 0
        free = {p: n % 2 or 2 * (n > 0) for p, n in self.powers.items() if not sure(p)}
        Value.divisors.update(free if self.number < 0 else ())
        name = f"sign[{text(polynomial(free, 1))}]"
        return times(Value((-1) ** (self.number < 0)), *map(symbol, [name] * (1 in free.values())))

def need(holds, why):
    if not holds:
        raise ValueError(why)

def spend(x, steps=0, power=1):
    Value.steps += 50 + steps + (power * len(str(x))) ** 2 // 100
    need(Value.steps <= STEPS, f"more than {STEPS} steps of arithmetic, at ({str(x)[:20]})^{power}")
    return x

def total(*values):  # the sum over their common denominator, times their common factors
    spend(0, len(values) * sum(len(v.powers) for v in values))
    common = {p: min(v.powers.get(p, 0) for v in values) for v in values for p in v.powers}
    parts = [polynomial(Counter(v.powers) - Counter(common), v.number) for v in values]
    found = expanded([((), 1)], chain(*parts))
    first = found[0][1] if found else 0
    every = reduce(Counter.__and__, [Counter(t) for t, _ in found] or [Counter()])
    inner = frozenset((tuple(sorted((Counter(t) - every).elements())), a / first) for t, a in found)
    return times(Value(first, common), Value(1, {inner: 1}), *map(symbol, every.elements()))

def expanded(p, q):  # the product of two sums of terms, where the square of a sign is 1
    found = Counter()
    for (s, a), (t, b) in product(p, q):
        term = tuple(sorted(x for x in s + t if x[:5] != "sign[" or x not in s or x not in t))
        found[term] = spend(found[term] + a * b, len(term))
    return [(term, a) for term, a in sorted(found.items()) if a]

def exponential(z):  # a power of a symbol for each term of a polynomial; exp[] is e
    terms = polynomial(z.powers, z.number)
    whole = all(n > 0 for n in z.powers.values()) and all(a.denominator == 1 for _, a in terms)
    need(whole, "the exponential of a fraction")
    return times(*(symbol(f"exp[{'*'.join(t)}]") ** int(a) for t, a in terms))

polynomial = lambda powers, a: reduce(expanded, Counter(powers).elements(), [((), a)])
times = lambda *xs: reduce(Value.__mul__, xs, Value(1))
minus = lambda x, y: total(x, Value(-1) * y)
symbol = lambda name: Value(1, {frozenset({((name,), 1)}): 1})
number = lambda e: type(e) is str and e.isascii() and e.strip("-").replace("/", "").isdigit()
known = lambda sign: need(not sign.powers, "a sign is undecided") or sign.number
positive = lambda s: s[:4] == "exp[" or Value.facts.get(s) == "positive"
sure = lambda p: all(a > 0 and positive(s) for t, a in p for s in t)  # that it is positive
text = lambda p: " + ".join("*".join([str(a), *t]) for t, a in sorted(p))
once = lambda pairs: dict(zip(dict(pairs), (x for _, x in pairs), strict=True))  # no key twice
read = lambda path: json.loads(path.read_text(), parse_float=str, object_pairs_hook=once)
place = lambda xs, n: xs[n if type(n) is int and n >= 0 else f"{n} is no place"]
turned = lambda a: [list(row) for row in zip(*a, strict=True)]
each = lambda f, *a: [[f(*xs) for xs in zip(*rows, strict=True)] for rows in zip(*a, strict=True)]
through = lambda a, b: [[total(*each(times, [x], [y])[0]) for y in turned(b)] for x in a]
scaled = lambda c, a: each(lambda x: c * x, a)
around = lambda xs, k, s: reduce(through, [*map(turned, xs[:k][::-1]), s, *map(turned, xs[:k:-1])])
factors = lambda x: [Value(x.number), *(Value(1, {p: n}) for p, n in x.powers.items())]
size = lambda x: times(x, *map(Value.sign, factors(x)))
FORMULAS = {"+": total, "*": times, "abs": size, "exp": exponential}
FORWARD = {  # a matrix is a list of rows; m holds the other attributes of a node
    "transpose": lambda m, x: turned(x),
    "linear": lambda m, x, w, *b: each(total, through(x, w), *(bias * len(x) for bias in b)),
    "add": lambda m, *xs: each(total, *xs),
    "product": lambda m, *xs: each(times, *xs),
    "bilinear": lambda m, *xs: scaled(m["scale"], reduce(through, xs)),
    "softmax": lambda m, z: [[x * total(*row) ** -1 for x in row] for row in each(exponential, z)],
    "relu": lambda m, x: each(lambda z: z if known(z.sign()) > 0 else Value(0), x),
    **dict.fromkeys(["input", "parameter", "function"], lambda m, *xs: m["value"])}
RULES = {"input": "none", "parameter": "none", "relu": "identity", "function": "identity",
         "linear": "epsilon epsilon-without-bias gradient", "add": "epsilon gradient",
         "bilinear": "bilinear-epsilon value-only gradient constant", "transpose": "transpose",
         "softmax": "taylor constant identity", "product": "equal-split"}  # rules of each operation

def messages(op, rule, m, xs, z, r):  # the relevance of each operand
    if rule in ("none", "constant", "transpose"):
        return [turned(r)] if rule == "transpose" else []
    if rule in ("identity", "equal-split"):
        return [scaled(Value(Fraction(1, len(xs))), r)] * len(xs)
    if rule == "taylor":
        left = lambda x, a, r, sum_of_r: x * minus(r, a * sum_of_r)
        return [each(left, xs[0], z, r, [[total(*row)] * len(row) for row in r])]
    z = through(*xs[:2]) if rule == "epsilon-without-bias" else z
    n = Value(len(xs) if rule == "bilinear-epsilon" else 1)
    eps = Value(0) if rule == "gradient" else m["eps"]
    stable = lambda z: total(n * z, eps * z.sign()) if eps.number else n * z
    scale = m["scale"] if op == "bilinear" else Value(1)
    s = each(lambda r, z: scale * r * stable(z) ** -1, r, z)
    xs, held = (xs[:2], [1]) if op == "linear" else (xs, [0] if rule == "value-only" else [])
    part = lambda k, x: each(times, x, s if op == "add" else around(xs, k, s))
    return [scaled(Value(0), x) if k in held else part(k, x) for k, x in enumerate(xs)]

class Run:  # evaluates formulas and graphs of one run of a test; at: the value of each symbol
    def __init__(self, data, at):
        self.data, self.at, self.made, self.swept = data, at, cache(self.make), cache(self.sweep)
    def value(self, e):  # of a matrix, a place of `shared`, a number or a symbol
        if type(e) in (list, int):
            return self.made(e) if type(e) is int else [self.value(x) for x in e]
        return Value(Fraction(e)) if number(e) else self.at[e]
    def make(self, n):
        op, *xs = place(self.data["shared"], n)
        if op in ("value", "relevance"):
            return reduce(place, xs[1:], self.swept(xs[0])[op == "relevance"])
        need(not all(map(number, xs[:1] if op == "^" else xs)), f"{op} of numbers alone")
        need(op != "^" or type(xs[1]) is int, f"the power {xs[-1]}")
        return self.value(xs[0]) ** xs[1] if op == "^" else FORMULAS[op](*map(self.value, xs))
    def sweep(self, graph):  # values and relevance of the nodes; the last node is the root
        values, nodes = [], []
        for op, rule, args, more in place(self.data["graphs"], graph):
            xs, m = [place(values, a) for a in args], {k: self.value(x) for k, x in more.items()}
            spend(0, len(str(more)) + 50 * sum(map(len, xs)))
            need(rule in RULES[op].split(), f"{op} has no rule {rule!r}")
            eps = more.get("eps", "0")
            need(type(eps) is str and known(self.value(eps).sign()) > 0, f"epsilon is {eps}")
            values.append(FORWARD[op](m, *xs))
            nodes.append((args, op, rule, m, xs, values[-1]))
        found = [*(scaled(Value(0), z) for z in values[:-1]), m.get("relevance", values[-1])]
        for n, (args, *node) in reversed([*enumerate(nodes)]):
            for a, part in zip(args, messages(*node, found[n]), strict=False):
                found[a] = each(total, found[a], part)
        return values, found

def decided(run):  # polynomials that are not 0 in a run; ValueError for a wrong decision
    Value.facts, Value.divisors = run["symbols"], set()
    odd = [s for s, fact in Value.facts.items() if not (FACTS[fact] and NAME.fullmatch(s))]
    need(not odd, f"symbols need other names: {odd}")
    free = Run(run, {s: symbol(s) for s in Value.facts})
    for kind, sides, at in run["decisions"]:
        need(sides[0] != sides[1] and not all(map(number, sides)), f"{sides} decide nothing")
        point = {s: free.value(x) for s, x in at.items()}
        fits = lambda s, x: not x.powers and "[" not in s and FACTS[Value.facts[s]](x.number)
        need(all(map(fits, point, point.values())), f"the point {at} breaks an assumption")
        gap = minus(*map((Run(run, free.at | point) if at else free).value, sides))
        left = {s for p in gap.powers for t, _ in p for s in t} - {"exp[]"}  # e is transcendental
        holds = {"equal": not (at or gap.number), "apart": gap.number and not left}[kind]
        need(holds, f"{sides} are not {kind}: one minus the other is {gap.number} {[*gap.powers]}")
    return sorted(map(text, Value.divisors))

def check(folder):
    """Every error in a folder of certificates, none if all of them are confirmed; and a summary."""
    found, errors = Counter(), []
    try:
        paths = [*Path(folder).iterdir()]
        odd = [p.name for p in paths if p.is_symlink() or p.stat().st_size > BYTES]
        index = read(Path(folder, "index.json"))
        left = "".join(f"{label}, since {why}; " for label, why in index["not certified"].items())
        listed = sorted(["index.json", *(f"{e['label']}.json" for e in index["statements"])])
        whole = sorted(p.name for p in paths) == listed and 1 < len(listed) <= FILES and not odd
        need(whole, f"it does not list every file once, or {odd} are links or too large")
    except Exception as error:
        return [f"index.json: {type(error).__name__}: {error}"], "no certificate is confirmed"
    for e in index["statements"]:
        try:
            certificate, Value.steps = read(Path(folder, f"{e['label']}.json")), 0
            for run in (runs := certificate.pop("runs")):
                need(run["nonzero"] == decided(run), "`nonzero` is not the list of its formulas")
            need(certificate == e, f"the index has {e}, and the certificate {certificate}")
            need(MAKES[e["verdict"]] in {x[0] for r in runs for x in r["decisions"]}, "undecided")
            left += f"a part of {e['label']}; " * any(not run["decisions"] for run in runs)
            found.update([e["verdict"], "graphs" * all(r["graphs"] for r in runs)])
        except Exception as error:
            errors.append(f"{e['label']}: {type(error).__name__}: {error}")
    told = "{} proofs and {} refutations confirmed, of which {} from graphs; not certified: {}"
    return errors, told.format(*(found[x] for x in (*MAKES, "graphs")), left[:-2] or "none")

if __name__ == "__main__":
    wrong, said = check(sys.argv[1])  # a terminal obeys control characters
    print("\n".join("".join(x if x.isprintable() else "\ufffd" for x in y) for y in [*wrong, said]))
    sys.exit(bool(wrong))
