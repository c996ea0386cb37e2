"""The command line: its output and files, and one message for an error that a user can mend."""

import inspect
import json
import re
import subprocess
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from axioms.extras import MissingLibrary, need
from benchmarks import cli
from benchmarks.sources import models
from numeric import explain_generation
from numeric.methods.catalogue import METHODS
from tests.support import program

SCRIPT = Path(sys.executable).with_name("lrp-axioms")


# explain


def numbers(out):
    """The table of tokens: [(token, relevance)]."""
    return re.findall(r"^(\S+) +([+-]\d\.\d{4}) *$", out, flags=re.MULTILINE)


def test_explain_prints_every_token_with_numbers_that_add_up(run):
    code, out, err = run("explain", "embedded", "A fine film.", "--method", "cp-lrp")
    assert (code, err) == (0, "")
    assert out.startswith("cp-lrp: why class 1, 'positive'?\n[CLS] a fine film . [SEP]\n")
    assert [token for token, _ in numbers(out)] == ["[CLS]", "a", "fine", "film", ".", "[SEP]"]
    flat = " ".join(out.split())
    logit, total, residual = map(
        float,
        re.search(
            r"Logit (\S+) = relevance of the tokens (\S+) \+ residual (\S+)\. ", flat
        ).groups(),
    )
    assert logit == pytest.approx(total + residual, abs=2e-4)
    assert total == pytest.approx(sum(float(value) for _, value in numbers(out)), abs=1e-3)
    (more,) = re.findall(r"The tokens received (\d+)% more than the logit", flat)
    assert int(more) == pytest.approx(100 * (total - logit) / logit, abs=0.51)
    flat = " ".join(run("explain", "embedded", "A fine film.")[1].split())
    (left,) = re.findall(r"(\d+)% of the logit did not reach the tokens", flat)
    logit, residual = map(float, re.search(r"Logit (\S+) .* residual (\S+)\. ", flat).groups())
    assert int(left) == pytest.approx(100 * residual / logit, abs=0.51)


def test_explain_a_chosen_class_and_leave_one_out(run):
    first = run("explain", "embedded", "a fine film", "--method", "loo", "--target", "0")[1]
    second = run("explain", "embedded", "a fine film", "--method", "loo", "--target", "1")[1]
    assert "loo: why class 0, 'negative'?" in first
    assert "loo: why class 1, 'positive'?" in second
    assert float(dict(numbers(second))["fine"]) > 0 > float(dict(numbers(first))["fine"])


def test_each_of_several_generated_texts_has_a_page(run, tmp_path):
    texts = "anna apple bert pen ; anna", "anna pen ; anna"
    code, *_ = run("explain", "embedded-lm", *texts, "--generate", 1, "--html", tmp_path / "a.html")
    assert code == 0
    pages = [(tmp_path / f"a-{n}.html").read_text("utf-8") for n in (1, 2)]
    made = f"Model embedded-lm; method attnlrp; made by lrp-axioms {version('lrp-axioms')} on "
    assert all(made in page for page in pages)
    assert ["bert" in page for page in pages] == [True, False]


def test_a_class_without_a_name_is_its_number(run, checkpoint):
    out = run("explain", checkpoint, "a fine film", "--target", "0")[1]
    assert out.startswith("attnlrp: why class 0?\n")


def test_rollout_is_not_called_a_share_of_the_logit(run):
    out = run("explain", "embedded", "a fine film", "--method", "attention-rollout")[1]
    assert sum(float(value) for _, value in numbers(out)) == pytest.approx(1, abs=1e-3)
    assert "not logits" in out
    assert "residual" not in out
    assert out.startswith("attention-rollout: where the model attends\n")
    assert "Red: the larger share of attention." in out
    assert "class" not in out


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"attention-rollout"}))
def test_beside_the_residual_stands_what_the_method_conserves(run, method):
    out = " ".join(run("explain", "embedded", "a fine film", "--method", method)[1].split())
    says = METHODS[method].conserves
    verb = {"yes": "conserves", "no": "does not conserve"}[re.match("yes|no", says)[0]]
    assert f"{method} {verb} relevance" in out
    reason = re.sub("^(yes|no)[:,]?( but)? ?", "", says)
    assert f"{reason}." in out


def test_a_page_says_of_what_and_with_what_it_was_made(run, tmp_path):
    page, program_version = tmp_path / "a.html", version("lrp-axioms")
    texts = "a fine film", "dull"
    files = "--html", page, "--png", tmp_path / "a.png"
    run("explain", "embedded", *texts, "--method", "loo", "--budget", 3, *files)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["a-1.png", "a-2.png", "a.html"]
    words = " ".join(program.Page(page).words.split())
    said = re.search(
        r"Model embedded; method loo \((.+)\); made by lrp-axioms (\S+) on (\S+)\.$", words
    )
    assert "budget 3" in said[1].split(", ")
    assert (said[2], date.fromisoformat(said[3])) == (program_version, date.today())
    assert re.findall(r"(\d)\. loo: why class (\d)", words) == [("1", "1"), ("2", "0")]


NASTY = "<script>alert(1)</script> [bold]fine[/bold] & [/] 映画 🎬 \\"


def test_markup_in_a_text_is_shown_and_not_obeyed(run, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = run("explain", "embedded", NASTY, "--html", page)
    assert code == 0
    assert "read as [UNK]: '映', '画', '🎬'; `lrp-axioms vocabulary embedded` prints" in err
    assert "< script > alert ( 1 ) < / script > [ bold ] fine [ / bold ] & [ / ]" in out
    html = program.Page(page)
    assert "script" not in html.tags
    assert "<script" not in page.read_text(encoding="utf-8")
    assert html.loads == []
    assert html.words.count("script") == 4  # twice in the sentence, twice in the table


def test_wide_letters_survive_in_terminal_and_page(run, tmp_path, monkeypatch):
    """The embedded vocabulary has no such letters; this one spells its pieces with them."""
    loaded, odd = models.load(), ["映画", "🎬", "[bold]", "<b>"]
    ids = loaded.tokenizer("a fine film .")["input_ids"]
    spelled = dict(zip(ids, [*odd, ".", "."], strict=True))
    read = lambda ids: [spelled[x] for x in ids] if type(ids) is list else spelled[ids]
    monkeypatch.setattr(loaded.tokenizer, "convert_ids_to_tokens", read)
    monkeypatch.setattr(models, "load", lambda *_, **__: loaded)
    page = tmp_path / "page.html"
    code, out, _ = run("explain", "embedded", "a fine film .", "--html", page)
    assert code == 0
    for token in odd:
        assert token in [shown for shown, _ in numbers(out)]
        assert program.Page(page).words.count(token) == 2
    assert "b" not in program.Page(page).tags


def test_help_names_every_method(run):
    flat = "".join(run("explain", "--help")[1].split())
    assert all(method in flat for method in METHODS)


def test_no_sentence_of_a_help_is_broken_in_its_middle():
    """Typer keeps the line breaks of all paragraphs but the first."""
    kept = {}
    for each in cli.app.registered_commands:
        later = inspect.cleandoc(each.callback.__doc__).split("\n\n")[1:]
        kept[each.callback.__name__] = [line for x in later for line in x.splitlines()]
    assert "reproduce" in kept
    assert [line for lines in kept.values() for line in lines if not line.endswith(".")] == []
    assert all(len(line) < 79 for lines in kept.values() for line in lines)


# Refusals

SENTENCE = ("explain", "embedded", "a fine film")


@pytest.mark.parametrize("error", [KeyError("rows"), TypeError("our mistake"), IndexError("3")])
def test_a_mistake_of_the_program_keeps_its_traceback(monkeypatch, error):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(models, "load", broken)
    monkeypatch.setattr(sys, "argv", ["lrp-axioms", *SENTENCE])
    with pytest.raises(type(error)):
        cli.main()


def test_a_long_text_without_a_model_is_a_text(run):
    text = "a fine film " * 30
    code, out, _ = run("explain", text.strip(), "--json")
    assert code == 0
    assert json.loads(out)["model"] == "embedded"
    code, _, err = run("explain", text, "dull")
    assert code == 2
    assert "is no model, and several texts need one before them" in " ".join(err.split())


class OfALibrary(MemoryError):
    """As numpy and pyarrow raise their own."""


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory."), OfALibrary()])
def test_full_memory_is_told_as_such(run, monkeypatch, error):
    def full(*_, **__):
        raise error

    monkeypatch.setattr(models, "load", full)
    code, _, err = run(*SENTENCE)
    assert code == 2
    assert "error: the memory is full" in " ".join(err.split())


# prove


def test_prove_prints_statements_and_fails_when_one_is_not_established(run, small):
    code, out, err = run("prove")
    assert (code, err) == (0, "")
    assert "One [b]is[/b] two." in out
    assert out.index("refuted") < out.index("proved")  # in order of number
    assert "1 and 2" in out
    assert "Of 2 statements about LRP rules: 1 proved, 1 refuted." in out
    (small / "test_more.py").write_text(program.HEAD + program.FAILS)
    code, out, err = run("prove")
    assert code == 1
    assert "not established" in out
    assert "assert 2 == 3" in err
    code, out, err = run("prove", "--quiet")
    assert (code, out) == (1, "")
    assert "assert 2 == 3" in err
    code, out, _ = run("prove", "--json")
    assert code == 1
    assert [row["verdict"] for row in json.loads(out)["theorems"]].count("not established") == 1


def test_the_installed_program_keeps_other_libraries_quiet_about_a_long_text(tmp_path):
    done = subprocess.run(
        [SCRIPT, "explain", "embedded", "film " * 600], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: the text has 602 tokens")
    assert done.stderr.count("\n") == 1


def test_a_given_answer_and_a_users_message_are_explained_as_in_python(run, tmp_path):
    lm, text = models.load("embedded-english"), "Anna put the key in the box . The key is in the"
    code, out, _ = run("explain", "embedded-english", text, "--answer", "box .", "--json")
    assert code == 0
    (one,) = json.loads(out)["texts"]
    found = explain_generation(lm.model, lm.tokenizer, text, answer="box .")
    assert one["written"] == "".join(found.written)
    assert one["relevance"] == pytest.approx(found.relevance.numpy())
    lm.tokenizer.chat_template = "{% for m in messages %}{{ m.content }} . {% endfor %}"
    lm.model.save_pretrained(tmp_path)
    lm.tokenizer.save_pretrained(tmp_path)
    chat = ("explain", tmp_path, "Anna is hungry", "--generate", 2, "--chat", "--json")
    (one,) = json.loads(run(*chat)[1])["texts"]
    message = [{"role": "user", "content": "Anna is hungry"}]
    found = explain_generation(lm.model, lm.tokenizer, message, max_new_tokens=2)
    assert one["tokens"] == list(found.tokens)
    assert one["relevance"] == pytest.approx(found.relevance.numpy())
    (one,) = json.loads(run(*chat, "--by", "segment")[1])["texts"]
    assert one["segments"] == list(found.by("segment").segments)
    lm.tokenizer.chat_template = "{% for m in messages %}{{ m.content | lower }}{% endfor %}"
    lm.tokenizer.save_pretrained(tmp_path)
    code, _, err = run(*chat, "--by", "segment")
    says = "--by segment: no part of the text has a name; name it by --segment, or pass one of "
    assert (code, json.loads(err)["error"]["message"]) == (2, f"{says}word, sentence")


def test_a_folder_of_a_library_s_name_is_no_library(tmp_path, monkeypatch):
    (tmp_path / "no_library").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingLibrary, match="serve needs no_library, not installed here"):
        need("serve", "no_library", "pytest", extra="app")
    (tmp_path / "no_library" / "__init__.py").touch()
    need("serve", "no_library", "pytest", extra="app")
