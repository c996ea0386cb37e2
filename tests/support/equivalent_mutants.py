"""Mutants that compute the same as the original, and why; no test can notice them."""

RULE, SYMBOLIC = "axioms/rules/rule.py", "axioms/rules/linear.py"
REFERENCE, LEMMAS = "numeric/reference/rules.py", "numeric/reference/lemmas.py"
EVALUATE, MAPPED = "numeric/reference/evaluate.py", "numeric/reference/mapped.py"
BERT, BERT_RELEVANCE = "tests/oracles/bert.py", "tests/oracles/bert_relevance.py"

SIGN = "dividing by +1 or -1 is multiplying by it"
AXES = "an exchange of two axes is symmetric"
FROZEN = "nothing writes into a record"
LAST_OF_TWO = "the array is (t, c), so that its last axis is axis 1"
SHAPE = "only the shape is taken, and what every layer reads has one shape"
REST = "NumPy takes any negative length for the one that it is to work out"

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (SYMBOLIC, "add_by_size", "v * sign_of(v) -> v / sign_of(v)"): SIGN,
    (RULE, "stabilize", "eps * (sign_of(z) if sign is None else sign) -> "
        "eps / (sign_of(z) if sign is None else sign)"): SIGN,
    (RULE, "Rule", "dataclass(frozen=True) -> dataclass()"): FROZEN,
    ("numeric/reference/dispatch.py", "Rule", "dataclass(frozen=True) -> dataclass()"): FROZEN,
    (SYMBOLIC, "positive_part",
        "sign_of(c) > 0 -> sign_of(c) >= 0"): "the sign of 0 is +1, so that no sign is 0",
    (REFERENCE, "product",
        "np.einsum(equation, *factors, optimize=True) -> np.einsum(equation, *factors)"
    ): "the order of summation is a matter of memory, not of value",
    (REFERENCE, "stabilize", "eps * np.where(np.asarray(z) >= 0, 1.0, -1.0) -> "
        "eps / np.where(np.asarray(z) >= 0, 1.0, -1.0)"): SIGN,
    (REFERENCE, "held_deviation", "'...k,kc,c,...,...c->...k' -> '...k,ck,c,...,...c->...k'"
    ): "the centring matrix is symmetric",
    (BERT, "(table)",
        "np.maximum(x, 0) -> np.maximum(0, x)"): "the maximum of two numbers is symmetric",
    (BERT, "split_heads", "-1 -> -2 in x.reshape(len(x), heads, -1)"): REST,
    (BERT, "merge_heads", "-1 -> -2 in x.transpose(1, 0, 2).reshape(x.shape[1], -1)"): REST,
    (BERT, "forward", "-1 -> 1 in x.var(axis=-1, keepdims=True)"): LAST_OF_TWO,
    (BERT, "forward", "-1 -> 1 in x.mean(axis=-1, keepdims=True)"): LAST_OF_TWO,
    (BERT_RELEVANCE, "relevance", "-1 -> 1 in r.sum(axis=-1)"): LAST_OF_TWO,
    (BERT_RELEVANCE, "relevance", "-1 -> 1 in word.sum(axis=-1)"): LAST_OF_TWO,
    (BERT_RELEVANCE, "relevance", "-1 -> 1 in position.sum(axis=-1)"): LAST_OF_TWO,
    (BERT_RELEVANCE, "relevance", "-1 -> 1 in types.sum(axis=-1)"): LAST_OF_TWO,
    (BERT_RELEVANCE, "relevance", "-1 -> 1 in np.zeros_like(inputs[-1])"): SHAPE,
    (BERT_RELEVANCE, "relevance", "-1 -> -2 in np.zeros_like(inputs[-1])"): SHAPE,
    (BERT_RELEVANCE, "relevance", "-1 -> -0 in np.zeros_like(inputs[-1])"): SHAPE,
    (MAPPED, "_weigh",
        "zip(xs, f.back(xs, part), strict=True) -> zip(f.back(xs, part), xs, strict=True)"
    ): "the product of an entry and its coefficient is symmetric",
    (EVALUATE, "(table)", "exchanged: kinds.READOUT and kinds.BILINEAR"
    ): "both are a matrix product, and only their rules differ",
    (EVALUATE, "(table)", "k.swapaxes(-1, -2) -> k.swapaxes(-2, -1)"): AXES,
    (LEMMAS, "rows", "x.swapaxes(node.attributes.get('axis', -1), -1) -> "
        "x.swapaxes(-1, node.attributes.get('axis', -1))"): AXES,
    (EVALUATE, "propagate",
        "received[order[-1]] + start -> start"): "the last operation has received 0 before",
    (EVALUATE, "_fit",
        "1 -> 0 in message.shape[n] != 1"): "a sum over an axis of one entry changes nothing",
    ("axioms/rewrites/products.py", "_factor", "0 -> 1 in node.args[0].args"
    ): "the common factor is that of every term, of the second as well as of the first",
    **{
        ("axioms/scoreboard/axiom_cells.py", "(table)", f"4 -> {n} in map(sp.Integer, (2, 3, 4))"
        ): "another point of three factors, at which the same axioms fail"
        for n in (3, 5)
    },
    ("axioms/scoreboard/scoreboard.py", "on_units",
        "1 -> 2 in scoreboard(ON_UNITS, tuple(UNITS), first=AT_EXPONENTIALS, attacks=1)"
    ): "a second attack on what holds finds nothing either",
    ("axioms/decide/identity.py", "_same", "5 -> 6 in k + 5"
    ): "the point is of other primes, and an equality that it does not disprove is expanded",
}  # fmt: skip
"""(file, function, change) -> reason."""
