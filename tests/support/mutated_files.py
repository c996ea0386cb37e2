"""Names the tests that notice the mutants of a file, for ``tests.support.mutation``."""

FORMULAS = [
    f"axioms/rules/{name}.py"
    for name in ("rule", "linear", "products", "attention", "norms", "activations")
]
BERT = ("tests/reference/test_reference.py", "tests/reference/test_reference_records.py")
EVALUATED = (
    "tests/reference/test_evaluate_by_hand.py", "tests/reference/test_evaluate.py",
)  # fmt: skip
GROUPS = {
    "COMPLETE": "needles enumerators",
    "LAWS": "rewrite_laws rewrites",
    "SWEEP": "symbolic_sweep symbolic_ledger theorems/conservation",
    "BOARD": "needles enumerators attacks scoreboard",
    "JUDGED": "rules_by_hand solver user_rules user_rule_claims literature",
    "CONFLUENT": "confluence theorems/confluence theorems/canonized_steps",
    "TABLE": "theorems/axioms_and_rewrites axiom_table",
    "PAGES": "whole_pages pages",
    "DERIVED": "derive roots",
}
ROWS = """
certificates <- check
composites scoreboard theorems/state_space <- composites
symbolic_sweep limits COMPLETE theorems/linear theorems/associativity <- decide/identity
decomposed theorems/decomposed_pass <- theorems/decomposed
COMPLETE LAWS theorems/canonizers <- decide/denotation
COMPLETE theorems/attention_loo theorems/sum_to_one scoreboard <- rules/effects
SWEEP theorems/relevance_patching <- rules/ledger
polynomials <- decide/polynomials
SWEEP LAWS gradient_messages <- rules/propagate
DERIVED <- derivations/derive derivations/operations derivations/roots
LAWS <- rewrites/attention rewrites/units
TABLE <- scoreboard/axiom_cells theorems/axiom_rules theorems/axiom_sets theorems/excluded
LAWS CONFLUENT <- rewrites/channels
CONFLUENT <- theorems/confluence theorems/overlaps
LAWS COMPLETE <- rewrites/products rewrites/layers rewrites/rewrite
canonizers theorems/canonizers confluence theorems/confluence <- rewrites/canonizers
BOARD <- rewrites/points scoreboard/rule_sets scoreboard/scoreboard scoreboard/witness
JUDGED <- own_rules/claims own_rules/messages own_rules/properties own_rules/settings
JUDGED <- own_rules/uniform own_rules/verdicts
JUDGED bad_user_rules <- own_rules/formula
PAGES <- pages/arguments pages/show
counts <- evidence/counts
scope <- evidence/scope
search <- search/confirm search/solve search/templates
JUDGED <- decide/answers decide/equality decide/limits decide/reals decide/signs
"""


def _tests(names: str) -> tuple[str, ...]:
    """The test files that a row names, with its groups resolved."""
    found: list[str] = []
    for name in names.split():
        folder, _, last = name.rpartition("/")
        place = f"axioms/{folder}" if folder else "tests/axioms"
        found += _tests(GROUPS[name]) if name in GROUPS else [f"{place}/test_{last}.py"]
    return tuple(found)


SLOW = {
    **dict.fromkeys(FORMULAS, (
        *_tests("gradient_messages given_signs symbolic_rules symbolic_sweep symbolic_ledger"),
        *_tests("rewrites DERIVED"), "axioms/theorems",
    )),
    "numeric/reference/rules.py": ("tests/reference/test_reference_rules.py", BERT[0]),
    "numeric/reference/dispatch.py": (EVALUATED[1], BERT[0]),
    "numeric/reference/lemmas.py": (
        "tests/reference/test_evaluate_by_hand.py", "tests/auditing/test_audit.py",
    ),
    "tests/oracles/bert.py": BERT,
    "tests/oracles/bert_relevance.py": BERT,
    "tests/oracles/linear_attention.py": (
        "tests/reference/test_reference_linear_attention.py", BERT[1],
    ),
    "numeric/reference/evaluate.py": EVALUATED,
    "numeric/reference/mapped.py": EVALUATED,
}  # fmt: skip
"""File -> the tests, or folders of tests, that notice the mutants left by fast checks."""
DECIDING = {
    f"axioms/{name}.py": _tests(row.partition(" <- ")[0])
    for row in ROWS.strip().splitlines()
    for name in row.partition(" <- ")[2].split()
}
"""File that decides, proves or searches -> the tests that notice its mutants."""
