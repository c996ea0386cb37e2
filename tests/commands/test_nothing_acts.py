"""Folders and texts are only read and shown: no code, no network, no terminal codes."""

import sys
import warnings
from pathlib import Path

import pytest
from transformers import ViTImageProcessorPil

from benchmarks.experiments import report, theorems
from benchmarks.sources import models
from tests.support import cases, program
from tests.support.folders import copy, pickled, put, settings

SENTENCE = "a fine film"
HUB = "kernels-community/flash-attn2"
CODE = """
from pathlib import Path
Path(__file__).with_name("ran").touch()
Path({ran!r}).touch()
from transformers import PretrainedConfig, PreTrainedModel
class Config(PretrainedConfig):
    model_type = "evil"
class Model(PreTrainedModel):
    config_class = Config
class Reader:
    pass
"""


class Evil:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def names(**classes):
    """Makes a config name code of the folder for ``classes``."""
    return settings(auto_map=classes)


WAYS = {
    "a config of its own": (
        [settings(model_type="evil"), names(AutoConfig="code.Config")], "contains custom code",
    ),
    "a config of elsewhere": (
        [settings(model_type="evil"), names(AutoConfig="some/one--code.Config")], "some/one",
    ),
    "a model of its own": (
        [settings(model_type="vit"), names(AutoModelForSequenceClassification="code.Model")],
        "contains custom code",
    ),
    "a pickle": ([lambda to: pickled(Evil(to / "ran"))(to)], "Weights only load failed"),
    "a kernel": ([settings(attn_implementation=HUB)], f"'{HUB}' is a program on the Hub"),
    "a kernel, said otherwise": ([settings(_attn_implementation=HUB)], "is a program on the Hub"),
    "a kernel by part": ([settings(attn_implementation={"": HUB})], "is a program on the Hub"),
    "a kernel inside": (
        [settings(text_config={"_attn_implementation": HUB})], "is a program on the Hub",
    ),
    "experts": ([settings(_experts_implementation=HUB)], "_experts_implementation = "),
    "quantised weights": (
        [settings(quantization_config={"quant_method": "mxfp4"})], "as it was before its weights",
    ),
}  # fmt: skip
KNOWN = {  # Transformers has code for these, and ignores the folder's
    "a known config": [names(AutoConfig="code.Config")],
    "a known model": [names(AutoModelForSequenceClassification="code.Model")],
    "a tokenizer": [
        settings("tokenizer_config.json", auto_map={"AutoTokenizer": ["code.Reader"] * 2})
    ],
    "an adapter": [put("adapter_config.json", '{"base_model_name_or_path": "some/one"}')],
}


@pytest.fixture
def folder(checkpoint, tmp_path, alone):
    """Makes a folder with code of its own; afterwards that must not have run."""
    ran = tmp_path / "ran"

    def make(*changes):
        code = put("code.py", CODE.format(ran=str(ran)))
        return copy(checkpoint, tmp_path / "model", code, *changes)

    yield make
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.parametrize("command", ["explain", "audit"])
@pytest.mark.parametrize("way", WAYS)
def test_a_folder_that_needs_a_program_is_refused(run, folder, way, command):
    changes, says = WAYS[way]
    code, out, err = run(command, folder(*changes), SENTENCE)
    assert (code, out, err.count("error: ")) == (2, "", 1)
    assert says in err


@pytest.mark.parametrize("way", KNOWN)
def test_a_folder_whose_code_is_not_needed_is_loaded_without_it(run, folder, way, checkpoint):
    code, out, err = run("explain", folder(*KNOWN[way]), SENTENCE)
    assert (code, err) == (0, "")
    assert out == run("explain", checkpoint, SENTENCE)[1]


def test_the_code_of_an_image_processor_is_not_run(run, folder, tmp_path):
    path = folder()
    cases.family("vit", num_channels=3)[0].save_pretrained(path)
    ViTImageProcessorPil(size={"height": 6, "width": 6}).save_pretrained(path)
    evil = {"image_processor_type": "Evil", "auto_map": {"AutoImageProcessor": "code.Reader"}}
    settings("preprocessor_config.json", **evil)(path)
    code, _, err = run("audit", path)
    assert (code, err.count("error: ")) == (2, 1)


def test_honest_pickles_are_read(checkpoint, tmp_path, alone):
    first = models.load(str(checkpoint))
    again = copy(checkpoint, tmp_path / "model", pickled(first.model.state_dict()))
    assert models.load(str(again)).sha256 == first.sha256


# Texts on a terminal

CONTROLS = (
    "\x1b[31m\x1b]0;title\x07\x9b2J\x08\x7f\u202e\u2066"
    "\u061c\u2028\u2029\u200b\u200e\ufeff\xad\U000e0041"
)


def test_what_a_terminal_would_obey_is_shown(run, checkpoint, tmp_path, monkeypatch):
    labels = {str(n): f"{n}{CONTROLS}" for n in range(3)}
    folder = copy(checkpoint, tmp_path / f"m{CONTROLS[:5]}", settings(id2label=labels))
    loaded = models.load(str(folder))
    piece = f"piece{CONTROLS}"
    spelled = lambda ids: piece if isinstance(ids, int) else [piece] * len(ids)
    monkeypatch.setattr(loaded.tokenizer, "convert_ids_to_tokens", spelled)
    monkeypatch.setattr(models, "load", lambda *_, **__: loaded)
    code, out, err = run("explain", folder, SENTENCE)
    assert (code, err) == (0, "")
    assert "piece�[31m�]0;title" in out
    assert program.obeyed(out) == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", f"./{CONTROLS}", SENTENCE],
        ["report", CONTROLS],
        ["attribute", f"{CONTROLS}.txt"],
        ["prove", f"{CONTROLS}.py"],
    ],
)
def test_errors_show_it_too(run, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(*arguments)
    assert (code, err.count("error: ")) == (2, 1)
    assert program.obeyed(err) == ""


@pytest.mark.parametrize("arguments", [[CONTROLS], ["check", "a", CONTROLS], [f"--{CONTROLS}"]])
def test_errors_of_the_command_line_show_it_too(run, arguments):
    code, out, err = run(*arguments)
    assert (code, out, err.count("Error")) == (2, "", 1)
    assert program.obeyed(err) == ""


def test_the_log_warnings_and_bugs_show_it_too(run, small, tmp_path, capsys, monkeypatch):
    def broken(_):
        raise RuntimeError(f"bug{CONTROLS}")

    theorems.theorems().write(tmp_path)
    (tmp_path / f"taken{CONTROLS[:5]}.json").write_text("{}")
    code, out, err = run("report", tmp_path)
    assert (code, "taken�[31m.json is left out" in err) == (0, True)
    assert program.obeyed(out + err) == ""
    monkeypatch.setattr(report, "write", broken)
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    with pytest.raises(RuntimeError, match="bug") as caught:
        run("report", tmp_path)
    sys.excepthook(caught.type, caught.value, caught.tb)
    err = capsys.readouterr().err
    assert "bug�[31m" in err
    told = warnings.formatwarning(f"told{CONTROLS}", UserWarning, "file.py", 1)
    assert "told�[31m" in told
    assert program.obeyed(err + told) == ""


def test_what_a_file_of_rules_prints_is_shown(run, tmp_path):
    said = f"print({CONTROLS!r} * 2)\nimport os\nos.system('printf \"\\033[2J\"')\n"
    (tmp_path / "rules.py").write_text(said)
    code, out, err = run("prove", tmp_path / "rules.py")
    assert (code, out, err.count("error: ")) == (2, "", 1)
    assert "�[31m" in err
    assert "�[2J" in err
    assert program.obeyed(err) == ""


def test_markdown_shows_markup(run, small, tmp_path):
    evil = {"title": "<script>alert(1)</script>", "notes": ["![x](http://a.b/c.png)", "a\n# b"]}
    theorems.theorems().write(tmp_path)
    settings("theorems.json", **evil)(tmp_path)
    assert run("report", tmp_path)[0] == 0
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "### &lt;script&gt;alert(1)&lt;/script&gt;\n" in text
    assert "- ![x\\](http://a.b/c.png)\n- a # b\n" in text
    assert "script" not in program.Page(tmp_path / "report.html").tags
