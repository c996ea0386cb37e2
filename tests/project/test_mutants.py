"""A sample of the mutants is noticed, and the machinery can tell; `make mutants` runs all."""

import ast
import importlib
import inspect
import re
from collections import Counter

import pytest

from numeric.reference import dispatch, rules
from tests.oracles import bert
from tests.support import alternatives, mutants, mutation
from tests.support.equivalent_mutants import EQUIVALENT
from tests.support.mutants import Mutant, applied
from tests.support.mutation import DECIDING, FAST, SLOW, fails, noticed


@pytest.mark.parametrize("mutant", mutation.sample(16, seed=0), ids=str)
def test_a_small_change_of_a_rule_is_noticed(mutant):
    assert noticed(mutant)


@pytest.mark.parametrize("check", dict.fromkeys(sum(FAST.values(), ())))
def test_the_checks_accept_the_rules_as_they_are(check):
    assert not fails(check)


def test_the_tests_accept_a_reference_model_as_it_is():
    """`make mutants` begins with this for all of them."""
    assert not fails(mutation.tests(*SLOW["tests/oracles/linear_attention.py"]))


def find(path, change, *, function=""):
    found = (m for m in mutants.mutants(path) if m.change == change)
    return next(m for m in found if m.function == (function or m.function))


def test_a_mutant_acts_on_all_who_imported_the_rule_and_is_undone():
    mutant = find("numeric/reference/rules.py", "relevance / len(factors) -> relevance")
    before = dispatch.RULES["product", "equal-split"]
    with applied(mutant):
        assert rules.equal_split((2, 3), 6) == (6, 6)
        assert dispatch.RULES["product", "equal-split"].messages((2, 3), 6, eps=0) == (6, 6)
    assert rules.equal_split((2, 3), 6) == (3, 3)
    assert dispatch.RULES["product", "equal-split"] is before
    assert mutation.agreement() is None


def test_a_mutant_of_a_default_and_of_a_table_acts_too():
    with applied(find("numeric/reference/rules.py", "1.0 -> 2.0", function="bilinear_epsilon")):
        assert rules.bilinear_epsilon.__kwdefaults__ == {"scale": 2.0}
    assert rules.bilinear_epsilon.__kwdefaults__ == {"scale": 1.0}
    key = ("softmax", "constant")
    exchanged = "Rule(kinds.SOFTMAX, kinds.CONSTANT", "Rule(kinds.CONSTANT, kinds.SOFTMAX"
    found = mutants.mutants("numeric/reference/dispatch.py")
    (mutant,) = (m for m in found if all(x in m.change for x in exchanged))
    with applied(mutant):
        assert key not in dispatch.RULES
    assert key in dispatch.RULES


def test_a_mutant_of_a_method_and_of_a_table_of_functions_acts_too():
    path, act = "tests/oracles/bert.py", bert.ACTIVATIONS["silu"]
    model = bert.Bert
    with applied(find(path, "x * expit(x) -> x")):
        assert bert.ACTIVATIONS["silu"](3.0) == 3
    assert bert.ACTIVATIONS["silu"] is act
    with applied(find(path, "1 -> 2 in 1 + max((int(parts[3]) for parts in names))")):
        names = dict.fromkeys(["bert.encoder.layer.4.output.dense.bias"])
        options = {"num_attention_heads": 1, "layer_norm_eps": 0, "hidden_act": "relu"}
        assert bert.Bert(parameters=names, **options).num_layers == 6
    assert bert.Bert is model
    assert bert.Bert(parameters=names, **options).num_layers == 5


def test_no_file_of_the_reference_or_of_the_oracles_is_left_out():
    folders = ("numeric/reference", "tests/oracles")
    files = [file for folder in folders for file in (mutants.ROOT / folder).glob("*.py")]
    paths = {str(file.relative_to(mutants.ROOT)) for file in files}
    found = {path for path in paths if mutants.mutants(path)}
    assert found == {path for path in FAST if path.startswith(folders)}


def test_a_failing_check_leaves_no_mutant_behind():
    path = "axioms/rules/products.py"
    module = importlib.import_module("axioms.rules.products")

    def codes():
        functions = {name: inspect.unwrap(f) for name, f in vars(module).items() if callable(f)}
        return {name: f.__code__ for name, f in functions.items() if hasattr(f, "__code__")}

    before = codes()
    assert noticed(find(path, "relevance / n -> relevance * n")) == "agreement"
    assert codes() == before


def test_what_changes_nothing_is_not_noticed():
    """The mutant that is no mutant: the text as it is, compiled and put in place."""
    path = "numeric/reference/rules.py"
    tree = ast.parse((mutants.ROOT / path).read_text())
    number, node = next((n, x) for n, x in enumerate(ast.walk(tree)) if isinstance(x, ast.Call))
    same = Mutant(path=path, line=0, function="", change="", number=number, choice=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(alternatives.ALTERNATIVES, ast.Call, lambda node: [node])
        with applied(same):
            assert not fails(mutation.agreement)
    assert node


def test_files_that_cannot_be_run_decide_nothing():
    with pytest.raises(mutation.BrokenCheck):
        fails(mutation.tests("tests/no_such_file.py"))


def test_equivalent_mutants_are_mutants_and_say_why():
    files = dict.fromkeys(FAST, False) | dict.fromkeys(DECIDING, True)
    made = (m for path, decides in files.items() for m in mutants.mutants(path, decides=decides))
    found = {(m.key, m.number) for m in made}
    known = Counter(key for key, _ in found)  # two changes of one node that read alike are one
    assert {key: known[key] for key in EQUIVALENT} == dict.fromkeys(EQUIVALENT, 1)
    assert all(len(reason) > 20 for reason in EQUIVALENT.values())


def test_the_page_of_trust_tells_how_many_there_are():
    page = (mutants.ROOT / "docs" / "TRUST.md").read_text(encoding="utf-8")
    told = re.search(r"More than (\d+) small changes[^;]* for a few dozen that change", page)
    assert int(told[1]) < len(mutation.all_mutants()) + len(EQUIVALENT)
    assert 24 <= len(EQUIVALENT) <= 48


CHANGES = {
    "a - b": {"a + b", "a", "b"},
    "-a": {"a"},
    "2 * a": {"2 / a", "2", "a", "3 * a", "1 * a"},
    "a >= 0": {"a > 0", "a < 0", "a >= 1"},
    "f(a, b, eps=eps)": {"f(b, a, eps=eps)", "f(a, b)", "f(a, b, eps=2 * eps)"},
    "f(eps=0)": {"f()", "f(eps=1)"},
    "f('ij,j->i')": {"f('ji,j->i')"},
    "(a, b)": {"(b, a)"},
    "a if b else c": {"c if b else a"},
    "x.rows": {"x.cols"},
}
OF_DECISIONS = {
    "all(a)": {"any(a)"},
    "a and b": {"a or b", "a", "b"},
    "True": {"False"},
    "[a for a in b if c]": {"[a for a in list(b)[:1] if c]", "[a for a in b]"},
}


@pytest.mark.parametrize("source", CHANGES | OF_DECISIONS)
def test_every_kind_of_change_is_made(source, tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "rules.py").write_text(f"x = {source}\n")
    found = set()
    for mutant in mutants.mutants("rules.py", decides=source in OF_DECISIONS):
        tree = ast.parse(f"x = {source}\n")
        node = list(ast.walk(tree))[mutant.number]
        other = alternatives.alternatives(node, decides=mutant.decides)[mutant.choice]
        found.add(ast.unparse(tree).removeprefix("x = ").replace(*map(ast.unparse, (node, other))))
    assert found == (CHANGES | OF_DECISIONS)[source]


def test_words_are_not_mutated(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    text = 'def f(a: 1) -> 2:\n    """3 - 4"""\n    raise ValueError(f"{a - 5}", 6)\n'
    text += "A: TypeAlias = B[7, ...]\n"
    (tmp_path / "rules.py").write_text(text)
    assert mutants.mutants("rules.py") == []
