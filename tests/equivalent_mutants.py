"""Mutants that compute the same as the rules, and why; no test can notice them."""

SYMBOLIC = "axioms/rules.py"
REFERENCE = "numeric/reference/rules.py"

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        SYMBOLIC,
        "add_by_size",
        "v * sign_of(v) -> v / sign_of(v)",
    ): "dividing by +1 or -1 is multiplying by it",
    (
        SYMBOLIC,
        "stabilize",
        "eps * (sign_of(z) if sign is None else sign) -> "
        "eps / (sign_of(z) if sign is None else sign)",
    ): "dividing by +1 or -1 is multiplying by it",
    (
        REFERENCE,
        "product",
        "np.einsum(equation, *factors, optimize=True) -> np.einsum(equation, *factors)",
    ): "the order of summation is a matter of memory, not of value",
    (
        REFERENCE,
        "stabilize",
        "eps * np.where(np.asarray(z) >= 0, 1.0, -1.0) -> "
        "eps / np.where(np.asarray(z) >= 0, 1.0, -1.0)",
    ): "dividing by +1 or -1 is multiplying by it",
    (
        REFERENCE,
        "held_deviation",
        "'...k,kc,c,...,...c->...k' -> '...k,ck,c,...,...c->...k'",
    ): "the centring matrix is symmetric",
}
"""(file, function, change) -> reason."""
