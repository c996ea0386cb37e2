"""All commands share a summary of one screen, data, quiet, exit codes, and completion."""

import io
import json
import re
import shutil
import subprocess
import sys
import types
from functools import cache
from pathlib import Path

import pytest

from benchmarks import names
from benchmarks.commands import output
from benchmarks.commands.explained import unknown
from benchmarks.experiments.causes import measure
from benchmarks.sources import data, models
from numeric import explain
from tests.commands.test_evaluate_command import in_file

PAGE = Path(__file__).parents[2] / "docs" / "COMMANDS.md"
LONG = "a fine film with a weak end and " * 20
COMMANDS = {
    "explain": ["embedded", LONG],
    "explain --generate": ["embedded-lm", "anna apple bert pen ; " * 5, "--generate", 30],
    "interactions": ["embedded", "The plot is thin , but the acting is a quiet joy ."],
    "audit": ["embedded", LONG],
    "plan": ["embedded"],
    "prove": [],
    "search": ["product", "conservation, commute products"],
    "check": ["certificates"],
    "methods": [],
    "vocabulary": ["embedded"],
    "attribute": ["texts.txt"],
    "evaluate": ["maps.parquet", "--measure", "r"],
    "reproduce": ["special", "--examples", 2],
    "report": ["results"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch, small, run, name):
    """Where the command can run; all calls of a test share a model, which they leave as it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(models, "load", cache(models.load))
    (tmp_path / "texts.txt").write_text("a fine film\ndull\n")
    in_file(tmp_path, {"text": ["dull film"], "relevance": [[0.1, 0.2, 0.3, 0.0]]})
    if name == "report":
        assert run("reproduce", "theorems")[0] == 0
    if name == "check":
        assert run("prove", "--certificates", "certificates")[0] == 0
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_fits_a_screen_is_silent_and_prints_the_object_of_the_page(run, folder, name):
    call = [name.split()[0], *COMMANDS[name]]
    code, out, err = run(*call)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) <= output.LINES
    assert not lines[0].startswith("--full")  # a hint alone says nothing
    with_paths = re.compile("wrote |datasets[.]")
    assert not [x for x in lines if len(x.rstrip()) > 80 and not with_paths.search(x)]
    assert run(*call, "--quiet") == (0, "", "")
    code, out, err = run(*call, "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    found = json.loads(out, parse_constant=pytest.fail)
    assert found["command"] == name.split()[0]
    documented = re.search(rf"^\| `{re.escape(name)}` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    keys = re.findall(r"`([a-z_]+)`", documented[1].partition(";")[0])
    assert set(found) == {"command", "version", "notes", *keys}


@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_an_error_in_a_certificate_is_told_even_if_nothing_else_is(run, tmp_path, small, option):
    folder = tmp_path / "certificates"
    assert run("prove", "--certificates", folder)[0] == 0
    next(x for x in folder.glob("*.json") if x.name != "index.json").unlink()
    code, out, err = run("check", folder, option)
    told, silent = (err, out) if option == "--quiet" else (out, err)
    assert (code, silent) == (1, "")
    assert "index.json: ValueError: it does not list every file once" in told


def test_everything_is_printed_when_it_is_asked_for(run, loaded):
    short, full = (run("audit", "embedded", "a fine film", *x)[1] for x in ((), ("--full",)))
    assert "--full prints everything" in short
    assert len(full.splitlines()) > 100
    _, out, _ = run("explain", "embedded", LONG, "--full")
    assert len(re.findall(r"^film +[+-]", out, re.MULTILINE)) == 20
    _, out, _ = run("explain", "embedded", LONG)
    a = explain(loaded.model, loaded.tokenizer, LONG)
    top = sorted(a.lines(0), key=lambda line: -abs(line[2]))[:8]
    assert re.findall(r"^(\d+) +(\S+) +([+-]\d\.\d{4})$", out, re.MULTILINE) == [
        (str(n), token, f"{value:+z.4f}") for n, token, value in sorted(top)
    ]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (["explain", "embedded", "a film", "--method", "cplrp"], "did you mean 'cp-lrp'?"),
        (["explain", "embedded", "a film", "--methd", "loo"], "No such option: --methd"),
        (["plan"], "Missing argument 'model'"),
        (["magic"], "No such command 'magic'"),
    ],
)
def test_with_json_an_error_is_an_object_on_stderr_and_the_code_is_2(run, call, says):
    code, out, err = run(*call, "--json")
    assert (code, out) == (2, "")
    error = json.loads(err)["error"]
    assert (says in error["message"], error["exit_code"]) == (True, 2)
    code, out, err = run(*call, "--quiet")
    assert (code, out) == (2, "")
    assert says.split("'")[0] in " ".join(err.split())


def test_the_version_is_printed(run):
    assert re.fullmatch(r"lrp-axioms \d+\.\d+\.\d+\n", run("--version")[1])


def test_h_gives_the_help_of_every_command_with_the_exit_codes(run):
    for command in ([], ["explain"], ["prove"], ["reproduce"]):
        assert run(*command, "-h") == run(*command, "--help")
        assert "130 interrupted" in " ".join(run(*command, "-h")[1].split())


# explain


@pytest.mark.parametrize(
    ("options", "model"),
    [([], "embedded"), (["--generate", 2], "embedded-lm"), (["--span", "2:4"], "embedded-lm")],
)
def test_without_a_model_an_embedded_one_is_used_and_named(run, options, model):
    code, out, err = run("explain", *options, "anna apple bert")
    assert code == 0
    assert f"note: no model is given: {model} is used\n" in err
    assert run("explain", model, *options, "anna apple bert")[1] == out


def test_lines_of_standard_input_are_explained_as_texts_are(run, monkeypatch, loaded):
    texts = ["a fine film", "dull", "a quiet joy"]
    given = io.TextIOWrapper(io.BytesIO("\n".join(texts).encode()))
    monkeypatch.setattr(sys, "stdin", given)
    piped = json.loads(run("explain", "embedded", "-", "--json")[1])
    assert piped == json.loads(run("explain", "embedded", *texts, "--json")[1])
    for facts, text in zip(piped["texts"], texts, strict=True):
        a = explain(loaded.model, loaded.tokenizer, text)
        assert facts["relevance"] == a.relevance[0].tolist()
        assert (facts["text"], facts["tokens"]) == (text, list(a.tokens[0]))
    for raw, says in (
        (b"", "standard input is empty"),
        (b"fine\n\xff", "line 2 is not UTF-8"),
        (b"\n \n", "standard input is empty"),
        (b"fine\na\0b", "line 2: a NUL"),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        assert says in run("explain", "embedded", "-")[2]
    monkeypatch.setattr(sys, "stdin", None)
    code, _, err = run("explain", "embedded", "-")
    assert (code, err) == (2, "error: standard input is closed; pass one text per line\n")


def test_blank_lines_of_standard_input_are_skipped_and_noted(run, monkeypatch):
    given = io.TextIOWrapper(io.BytesIO(b"a good film\n\ndull\n  \n"))
    monkeypatch.setattr(sys, "stdin", given)
    code, out, err = run("explain", "embedded", "-")
    says = "blank lines of standard input are skipped, and not counted: 2, 4"
    assert (code, err) == (0, f"note: {says}\n")
    assert out == run("explain", "embedded", "a good film", "dull")[1]


def test_many_texts_fit_a_screen_and_those_left_out_are_counted(run):
    out = run("explain", "embedded", *["a fine film"] * 15)[1]
    assert out.count("[CLS] a fine film [SEP]") == 10
    assert "5 more texts" in out


@pytest.mark.parametrize("last", [[], ["--generate", 1]])
def test_a_text_beyond_what_rotary_positions_were_made_for_is_noted(run, last):
    code, _, err = run("explain", "embedded-lm", "anna " * 80, *last)
    assert (code, err) == (0, "note: the text has 81 tokens, and the model was made for 64\n")
    assert run("explain", "embedded-lm", "anna " * 63, *last)[2] == ""


def test_words_that_no_token_stands_for_are_named(run, lm):
    err = run("explain", "embedded-lm", "anna zebra bert <unk> yak zebra")[2]
    assert err == (
        "note: unknown to the tokenizer, and read as <unk>: 'zebra', 'yak'; "
        "`lrp-axioms vocabulary embedded-lm` prints what it knows\n"
    )
    tokenizer = lm.tokenizer
    assert "anna" in run("vocabulary", "embedded-lm")[1].split()
    slow = types.SimpleNamespace(
        is_fast=False, unk_token_id=tokenizer.unk_token_id, tokenize=str.split,
        convert_tokens_to_ids=tokenizer.convert_tokens_to_ids,
    )  # fmt: skip
    assert unknown(slow, "anna zebra") == ["zebra"]


# reproduce causes --model


def test_causes_are_asked_of_the_model_that_is_given(tmp_path):
    loaded = models.load("embedded-lm")
    folder = tmp_path / "mine"
    loaded.model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    assert measure.language_model(models.load(str(folder))) == str(folder)
    assert measure.language_model(models.load("embedded")) == "embedded-lm"
    (task, *_), (distance, *_) = measure.TASKS, measure.DISTANCES
    own, embedded = (measure.cell(1, x, (task, distance)) for x in (str(folder), "embedded-lm"))
    assert own["attnlrp relevance"] == embedded["attnlrp relevance"]
    with_other = models.load(str(folder))
    with_other.model.lm_head.weight.data.neg_()
    with_other.model.save_pretrained(folder)
    measure._model.cache_clear()
    assert measure.cell(1, str(folder), (task, distance))["right"] != own["right"]


# Names and completion


def test_names_for_help_are_those_that_the_program_knows():
    assert tuple(models.EMBEDDED) == names.MODELS
    assert tuple(data.DATASETS) == names.DATASETS


COMPLETED = {
    "lrp-axioms expl": ["explain"],
    "lrp-axioms explain embedded film --method c": ["cp-lrp"],
    "lrp-axioms audit em": list(names.MODELS),
    "lrp-axioms reproduce fig": ["figure2"],
    "lrp-axioms methods --j": ["--json"],
}


@pytest.mark.skipif(not shutil.which("bash"), reason="completion is of bash")
def test_bash_completes_commands_methods_models_tables_and_options():
    """By the script that `lrp-axioms --show-completion bash` installs."""
    script = f"""
        PATH={Path(sys.executable).parent}:$PATH
        eval "$(_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1 lrp-axioms --show-completion bash)"
        for line in "$@"; do
            COMP_WORDS=($line); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            $(complete -p lrp-axioms | sed 's/.*-F \\([^ ]*\\) .*/\\1/') lrp-axioms
            echo "${{COMPREPLY[@]}}"
        done
    """
    command = ["bash", "-c", script, "bash", *COMPLETED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = map(str.split, done.stdout.splitlines())
    assert dict(zip(COMPLETED, found, strict=True)) == COMPLETED
