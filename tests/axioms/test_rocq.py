"""The kernel of Rocq accepts the theorems of axioms/rocq, and pages name them where they are meant.

With LRP_AXIOMS_ROCQ=required, as in continuous integration, a missing coqc is a failure.
"""

import os
import re
import shutil
import subprocess

import pytest

from axioms.evidence.rocq import FOLDER, kernel, proofs
from axioms.pages.show import page, text
from tests.support.theorems import stated
from website.catalogue import PAGE

SOURCES = sorted(FOLDER.glob("*.v"))
ALLOWED = {  # which the real numbers of Rocq's own library rest on
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}
NAME = re.compile(r"^(?:Theorem|Lemma|Corollary) (\w+)", re.MULTILINE)
UNPROVED = re.compile(
    r"\b(?:Admitted|admit|give_up|Axioms?|Parameters?|Conjectures?|Hypothes[ie]s|Abort|Unset)\b"
)


def require_coqc():
    """Skips the test by name where coqc is missing, or fails it where coqc is required."""
    if shutil.which("coqc") is None:
        said = "coqc is not installed: apt-get install coq"
        if os.environ.get("LRP_AXIOMS_ROCQ") == "required":
            pytest.fail(said)
        pytest.skip(said)


def run(folder, program, *arguments):
    command = [program, "-Q", ".", "Lrp", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


def compiled(folder, change=lambda text: text):
    """The files in order of their imports, and the first error of Rocq; none if it accepts all."""
    require_coqc()
    for path in SOURCES:
        (folder / path.name).write_text(change(path.read_text("utf-8")), "utf-8")
    order = run(folder, "coqdep", "-sort", *(path.name for path in SOURCES)).stdout.split()
    assert sorted(name.removeprefix("./") for name in order) == [path.name for path in SOURCES]
    for name in order:
        if (done := run(folder, "coqc", name)).returncode:
            return order, f"{name}: {done.stderr}"
    return order, ""


@pytest.mark.parametrize(
    ("value", "outcome"), [("required", pytest.fail.Exception), ("", pytest.skip.Exception)]
)
def test_a_missing_coqc_fails_by_name_where_it_is_required(monkeypatch, value, outcome):
    monkeypatch.setenv("LRP_AXIOMS_ROCQ", value)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(outcome, match="coqc is not installed: apt-get install coq"):
        require_coqc()


def test_the_kernel_accepts_every_proof_from_the_axioms_of_the_reals_alone(tmp_path):
    order, error = compiled(tmp_path)
    assert error == ""
    modules = [name.removeprefix("./").removesuffix(".v") for name in order]
    names = [name for path in SOURCES for name in NAME.findall(path.read_text("utf-8"))]
    together = f"Definition together := ({', '.join(f'@{name}' for name in names)})."
    asked = f"From Lrp Require Import {' '.join(modules)}.\n{together}\nPrint Assumptions together."
    (tmp_path / "Asked.v").write_text(f"{asked}\n", "utf-8")
    done = run(tmp_path, "coqc", "Asked.v")
    assert (done.returncode, done.stderr) == (0, "")
    head, _, axioms = done.stdout.partition("\n")
    assert head == "Axioms:"
    assert {*re.findall(r"^(\S+)\s*:(?=\s)", axioms, re.MULTILINE)} == ALLOWED


MISTAKES = {
    "Eq. 1 without the bias in its denominator": ("(r / (z + push", "(r / (z - b + push"),
    "products that give every factor all": ("(INR n * z + push", "(z + push"),
    "Eq. 5 without the weights": ("(fun a => a * sum r)", "(fun a => sum r)"),
    "coalitions of the absent inputs": ("(if b then x else 0)", "(if b then 0 else x)"),
    "a statement that is false": ("[12; 6; 6]", "[12; 6; 7]"),
}


@pytest.mark.parametrize("mistake", [*MISTAKES])
def test_a_mistake_in_a_rule_is_rejected(tmp_path, mistake):
    old, new = MISTAKES[mistake]
    assert sum(path.read_text("utf-8").count(old) for path in SOURCES) == 1
    _, error = compiled(tmp_path, lambda text: text.replace(old, new))
    assert "Tactic failure" in error  # the changed rule is well-formed, and a proof fails


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_nothing_is_assumed_or_left_open(path):
    code = re.sub(r"\(\*.*?\*\)", "", path.read_text("utf-8"), flags=re.DOTALL)
    assert UNPROVED.findall(code) == []
    assert code.count("\nProof.") == code.count("Qed.") + code.count("Defined.")


def test_every_theorem_quotes_a_statement_of_its_number():
    numbers = {verdict.statement: verdict.number for verdict in stated()}
    assert sorted(proofs().keys() - numbers.keys()) == []
    quoted = [name for named in proofs().values() for name in re.findall(r"theorem_\w+", named)]
    declared = [name for path in SOURCES for name in NAME.findall(path.read_text("utf-8"))]
    assert sorted(quoted) == sorted(name for name in declared if name.startswith("theorem_"))
    for statement, named in proofs().items():
        assert {int(n) for n in re.findall(r"theorem_(\d+)_", named)} == {numbers[statement]}


def test_the_pages_of_these_statements_alone_name_the_kernel():
    shown = " ".join(text(page("20")).split())
    (said,) = (kernel(v.statement) for v in page("20").verdicts if kernel(v.statement))
    assert "theorem_20_leaving_a_key_out in axioms/rocq/Attention.v" in said
    assert shown.count(said) == shown.count("kernel of Rocq") == 1
    assert PAGE.read_text("utf-8").count("kernel of Rocq checked") == len(proofs())
