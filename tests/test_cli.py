"""The command line: what it prints and writes, and one message for what a user can mend."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from benchmarks import cli, data, models, report, reproduce, tables, text, timing
from numeric.attribution import METHODS

SCRIPT = Path(sys.executable).with_name("lrp-axioms")
HEAD = "import pytest\n\n"
HOLDS = '@pytest.mark.theorem(2, "One is one.", "proved")\ndef test_one():\n    assert 1 == 1\n'
REFUTES = (
    '@pytest.mark.theorem(1, "One [b]is[/b] two.", "refuted")\n'
    "def test_two(record_property):\n"
    '    record_property("witness", "1 and 2")\n'
)
FAILS = '@pytest.mark.theorem(3, "Two is three.", "proved")\ndef test_three():\n    assert 2 == 3\n'
ALL = (".json", ".parquet", ".png")
FILES = {"table1": ALL, "table2": ALL, "figure2": ALL}
FILES |= {"theorems": (".json",), "time": (".json", ".png")}


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the program: exit code, stdout, stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["lrp-axioms", *map(str, arguments)])
        for library in ("TRANSFORMERS", "HF_HUB", "DATASETS"):
            monkeypatch.setenv(f"{library}_VERBOSITY", "error")
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return run


@pytest.fixture
def small(monkeypatch, tmp_path_factory):
    """The whole job with two theorems, ten digits after one epoch, and two lengths to time."""
    folder = tmp_path_factory.mktemp("theorems")
    (folder / "test_few.py").write_text(HEAD + HOLDS + REFUTES)
    monkeypatch.setattr(reproduce, "theorems", partial(reproduce.theorems, folder=folder))
    monkeypatch.setattr(
        reproduce, "table1", partial(reproduce.table1, seeds=(0,), epochs=1, count=10)
    )
    timed = partial(timing.lrp_versus_loo, lengths=(4, 8), repeats=1)
    monkeypatch.setattr(timing, "lrp_versus_loo", timed)
    return folder


class Page(HTMLParser):
    """What a page loads, its headings, and its text."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.ids, self.tags, self.words = [], set(), [], ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.ids.add(attrs.get("id"))
        self.loads += [
            attrs[key] for key in ("src", "href", "srcset", "data", "action") if attrs.get(key)
        ]

    def handle_data(self, data):
        self.words += data


# explain


def numbers(out):
    """The table of tokens: [(token, relevance)]."""
    return re.findall(r"^(\S+) +([+-]\d\.\d{4}) *$", out, flags=re.MULTILINE)


def test_explain_prints_every_token_with_numbers_that_add_up(run):
    code, out, err = run("explain", "embedded", "A fine film.", "--method", "cp-lrp")
    assert (code, err) == (0, "")
    assert out.startswith("cp-lrp: why 'positive'?\n[CLS] a fine film . [SEP]\n")
    assert [token for token, _ in numbers(out)] == ["[CLS]", "a", "fine", "film", ".", "[SEP]"]
    flat = " ".join(out.split())
    logit, total, residual = map(
        float,
        re.search(r"Logit (\S+) = relevance of the tokens (\S+) \+ residual (\S+) ", flat).groups(),
    )
    assert logit == pytest.approx(total + residual, abs=2e-4)
    assert total == pytest.approx(sum(float(value) for _, value in numbers(out)), abs=1e-3)


def test_explain_a_chosen_class_and_leave_one_out(run):
    first = run("explain", "embedded", "a fine film", "--method", "loo", "--target", "0")[1]
    second = run("explain", "embedded", "a fine film", "--method", "loo", "--target", "1")[1]
    assert "loo: why 'negative'?" in first
    assert "loo: why 'positive'?" in second
    assert float(dict(numbers(second))["fine"]) > 0 > float(dict(numbers(first))["fine"])


def test_rollout_is_not_called_a_share_of_the_logit(run):
    out = run("explain", "embedded", "a fine film", "--method", "attention-rollout")[1]
    assert sum(float(value) for _, value in numbers(out)) == pytest.approx(1, abs=1e-3)
    assert "not logits" in out
    assert "residual" not in out


NASTY = "<script>alert(1)</script> [bold]fine[/bold] & [/] 映画 🎬 \\"


def test_markup_in_a_text_is_shown_and_not_obeyed(run, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = run("explain", "embedded", NASTY, "--html", page)
    assert (code, err) == (0, "")
    assert "< script > alert ( 1 ) < / script > [ bold ] fine [ / bold ] & [ / ]" in out
    html = Page(page)
    assert "script" not in html.tags
    assert "<script" not in page.read_text(encoding="utf-8")
    assert html.loads == []
    assert html.words.count("script") == 4  # twice in the sentence, twice in the table


def test_wide_letters_survive_in_terminal_and_page(run, tmp_path, monkeypatch):
    """The embedded vocabulary has no such letters; this one spells its pieces with them."""
    loaded, odd = models.load(), ["映画", "🎬", "[bold]", "<b>"]
    monkeypatch.setattr(loaded.tokenizer, "convert_ids_to_tokens", lambda _: [*odd, ".", "."])
    monkeypatch.setattr(models, "load", lambda *_, **__: loaded)
    page = tmp_path / "page.html"
    code, out, _ = run("explain", "embedded", "a fine film .", "--html", page)
    assert code == 0
    for token in odd:
        assert token in [shown for shown, _ in numbers(out)]
        assert Page(page).words.count(token) == 2
    assert "b" not in Page(page).tags


def test_help_names_every_method(run):
    flat = "".join(run("explain", "--help")[1].split())
    assert all(method in flat for method in METHODS)


# Refusals

SENTENCE = ("explain", "embedded", "a fine film")
WRONG = {
    "an unknown method": ([*SENTENCE, "--method", "magic"], "unknown method 'magic'.*cp-lrp"),
    "an unknown class": ([*SENTENCE, "--target", "2"], "target .2. out of range.*0 to 1"),
    "an empty text": (["explain", "embedded", " "], "empty text ' '"),
    "a long text": (["explain", "embedded", "film " * 600], "602 tokens is longer.*512"),
    "an unknown device": ([*SENTENCE, "--device", "nonsense"], "'nonsense' is not available"),
    "a device without data": ([*SENTENCE, "--device", "meta"], "'meta' is not available"),
    "no model": (["explain", "./nowhere", "a fine film"], "'./nowhere' does not exist"),
    "no folder for the page": (
        [*SENTENCE, "--html", "no/x.html"],
        "--html no/x.html: there is no folder no; make it first",
    ),
    "no example": (["reproduce", "--examples", "0"], "examples=0: pass at least 1"),
    "an unknown data set": (["reproduce", "--dataset", "sst3"], "embedded, sst2, imdb"),
    "a folder for nothing": (["reproduce", "--data-dir", "."], "--data-dir . would be ignored"),
    "no data folder": (
        ["reproduce", "--dataset", "sst2", "--data-dir", "nowhere"],
        "--data-dir nowhere: no such folder",
    ),
    "a file for output": (["reproduce", "--output", "taken"], "--output taken: File exists"),
    "a file above output": (["reproduce", "--output", "taken/x"], "--output taken/x: Not a dir"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_user_can_mend_is_one_message_and_exit_code_2(run, tmp_path, monkeypatch, name):
    arguments, says = WRONG[name]
    (tmp_path / "taken").write_text("mine")
    monkeypatch.chdir(tmp_path)
    code, _, err = run(*arguments)
    assert code == 2
    assert err.count("error:") == 1
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert re.search(says, err)
    assert sorted(p.name for p in tmp_path.iterdir()) in (["taken"], ["results", "taken"])
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize("error", [KeyError("rows"), TypeError("our mistake"), IndexError("3")])
def test_a_mistake_of_the_program_keeps_its_traceback(monkeypatch, error):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(models, "load", broken)
    monkeypatch.setattr(sys, "argv", ["lrp-axioms", *SENTENCE])
    with pytest.raises(type(error)):
        cli.main()


# prove


def test_prove_prints_statements_and_fails_when_one_is_not_established(run, small):
    code, out, err = run("prove")
    assert (code, err) == (0, "")
    assert "One [b]is[/b] two." in out
    assert out.index("refuted") < out.index("proved")  # in order of number
    assert "1 and 2" in out
    assert "Of 2 statements about LRP rules: 1 proved, 1 refuted." in out
    (small / "test_more.py").write_text(HEAD + FAILS)
    code, out, err = run("prove")
    assert code == 1
    assert "not established" in out
    assert "assert 2 == 3" in err


# reproduce


def test_reproduce_writes_everything_twice_the_same(run, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = tmp_path / "first" / "deep", Path("second")
    code, out, err = run("reproduce", "--examples", 3, "--output", first)
    assert (code, err) == (0, "")
    assert str(first / "report.html") in out
    assert max(len(line.rstrip()) for line in out.splitlines() if str(first) not in line) <= 80
    assert run("reproduce", "--examples", 3, "--output", second)[0] == 0
    expected = {f"{name}{end}" for name, ends in FILES.items() for end in ends} | {"report.html"}
    for folder in (first, second):
        assert {path.name for path in folder.iterdir()} == expected
    for name in FILES:
        mine, other = (strict_json(folder / f"{name}.json") for folder in (first, second))
        check_record(mine, name)
        if name != "time":
            assert without_time(mine) == without_time(other)
    for path in first.glob("*.parquet"):
        assert pq.read_table(path).equals(pq.read_table(second / path.name)), path.name
    check_examples(pq.read_table(first / "table2.parquet").to_pydict())
    for path in first.glob("*.png"):
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("L"))
        assert pixels.shape[1] >= 800
        assert pixels.min() < 80
        assert pixels.max() == 255
    check_report(first / "report.html")


def strict_json(path):
    def refuse(literal):
        raise ValueError(f"{path.name} has {literal}")

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def check_record(record, name):
    assert record["name"] == name
    assert record["rows"]
    assert record["settings"]
    assert {"date", "python", "torch", "lrp-axioms", "threads"} <= set(record["provenance"])
    if name in ("table2", "figure2"):
        assert record["settings"]["examples"] == 3
        assert record["settings"]["model_sha256"] == models.load().sha256
        assert len(record["settings"]["dataset_sha256"]) == 64


def without_time(record):
    rows = [{key: row[key] for key in row if key != "seconds"} for row in record["rows"]]
    return {"rows": rows} | {key: record[key] for key in ("settings", "notes", "title")}


def check_examples(columns):
    assert sorted(columns["example"]) == sorted([0, 1, 2] * 5)
    assert {"method", "r all", "r content", "LeRF", "MoRF", "logit", "target"} <= set(columns)


def check_report(path):
    page = Page(path)
    assert page.loads
    assert all(url.startswith(("#", "data:image/png;base64,")) for url in page.loads)
    assert "url(" not in path.read_text(encoding="utf-8")
    assert "script" not in page.tags
    assert set(FILES) <= page.ids
    assert page.tags.count("img") == 4
    assert page.tags.count("table") == 5
    assert "One [b]is[/b] two." in page.words
    assert "Of 2 statements about LRP rules: 1 proved, 1 refuted." in page.words
    assert "With fewer than 20 texts" in page.words
    assert "Provenance" in page.words


def test_undefined_numbers_are_null_in_json_and_a_dash_on_the_page(tmp_path, capsys):
    """Texts of one word have no correlation over content tokens."""
    classifier = models.load()
    texts = data.Texts("words", ("film", "dull"), (1, 0), "invented", "SST", 1)
    result = text.table2(classifier, texts, text.groups(classifier, texts))
    result.write(tmp_path)
    (row, *_) = strict_json(tmp_path / "table2.json")["rows"]
    assert row["r content"] is None
    assert row["r content undefined"] == 2
    assert any("r content undefined in up to 2 examples" in note for note in result.notes)
    (tmp_path / "report.html").write_text(report.render([result]), encoding="utf-8")
    words = Page(tmp_path / "report.html").words
    cli.console.print(tables.terminal(result))
    assert "– over content tokens" in words
    for shown in (words, capsys.readouterr().out, " ".join(result.notes)):
        assert not re.search(r"\bnan\b", shown)


def test_the_installed_program_runs_from_another_directory(tmp_path):
    done = subprocess.run(
        [SCRIPT, *SENTENCE], cwd=tmp_path, env=os.environ, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "attnlrp: why 'positive'?" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_installed_program_keeps_other_libraries_quiet_about_a_long_text(tmp_path):
    done = subprocess.run(
        [SCRIPT, *WRONG["a long text"][0]], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: text of 602 tokens")
    assert done.stderr.count("\n") == 1
