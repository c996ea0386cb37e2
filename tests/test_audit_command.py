"""`lrp-axioms audit` writes what the auditor shows; what a user can mend is one message."""

import re

import pytest

from numeric.auditing.rounding import signed
from tests import cases, program
from tests.test_audit_presentation import check_causes, check_layers, flat


def test_the_command_writes_the_three_forms_of_one_audit(run, tmp_path):
    html, data = tmp_path / "a.html", tmp_path / "a.json"
    text = "<script>alert(1)</script> & fine \x1b[31m \x9b2J \u202e"
    code, out, err = run("audit", "embedded", text, "--html", html, "--json", data, "--worst", 3)
    assert (code, err) == (0, "")
    facts = program.strict_json(data)
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


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    from transformers import ViTImageProcessorPil

    folder = tmp_path_factory.mktemp("vit")
    cases.family("vit", num_channels=3)[0].save_pretrained(folder)
    ViTImageProcessorPil(size={"height": 6, "width": 6}).save_pretrained(folder)
    return folder


def test_an_image_model_takes_a_pattern_or_a_file(run, vit, tmp_path):
    from PIL import Image

    code, out, _ = run("audit", vit)
    assert code == 0
    assert "a small fixed pattern of this program" in " ".join(out.split())
    assert "[CLS] 0,0 0,1 0,2 1,0" in out
    Image.new("L", (9, 7), 200).save(tmp_path / "grey.png")
    code, out, _ = run("audit", vit, "--image", tmp_path / "grey.png")
    assert code == 0
    assert "grey.png" in flat(out)  # however long the path is
    assert "…" not in out
    check_layers(out)


SENTENCE = ("audit", "embedded", "a fine film")
WRONG = {
    "an unknown composite": ([*SENTENCE, "--composite", "x"], "--composite 'x': pass attnlrp or"),
    "an unknown class": (
        [*SENTENCE, "--target", "2"],
        r"target \[2\] out of range.*classes 0 to 1",
    ),
    "a negative epsilon": ([*SENTENCE, "--epsilon", "-1"], "--epsilon -1.0: .*must be finite"),
    "no number of epsilon": ([*SENTENCE, "--epsilon", "nan"], "--epsilon nan: .*must be finite"),
    "an endless epsilon": ([*SENTENCE, "--epsilon", "inf"], "--epsilon inf: .*must be finite"),
    "fewer than none": ([*SENTENCE, "--worst", "-1"], "--worst -1: pass how many"),
    "an empty text": (["audit", "embedded", " "], "no text in ' ': pass a sentence"),
    "a long text": (["audit", "embedded", "film " * 600], "602 tokens is longer.*512"),
    "no folder": ([*SENTENCE, "--html", "no/x.html"], "--html no/x.html: there is no folder no"),
    "a folder for the page": ([*SENTENCE, "--html", "/"], "--html / is a folder; pass a file"),
    "no folder for JSON": ([*SENTENCE, "--json", "no/x"], "--json no/x: there is no folder no"),
    "no model": (["audit", "./nowhere"], "'./nowhere' does not exist"),
    "an image for a text model": ([*SENTENCE, "--image", "x.png"], "takes a text, not --image x"),
    "a text for an image model": (
        ["audit", "vit", "a film"],
        "takes images, not the text 'a film'",
    ),
    "no image file": (["audit", "vit", "--image", "x.png"], "--image x.png: No such file"),
    "no image": (["audit", "vit", "--image", "taken"], "--image taken is no image"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_user_can_mend_is_one_message(run, vit, tmp_path, monkeypatch, name):
    arguments, says = WRONG[name]
    (tmp_path / "taken").write_text("mine")
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*[vit if x == "vit" else x for x in arguments])
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("error:") == 1
    assert "Traceback" not in err
    assert re.search(says, err)
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]
