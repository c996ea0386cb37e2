"""Changes one place of a certificate of theorem 6, and names the error that rejects the change.

Certificate 6a is a proof, by cases of signs, and 6d a refutation.
"""

import json
from functools import reduce
from operator import getitem


def put(value, file, *path):
    """Puts ``value``, or its result for the old value, where ``path`` leads in a file."""

    def change(folder):
        place = folder / f"{file}.json"
        data = [json.loads(place.read_text("utf-8"))]
        *way, last = (0, *path)
        inner = reduce(getitem, way, data)
        inner[last] = value(inner[last]) if callable(value) else value
        place.write_text(json.dumps(data[0]), "utf-8")

    return change


def drop(*path):
    """Takes the entry at a path out."""
    *way, last = path

    def left(data):
        if isinstance(data, dict):
            return {name: x for name, x in data.items() if name != last}
        return [x for n, x in enumerate(data) if n != last]

    return put(left, *way)


def put_formula(value, operation):
    """Changes the first formula of an operation in the proof."""

    def change(formulas):
        place = next(n for n, e in enumerate(formulas) if e[0] == operation)
        return [value(e) if n == place else e for n, e in enumerate(formulas)]

    return put(change, *PROOF, "shared")


def each(change):
    """Changes every formula of the proof, by its place and all formulas."""
    return put(lambda xs: [change(n, x, xs) for n, x in enumerate(xs)], *PROOF, "shared")


def deciding(*sides, kind="equal", shared=(), graphs=(), symbols=("x", "y"), at=None, nonzero=()):
    """Replaces the proof by one decision, which is all that its run has."""
    run = {
        "run": "",
        "symbols": dict.fromkeys(symbols, ""),
        "graphs": list(graphs),
        "shared": list(shared),
        "decisions": [[kind, list(sides), at or {}]],
        "nonzero": list(nonzero),
    }
    return put(run, *PROOF)


def leaf(*row):
    return ["input", "none", [], {"value": [list(row)]}]


PROOF, REFUTATION = ("6a", "runs", 0), ("6d", "runs", 0)
FIRST, LAYER, POINT = ((*PROOF, "decisions", 0), (*PROOF, "graphs", 0, 3),
                       (*REFUTATION, "decisions", 0))  # fmt: skip
NONZERO = "`nonzero` is not"
EQUAL, APART, NOTHING = "are not equal", "are not apart", "decide nothing"
NAMES = "symbols need other names"
SHAPES, NO_RULE = "zip() argument", "has no rule"
NO_PLACE = "list indices must be integers"

FIRST_OF = ["value", 0, 1, 0, 0]


def of_softmax(*scores):
    return [leaf(*scores), ["softmax", "taylor", [0], {}]]


def of_sum(*terms):
    """A sum of two terms, where the relevance y arrives, by the epsilon rule."""
    return [*map(leaf, terms), ["add", "epsilon", [0, 1], {"eps": "1", "relevance": [["y"]]}]]


def like_a_sum(name, *terms):
    """Claims that a symbol has the sign of the sum that it is named after."""
    sizes = [["+", *terms], ["abs", 0], ["abs", name], ["*", 1, name], ["*", 2, 0]]
    return deciding(3, 4, symbols=(name, *terms), shared=sizes)


def negated(nonzero):
    """Claims that (y, x - y) and (-y, y - x) get one relevance, which is false at x = 0."""
    minus = [["*", "-1", "y"], ["*", "-1", "x"], ["+", "x", 0], ["+", "y", 1]]
    shared = [*minus, *(["relevance", k, 0, 0, 0] for k in range(2))]
    return deciding(4, 5, shared=shared, graphs=[of_sum("y", 2), of_sum(0, 3)], nonzero=nonzero)


CHANGES = {  # name -> change, and a part of its error
    # decisions
    "an identity becomes a difference": (put("apart", *FIRST, 0), "are not apart"),
    "an identity becomes an unknown kind": (put("unequal", *FIRST, 0), "KeyError: 'unequal'"),
    "a side becomes another one": (put("r00", *FIRST, 1, 0), EQUAL),
    "both sides become one symbol": (put(["r00", "r00"], *FIRST, 1), NOTHING),
    "both sides become one place": (put([2, 2], *FIRST, 1), NOTHING),
    "both sides become a number": (put(["1", "1"], *FIRST, 1), NOTHING),
    "both sides become numbers that are equal": (put(["1", "2/2"], *FIRST, 1), NOTHING),
    "both sides become numbers that differ": (put(["1", "2"], *FIRST, 1), NOTHING),
    "a side is left out": (put([2], *FIRST, 1), "IndexError"),
    "a third side is there": (put([2, 17, 0], *FIRST, 1), "takes 2 positional arguments"),
    "the sides of two identities are exchanged": (
        put(lambda x: [["equal", [x[0][1][0], x[1][1][1]], {}], *x[1:]], *FIRST[:-1]), EQUAL),
    "all identities are left out": (put([], *PROOF, "decisions"), NONZERO),
    "an identity gets a case of signs": (put(lambda row: [*row, [[1, 1]]], *FIRST),
        "too many values to unpack"),
    "the runs are left out": (put([], "6a", "runs"), "undecided"),
    # graphs
    "a rule is exchanged": (put("epsilon-without-bias", *LAYER, 1), EQUAL),
    "a rule is exchanged for one of another operation": (put("equal-split", *LAYER, 1), NO_RULE),
    "a rule is exchanged for none": (put("none", *LAYER, 1), NO_RULE),
    "a rule is left empty": (put("", *LAYER, 1), NO_RULE),
    "two rules are one": (put("epsilon gradient", *LAYER, 1), NO_RULE),
    "a rule is exchanged for the gradient": (put("gradient", *LAYER, 1), EQUAL),
    "a layer holds its relevance": (put("constant", *LAYER, 1), NO_RULE),
    "a leaf has a rule": (put("epsilon", *LAYER[:-1], 0, 1), NO_RULE),
    "a rule has no such name": (put("gamma", *LAYER, 1), NO_RULE),
    "an operation is exchanged": (put("add", *LAYER, 0), SHAPES),
    "an operation has no rule here": (put("convolution", *LAYER, 0), "KeyError"),
    "two edges are exchanged": (put([1, 0, 2], *LAYER, 2), SHAPES),
    "an edge is left out": (put([0, 1], *LAYER, 2), EQUAL),
    "an edge comes from nowhere": (put([0, 1, 9], *LAYER, 2), "IndexError"),
    "an edge comes from its own node": (put([0, 1, 3], *LAYER, 2), "IndexError"),
    "an edge is counted from the end": (put([0, 1, -1], *LAYER, 2), NO_PLACE),
    "an edge is true": (put([0, True, 2], *LAYER, 2), NO_PLACE),
    "an edge is a float": (put([0, 1.0, 2], *LAYER, 2), NO_PLACE),
    "an edge is null": (put([0, 1, None], *LAYER, 2), NO_PLACE),
    "the stabiliser is 0": (put("0", *LAYER, 3, "eps"), EQUAL),
    "the stabiliser is below 0": (put("-1/4", *LAYER, 3, "eps"), "epsilon is -1/4"),
    "the stabiliser is of either sign": (put("x00", *LAYER, 3, "eps"), "a sign is undecided"),
    "the stabiliser is a formula": (put(23, *LAYER, 3, "eps"), "epsilon is 23"),
    "the stabiliser is a matrix": (put([["epsilon"]], *LAYER, 3, "eps"), "epsilon is [["),
    "the stabiliser is left out": (drop(*LAYER, 3, "eps"), "KeyError: 'eps'"),
    "relevance starts exchanged": (put([["r01", "r00"]], *LAYER, 3, "relevance"), EQUAL),
    "relevance starts at the value": (drop(*LAYER, 3, "relevance"), EQUAL),
    "relevance starts doubled": (put([["r00", "2"]], *LAYER, 3, "relevance"), EQUAL),
    "relevance has another shape": (put([["r00"]], *LAYER, 3, "relevance"), SHAPES),
    "weights are transposed": (put([["w00", "w10"], ["w01", "w11"]], *LAYER[:-1], 1, 3, "value"),
        EQUAL),
    "an input is left out of a graph": (put([["x00", "0"]], *LAYER[:-1], 0, 3, "value"), EQUAL),
    "a bias is another one": (put([["b00", "b00"]], *LAYER[:-1], 2, 3, "value"), EQUAL),
    "graphs are left out": (put([], *PROOF, "graphs"), "IndexError"),
    "a graph is counted from the end": (put_formula(lambda e: [e[0], -1, *e[2:]], "relevance"),
        NO_PLACE),
    "a graph is true": (put_formula(lambda e: [e[0], False, *e[2:]], "relevance"), NO_PLACE),
    "an entry is counted from the end": (put_formula(lambda e: [*e[:4], -2], "relevance"),
        NO_PLACE),
    "an entry of relevance is another one": (put_formula(lambda e: [*e[:4], 1 - e[4]], "relevance"),
        EQUAL),
    "an entry of relevance is one of values": (put_formula(lambda e: ["value", *e[1:]],
        "relevance"), EQUAL),
    # signs and exponentials, computed by the checker itself
    "a sign is taken for 1": (
        each(lambda n, x, xs: ["*", "1", *x[2:]] if "sign[" in str(x[1:2]) else x), EQUAL),
    "a sign is turned": (
        each(lambda n, x, xs: [*x, "-1"] if x[0] == "*" and "sign[" in x[1] else x), EQUAL),
    "a sign is one of another output": (
        each(lambda n, x, xs: [x[0], xs[10][1], *x[2:]] if n == 3 else x), EQUAL),
    "a sign is a symbol of any value": (
        each(lambda n, x, xs: [x[0], "x00", *x[2:]] if n == 3 else x), EQUAL),
    "a matrix of signs is 0": (deciding(0, "x", shared=[["relevance", 0, 0, 0, 0]],
        graphs=[[leaf("x"), leaf("y"),
        ["linear", "epsilon", [0, 1], {"eps": "1", "sign": [["0"]], "relevance": [["x"]]}]]]),
        EQUAL),
    "exponentials of any scores are 1": (deciding(0, "1/2", shared=[["value", 0, 1, 0, 0]],
        graphs=[[leaf("x", "y"), ["softmax", "taylor", [0], {"exp": [["1", "1"]]}]]]), EQUAL),
    "exponentials of equal scores differ": (deciding(0, 1, kind="apart",
        shared=[["value", 0, 1, 0, 0], ["value", 0, 1, 0, 1]], graphs=[of_softmax("x", "x")],
        at={"x": "1"}), APART),
    "a point sets an exponential": (deciding(0, 1, kind="apart",
        shared=[FIRST_OF, ["*", "y", "1/2"]], graphs=[of_softmax("x", "0")],
        at={"x": "0", "exp[x]": "7", "y": "1"}, nonzero=["1 + 1*exp[x]"]), "breaks an assumption"),
    "an exponential is a symbol": (deciding("exp[x]", "y", kind="apart",
        symbols=("x", "y", "exp[x]"), at={"x": "0", "y": "2"}), NAMES),
    "the exponential of 0 is not 1": (deciding(0, "1", kind="apart", shared=[["exp", "x"]],
        at={"x": "0"}), APART),
    "an exponential is free of its exponent": (deciding(0, "y", kind="apart", shared=[["exp", "x"]],
        at={"y": "2"}), APART),
    "an exponential is a root": (deciding(0, "y", kind="apart", shared=[["exp", "x"]],
        at={"x": "1/2", "y": "2"}), "the exponential of a fraction"),
    "a symbol has the name of a product": (deciding(1, 2, symbols=("x", "y", "x*y"),
        shared=[["*", "x", "y"], FIRST_OF, ["value", 1, 1, 0, 0]],
        graphs=[of_softmax(0, "0"), of_softmax("x*y", "0")], nonzero=["1 + 1*exp[x*y]"]), NAMES),
    "a symbol has the name of a sum": (like_a_sum("x + 1*y", "x", "y"), NAMES),
    "a sign has the name of two": (like_a_sum("sign[1*x] + 1*sign[1*y]", "sign[1*x]", "sign[1*y]"),
        NAMES),
    "a sign has no end": (deciding(1, "x", symbols=("x", "sign["),
        shared=[["*", "sign[", "sign["], ["*", 0, "x"]]), NAMES),
    "a sum that may be 0 is negated": (negated(["1*sign[1*x] + 1*x"]), NONZERO),
    "the sign of a product that may be 0 is one of its factors": (deciding(2, 6,
        symbols=("x", "y", "sign[1*x]", "sign[1*y]"),
        shared=[["*", "x", "y"], ["+", 0, "-1"], ["relevance", 0, 0, 0, 0],
        ["*", "sign[1*x]", "sign[1*y]"], ["+", 0, 3], ["^", 4, -1], ["*", "y", 5]],
        nonzero=["1*sign[1*x]*sign[1*y] + 1*x*y"], graphs=[of_sum("1", 1)]), EQUAL),
    "a point gives a sign": (deciding("sign[1*x]", "1", kind="apart", symbols=("x", "sign[1*x]"),
        at={"sign[1*x]": "3"}), "breaks an assumption"),
    "the square of a sign is any number": (deciding(0, "x",
        shared=[["*", "sign[1*x]", "sign[1*x]"]], symbols=("x", "sign[1*x]")), EQUAL),
    # formulas
    "a term gets a coefficient": (put_formula(lambda e: [*e, "3"], "*"), EQUAL),
    "a term changes its sign": (put_formula(lambda e: [*e, "-1"], "*"), EQUAL),
    "a term is left out": (put_formula(lambda e: e[:-1], "+"), EQUAL),
    "a sum becomes a product": (put_formula(lambda e: ["*", *e[1:]], "+"), EQUAL),
    "a product becomes a sum": (put_formula(lambda e: ["+", *e[1:]], "*"), EQUAL),
    "a power is another one": (put_formula(lambda e: ["^", e[1], -2], "^"), EQUAL),
    "a power changes its sign": (put_formula(lambda e: ["^", e[1], 1], "^"), EQUAL),
    "a power is 0.5": (put_formula(lambda e: ["^", e[1], 0.5], "^"), "the power 0.5"),
    "a power is true": (put_formula(lambda e: ["^", e[1], True], "^"), "the power True"),
    "a power is a symbol": (put_formula(lambda e: ["^", e[1], "x00"], "^"), "the power x00"),
    "a symbol is another one": (put_formula(lambda e: [*e[:-1], "x01"], "*"), EQUAL),
    "a symbol has no such name": (put_formula(lambda e: [*e[:-1], "y"], "*"), "KeyError: 'y'"),
    "a number is a float": (put_formula(lambda e: [*e, 1.0], "*"), "KeyError: '1.0'"),
    "a number is no number": (put_formula(lambda e: [*e, float("nan")], "*"), "KeyError: nan"),
    "a number is infinite": (put_formula(lambda e: [*e, float("inf")], "*"), "KeyError: inf"),
    "a number is null": (put_formula(lambda e: [*e, None], "*"), "KeyError: None"),
    "a number is 1/0": (put_formula(lambda e: [*e, "1/0"], "*"), "ZeroDivisionError"),
    "a number has two signs": (put_formula(lambda e: [*e, "--1"], "*"), "Invalid literal"),
    "a number has digits of another script": (put_formula(lambda e: [*e, "\u0661"], "*"),
        "KeyError"),
    "a number has underscores": (put_formula(lambda e: [*e, "1_0"], "*"), "KeyError: '1_0'"),
    "a place is true": (put_formula(lambda e: [*e, True], "+"), "KeyError: True"),
    "a place is counted from the end": (put_formula(lambda e: [*e, -2], "+"), NO_PLACE),
    "a place is there nowhere": (put_formula(lambda e: [*e, 10**6], "+"), "IndexError"),
    "a place is huge": (put_formula(lambda e: [*e, 10**400], "+"), "IndexError"),
    "a divisor is 0": (put_formula(lambda e: ["^", 0, -1], "^"), EQUAL),
    "a formula has itself in it": (put(["+", 0, 1], *PROOF, "shared", 0), "RecursionError"),
    "a formula is of numbers": (put_formula(lambda e: ["*", "2", "3"], "*"), "of numbers alone"),
    "a formula is the power of a number": (put_formula(lambda e: ["^", "2", 2], "^"),
        "of numbers alone"),
    "a formula has no such operation": (put_formula(lambda e: ["-", *e[1:]], "*"), "KeyError: '-'"),
    # conditions
    "a divisor is not said to be nonzero": (drop(*PROOF, "nonzero", 0), NONZERO),
    "more is said to be nonzero": (put(lambda x: [*x, "1*y"], *PROOF, "nonzero"), NONZERO),
    "a symbol is taken from the table": (drop(*PROOF, "symbols", "x00"), "KeyError: 'x00'"),
    "a symbol is not known to be positive": (put("", *PROOF, "symbols", "epsilon"), "undecided"),
    "an assumption is none": (put("large", *REFUTATION, "symbols", "x00"), "KeyError: 'large'"),
    # points
    "a point makes both sides equal": (put("0", *POINT, 2, "epsilon"), "breaks an assumption"),
    "a point is ruled out": (put("-1", *POINT, 2, "x00"), "breaks an assumption"),
    "a point is written in decimals": (put(0.25, *POINT, 2, "epsilon"), "KeyError: '0.25'"),
    "a point is true": (put(lambda x: x == "1", *POINT, 2, "x00"), "KeyError: True"),
    "a point is a symbol": (put("x01", *POINT, 2, "x00"), "breaks an assumption"),
    "a point lacks a symbol": (drop(*POINT, 2, "x00"), APART),
    "a point has another symbol": (put("1", *POINT, 2, "y"), "KeyError: 'y'"),
    "an identity is one at a point": (put({"x00": "1"}, *FIRST, 2), EQUAL),
    "both sides are equal at the point": (put([0, 0], *POINT, 1), NOTHING),
    "a difference at a point is an identity": (put("equal", *POINT, 0), EQUAL),
}  # fmt: skip
