"""`lrp-axioms audit` writes the auditor's pages; an error that a user can mend is one message."""

import json
import re
import shutil
from decimal import Decimal

import pytest

from numeric.auditing.meanings import MEANINGS
from numeric.auditing.rounding import signed
from tests.auditing.test_audit_presentation import check_causes, check_layers, flat
from tests.support import cases, program


def test_the_command_writes_the_three_forms_of_one_audit(run, tmp_path):
    html = tmp_path / "a.html"
    text = "<script>alert(1)</script> & fine \x1b[31m \x9b2J \u202e"
    code, out, err = run("audit", "embedded", text, "--worst", 3, "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    code, out, err = run("audit", "embedded", text, "--html", html, "--worst", 3, "--full")
    assert (code, err) == (0, "")
    assert facts["input"] == text
    assert facts["forward_error"] < 1e-4
    assert len(facts["worst"]) == 3
    assert program.obeyed(out) == ""
    assert "fine �[31m �2J �" in out
    check_causes(out)
    check_layers(out)
    shown = program.Page(html)
    assert shown.tags.count("script") == 1
    assert signed(facts["residual"]) in out
    assert signed(facts["residual"]) in shown.words
    said = f"{100 * facts['explained']:.0f} % of the"
    assert said in out
    assert said in shown.words


def test_a_summary_counts_the_refuted_statements_that_it_leaves_out(run):
    out = run("audit", "embedded")[1]
    named = out.count("\nrefuted: ")
    (counted,), (left,) = re.findall(r"(\d+) refuted", out), re.findall(r"and (\d+) more", out)
    assert int(counted) == named + int(left) > named
    assert run("audit", "embedded", "--full")[1].count("\nrefuted ") == int(counted)


def test_a_comparison_adds_up_and_counts_every_statement(run, tmp_path):
    call = ("audit", "embedded", "a fine film", "--method", "attnlrp,cp-lrp")
    code, out, _ = run(*call, "--html", tmp_path / "a.html")
    assert code == 0
    assert sorted(x.name for x in tmp_path.iterdir()) == ["a-1.html", "a-2.html"]
    audits = json.loads(run(*call, "--json")[1])["audits"]
    rows = dict(re.findall(r"(?m)^(\S.*?)  +(\S+ +\S+)$", out))
    rows = {name: cells.split() for name, cells in rows.items()}
    causes = [rows[name] for name in rows.keys() & MEANINGS.keys()]
    for n, facts in enumerate(audits):
        assert rows["residual"][n] == signed(facts["residual"])
        assert sum(Decimal(x[n]) for x in causes) == Decimal(rows["residual"][n])
        for verdict in ("proved", "refuted"):
            said = [v["verdict"] for v in facts["verdicts"]].count(verdict)
            assert rows[f"statements {verdict}"][n] == str(said)


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    from transformers import ViTImageProcessorPil

    folder = tmp_path_factory.mktemp("vit")
    cases.family("vit", num_channels=3)[0].save_pretrained(folder)
    ViTImageProcessorPil(size={"height": 6, "width": 6}).save_pretrained(folder)
    return folder


def test_an_image_model_without_patches_is_audited_in_python(run, vit, tmp_path):
    from transformers import ResNetConfig, ResNetForImageClassification

    sizes = {"embedding_size": 8, "hidden_sizes": [8], "depths": [1]}
    ResNetForImageClassification(ResNetConfig(**sizes)).save_pretrained(tmp_path)
    shutil.copy(vit / "preprocessor_config.json", tmp_path)
    code, _, err = run("audit", tmp_path)
    assert code == 2
    assert flat("ResNetForImageClassification does not cut images into patches") in flat(err)


def test_an_image_model_takes_a_pattern_or_a_file(run, vit, tmp_path):
    from PIL import Image

    code, out, _ = run("audit", vit)
    assert code == 0
    assert "a small fixed pattern of this program" in " ".join(out.split())
    assert "[CLS] 0,0 0,1 0,2 1,0" in out
    assert "explained" not in out
    Image.new("L", (9, 7), 200).save(tmp_path / "grey.png")
    code, out, _ = run("audit", vit, "--image", tmp_path / "grey.png", "--full")
    assert code == 0
    assert "grey.png" in flat(out)  # however long the path is
    assert "…" not in out
    check_layers(out)
