"""A changed file of this program is read and can be used, or is refused by an error that names it.

``make fuzz`` runs these tests with many more changes; its findings are kept as examples.
"""

import io
import json
import random
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from safetensors import safe_open
from safetensors.torch import save

from axioms import check
from axioms.evidence.certificates import certify
from benchmarks.errors import RunError
from benchmarks.experiments import report, result, rows
from benchmarks.research.speed import ratios
from numeric import Attribution
from numeric.generation.result import Generation
from tests.support import forged, garbled
from tests.support.by_numpy import Numbers, polynomial


@contextmanager
def right_or_refused(path, kind=ValueError):
    """Accepts an error of this kind that names the file."""
    try:
        yield
    except kind as error:
        if str(path) not in str(error):
            raise AssertionError(f"an error that does not name {path}") from error


THEOREM = """
import pytest
import sympy as sp
from axioms.decide.identity import differ_at, generic, identical
from axioms.rules.linear import add
from axioms.rules.products import equal_split

@pytest.mark.theorem(1, "A sum shares.", "refuted")
def test_a_sum():
    x, r = generic("x", 1, 2), generic("r", 1, 2)
    eps = sp.Symbol("epsilon", positive=True)
    one, other = add([x, x], r, eps=eps, sign=sp.Matrix([[1, 1]]))
    assert identical(one[0], other[0])
    assert differ_at(one[0], r[0], {x[0]: 1, r[0]: 2, eps: 1})
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("garbled")


@pytest.fixture(scope="module")
def certificates(folder):
    """A folder of an index and one certificate, and the content of both."""
    (folder / "test_theorem.py").write_text(THEOREM, "utf-8")
    certify(folder / "test_theorem.py", folder=folder / "certificates")
    paths = sorted((folder / "certificates").iterdir())
    assert check.check(folder / "certificates")[0] == []
    return {path: json.loads(path.read_text("utf-8")) for path in paths}


@given(data=st.data())
def test_certificates(certificates, data):
    path = data.draw(st.sampled_from(list(certificates)))
    path.write_bytes(data.draw(garbled.files(certificates[path])))
    try:
        errors, summary = check.check(path.parent)
        assert {error.partition(":")[0] for error in errors} <= {"1", "index.json"}
        assert "\n" not in summary or not errors
    finally:
        path.write_text(json.dumps(certificates[path]), "utf-8")


RULES = """
import pytest
import sympy as sp
from axioms.decide.identity import differ_at, generic, identical, sign_cases
from axioms.rules.attention import taylor, value_only
from axioms.rules.linear import epsilon
from axioms.rules.products import bilinear_epsilon

EPS = sp.Symbol("epsilon", positive=True)
A, V, R = generic("a", 1, 2), generic("v", 2, 1), generic("r", 1, 1)

@pytest.mark.theorem(1, "Products and layers share.", "proved")
def test_products():
    z = (A * V)[0]
    for s in sign_cases(1, 1):
        one, other = bilinear_epsilon(A, V, R, eps=EPS, sign=s)
        (alone,) = epsilon(A, V, R, eps=EPS, sign=s)
        _, values = value_only(A, V, R, eps=EPS, sign=s)
        assert identical(sum(one), R[0] * z / (2 * z + EPS * s[0]))
        assert identical(sum(other), sum(one))
        assert identical(sum(alone), R[0] * z / (z + EPS * s[0]))
        assert identical(values[0], A[0] * V[0] * R[0] / (z + EPS * s[0]))

@pytest.mark.theorem(2, "A softmax does not conserve.", "refuted")
def test_softmax():
    z, r = generic("z", 1, 2), generic("r", 1, 2)
    e = generic("e", 1, 2, positive=True)
    (found,) = taylor(z, r, exp_z=e)
    assert identical(found[0], z[0] * (r[0] - (r[0] + r[1]) * e[0] / (e[0] + e[1])))
    at = {z[0]: 1, z[1]: 1, r[0]: 1, r[1]: 3, e[0]: 1, e[1]: 1}
    assert differ_at(sum(found), sum(r), at)
"""


@pytest.fixture(scope="module")
def runs(folder):
    """The runs of valid certificates."""
    (folder / "test_rules.py").write_text(RULES, "utf-8")
    certify(folder / "test_rules.py", folder=folder / "rules")
    assert check.check(folder / "rules")[0] == []
    return [json.loads((folder / "rules" / f"{n}.json").read_text())["runs"][0] for n in (1, 2)]


@given(data=st.data())
def test_what_is_accepted_of_a_forged_certificate_is_true(runs, data):
    """By the NumPy reference, at points of its own: every other change is an error."""
    run, chance = data.draw(forged.runs(runs)), random.Random(0)
    check.Value.steps = 0
    try:
        nonzero = check.decided(run)
    except Exception:  # as of any file
        return
    for kind, sides, at in run["decisions"]:
        for n in range(6):
            signs = (-1, 0, 1) if n % 2 else (-1, 1)  # 0 has a sign too
            drawn = {
                s: chance.uniform(0.3, 2) * (1 if fact else chance.choice(signs))
                for s, fact in run["symbols"].items()
            }
            point = drawn | {s: float(Fraction(x)) for s, x in at.items()}
            if n % 2 and any(abs(polynomial(text, point)) < 1e-9 for text in nonzero):
                continue
            numbers = Numbers(run, point)
            left, right = map(numbers.value, sides)
            near = abs(left - right) <= 1e-7 * (1 + abs(left) + abs(right))
            assert near == (kind == "equal"), (run, sides, left, right)


def attribution():
    relevance = torch.tensor([[1.0, -2.0, 0.5], [0.25, 0.0, 0.0]])
    return Attribution(
        relevance=relevance,
        target=torch.tensor([0, 1]),
        logit=torch.tensor([1.0, 2.0]),
        residual=torch.tensor([0.0, 1.75]),
        method="loo",
        options={"removal": "deletion", "steps": 3, "baseline": torch.ones(2), "at": ["a.*"]},
        details={"gap": torch.zeros(2)},
        inside={"bert.layer": relevance[:, :, None].clone()},
        tokens=(("a", "fine", "film"), ("bad", None, None)),
        model="Bert",
    )


def generation():
    numbers = torch.arange(8.0).view(2, 4), torch.ones(2), torch.zeros(2)
    return Generation(*numbers, tuple("abcd"), 1, "Model", "attnlrp")


def shown(found):
    console = Console(file=io.StringIO(), width=80)
    console.print(*found.terminal())
    found.html(), found.png(), repr(found), found._repr_html_()
    if isinstance(found, Attribution):
        found.to_pandas()
    else:
        found.by("word"), found.by("sentence")


TENSORS = {
    "drop": lambda named, name, _: named.pop(name),
    "rename": lambda named, name, other: named.update({f"{name}s": named.pop(name)}),
    "exchange": lambda named, name, other: named.update({name: named[other].clone()}),
    "int": lambda named, name, _: named.update({name: named[name].int()}),
    "bool": lambda named, name, _: named.update({name: named[name].bool()}),
    "complex": lambda named, name, _: named.update({name: named[name].to(torch.complex64)}),
    "float8": lambda named, name, _: named.update({name: named[name].to(torch.float8_e5m2)}),
    "half": lambda named, name, _: named.update({name: named[name].half()}),
    "nan": lambda named, name, _: named.update({name: named[name] * float("nan")}),
    "huge": lambda named, name, _: named.update({name: named[name].double() * 1e307}),
    "flat": lambda named, name, _: named.update({name: named[name].flatten()}),
    "empty": lambda named, name, _: named.update({name: named[name][:0].clone()}),
    "one more axis": lambda named, name, _: named.update({name: named[name][None].clone()}),
    "a number": lambda named, name, _: named.update({name: named[name].sum()}),
}


@st.composite
def spoiled(draw, path):
    """The bytes of a saved explanation, changed in its facts, its tensors, or anywhere."""
    with safe_open(path, framework="pt") as file:
        about, named = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    kind = draw(st.sampled_from(["facts", "facts", "tensors", "bytes"]))
    if kind == "bytes":
        return draw(garbled.cut_or_flipped(path.read_bytes()))
    if kind == "facts":
        about["facts"] = draw(garbled.changed(json.loads(about["facts"])))
    for _ in range(draw(st.integers(1, 2)) if kind == "tensors" else 0):
        name, other = (draw(st.sampled_from(sorted(named))) for _ in range(2))
        TENSORS[draw(st.sampled_from(list(TENSORS)))](named, name, other)
    return save(named, about)


@settings(max_examples=settings.default.max_examples // 4)  # a picture takes long to draw
@pytest.mark.parametrize("made", [attribution(), generation()], ids=["attribution", "generation"])
@given(data=st.data())
def test_saved_explanations(folder, made, data):
    path = folder / "right"
    made.save(path)
    (folder / "wrong").write_bytes(data.draw(spoiled(path)))
    with right_or_refused(folder / "wrong"):
        found = type(made).load(folder / "wrong")
        shown(found)
        found.save(folder / "again")
        type(made).load(folder / "again")


def test_the_largest_numbers_are_shown():
    for made in (attribution(), generation()):
        huge = torch.full_like(made.relevance, 1e308, dtype=torch.float64)
        shown(replace(made, relevance=huge * torch.eye(2, huge.shape[1])))


RESULT = result.Result(
    name="theorems", table="theorems", title="Theorems", text="What is proved.", rows=[],
    settings={"seed": 0, "parts": {"a": [1, 2.5]}}, notes=("One.",), provenance={"commit": "abc"},
)  # fmt: skip


@given(data=st.data())
def test_results(folder, data):
    (folder / "results").mkdir(exist_ok=True)
    path = folder / "results" / "theorems.json"
    RESULT.write(path.parent)
    content = json.loads(path.read_text("utf-8"))
    content["rows"] = [{"r": 0.5, "r undefined": 1, "layer": None, "method": "loo"}]
    path.write_bytes(data.draw(garbled.files(content)))
    with right_or_refused(folder / "results", RunError):
        replace(result.read(path), name="again").write(folder / "results")
        report.write(folder / "results")


@given(data=st.data())
def test_baselines(folder, data):
    content = json.loads(ratios.BASELINE.read_text("utf-8"))["ratios"]
    name = min(content)
    line = content[name] | {"values": content[name]["values"][:3]}
    path = folder / "baseline.json"
    path.write_bytes(data.draw(garbled.files({"ratios": {name: line}})))
    with right_or_refused(path):
        ratios.render(ratios.read(path))


@given(data=st.data())
def test_rows(folder, data):
    name = data.draw(st.sampled_from(rows.names()))
    lines = (rows.FOLDER / f"{name}.toml").read_text("utf-8").splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        n = data.draw(st.integers(0, len(lines) - 1))
        key, _, value = lines[n].partition(" = ")
        odd = json.dumps(data.draw(st.sampled_from(garbled.ODD)))
        changed = (f"{key} = {odd}", f"{key}s = {value}", f"{key} = [{value}]", f"[x]\n{lines[n]}")
        lines[n] = data.draw(st.sampled_from(changed))
    path = folder / "row.toml"
    text = "\n".join(lines).encode()
    path.write_bytes(data.draw(st.one_of(st.just(text), garbled.cut_or_flipped(text))))
    with right_or_refused(path):
        row = rows.load(str(path))
        row.record(), row.composites(12)
