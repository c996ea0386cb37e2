"""Every block of code on a page runs as it stands, or a table here says why it does not."""

import re
import shlex
import tomllib
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

import datasets
import pandas as pd
import pytest
import typer
from markdown_it import MarkdownIt

from benchmarks.cli import app
from tests.support.theorems import FILES, claims

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
OTHER = ("CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/assets/README.md")
PAGES = [README, *map(ROOT.joinpath, OTHER), *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

NOT_RUN = {
    "lrp-axioms * Qwen/*": "the model is on the Hub",
    "lrp-axioms explain TAGGER *": "stands for a model of the reader's own",
    "lrp-axioms audit path/to/vit *": "stands for a model of the reader's own",
    "lrp-axioms prove": "test_theorems.py runs all proofs",
    "lrp-axioms prove --certificates *": "test_theorems.py writes the certificates of all proofs",
    "lrp-axioms check certificates": "needs the certificates of the command above it",
    "lrp-axioms prove docs/my_rules.py": "takes seconds; test_user_rule_files.py judges its rules",
    "lrp-axioms prove docs/literature_rules.py*": "takes a minute; test_literature.py runs a part",
    "python -m website.literature*": "test_literature.py compares what it writes",
    "lrp-axioms reproduce*": "takes minutes or hours; test_reproduce.py runs a short one",
    "lrp-axioms serve*": "serves until it is stopped; test_serve.py asks it",
    "lrp-axioms report results": "needs the results of the command above it",
    "lrp-axioms * --engine ray*": "needs Ray; test_engines.py runs it where there is Ray",
    "lrp-axioms attribute s3://*": "stands for a URL of the reader's own",
    "lrp-axioms attribute hub:*": "the data set is on the Hub",
}
"""Beginnings of blocks and commands that are parsed alone: why they do not run here."""

ELSEWHERE = {"docs/TOOLS.md": "test_tools.py runs it, with the libraries that are there"}

GIVEN = {
    "docs/AUDIT.md": "",
    "docs/LAYERS.md": "",
    "docs/POSITIONS.md": "",
    "docs/LONG_TEXTS.md": "document_of = sentence_of = 0 * inputs['input_ids']",
    "docs/EVALUATE.md": "",
}
"""Page -> names of a reader's own, after the first block of docs/EXPLAIN.md."""

REVIEWS = ["A quiet, warm play.", "The lift was slow.", "Nobody laughed."]


def blocks(page):
    """Language, code and line of every block, also inside lists."""
    for token in MarkdownIt().parse(page.read_text("utf-8")):
        if token.type in ("fence", "code_block"):
            yield token.info, token.content, token.map[0] + 1


def reason(code):
    return next((why for start, why in NOT_RUN.items() if fnmatch(code, start)), None)


def commands(code):
    for line in code.splitlines():
        if words := shlex.split(line, comments=True):
            yield words


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Makes a folder of the files that pages name: the repository's, and texts of a reader."""
    for name in ("benchmarks", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "reviews.txt").write_text("\n".join(REVIEWS))
    texts = pd.DataFrame({"review": REVIEWS})
    texts.to_csv(tmp_path / "reviews.csv", index=False)
    texts.to_parquet(tmp_path / "reviews.parquet")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(name):
    """The names that a page has before its first block."""
    namespace = {}
    if name in GIVEN:
        first = next(code for language, code, _ in blocks(ROOT / "docs" / "EXPLAIN.md"))
        exec(first, namespace)
        exec(GIVEN[name], namespace)
    return namespace


@pytest.mark.parametrize("name", NAMES)
def test_the_code_of_a_page_runs(name, here, run, capsys):
    namespace = start(name)
    for language, code, line in blocks(ROOT / name):
        place = f"{name}:{line}"
        assert language in ("python", "sh", "text", "diff"), f"{place}: say what the block is"
        if language == "python":
            source = compile(code, place, "exec")
            if not (name in ELSEWHERE or reason(code)):
                exec(source, {} if name == "README.md" else namespace)
        capsys.readouterr()
        for words in commands(code) if language == "sh" else ():
            CHECKED[words[0]](words[1:], run)


def lrp_axioms(words, run):
    if reason(shlex.join(["lrp-axioms", *words])) is None:
        code, _, err = run(*words)
        assert [line for line in err.splitlines() if not line.startswith("note: ")] == []
        assert code == 0, words
    else:
        group = typer.main.get_command(app)
        name, command, rest = group.resolve_command(typer.Context(group), words)
        command.make_context(name, rest)  # raises if the command refuses the options


def make(words, run):
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert words[0] in targets


def pip(words, run):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (extra,) = re.findall(r"\.\[(\w+)\]", words[-1])
    assert extra in extras["optional-dependencies"]
    assert words[:3] == ["install", "--constraint", "constraints.txt"]


def python(words, run):
    assert words[0] == "-m"
    assert find_spec(words[1])


CHECKED = {
    "lrp-axioms": lrp_axioms,
    "make": make,
    "pip": pip,
    "python": python,
    "source": lambda words, run: None,  # the path that make setup makes
}


def test_every_reason_is_about_a_block():
    found = [code for page in PAGES for language, code, _ in blocks(page) if language == "python"]
    shells = [code for page in PAGES for language, code, _ in blocks(page) if language == "sh"]
    found += [shlex.join(words) for code in shells for words in commands(code)]
    assert not [start for start in NOT_RUN if not any(fnmatch(code, start) for code in found)]


NUMBERS = ("FINDINGS", "CAUSES", "SPEED", "MODELS", "INTERACTIONS")
"""Pages that have the numbers of README."""

PRINTED = {
    "README.md": ("embedded", "The plot is thin, but the acting is a quiet joy."),
    "docs/AUDIT.md": ("embedded", "--full", "--worst", "3"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_a_page_shows_of_an_audit_is_what_is_printed(name, run):
    out = [line.rstrip() for line in run("audit", *PRINTED[name])[1].splitlines()]
    (shown,) = [code for language, code, _ in blocks(ROOT / name) if language == "text"]
    varies = r"\.\.\.$|seconds|\de-\d"  # time, and the size of rounding
    lines = [line for line in shown.splitlines() if not re.search(varies, line)]
    assert len(lines) > 10
    assert [line for line in lines if line not in out] == []


def test_the_readme_is_short_and_its_numbers_are_those_of_the_pages():
    text = README.read_text("utf-8")
    assert len(text.splitlines()) <= 130
    (least,) = re.findall(r"more than (\d+) statements about LRP rules", text)
    assert int(least) < sum(1 for path in FILES for _ in claims(path))
    pages = " ".join((ROOT / "docs" / f"{x}.md").read_text("utf-8") for x in NUMBERS)
    findings = text[text.index("## Three findings") :].replace("arXiv", "")
    told = {*re.findall(r"\d\.\d+", findings), *re.findall(r"\d+ %", findings)}
    known = {*re.findall(r"\d\.\d+", pages), *re.findall(r"\d+ %", pages)}
    known |= {f"{round(100 * float(x))} %" for x in known if "." in x}
    assert told <= known


@pytest.mark.parametrize("page", [README, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_of_a_page_outside_of_docs_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)|src=\"([^\"]+)", page.read_text("utf-8"))
    local = [x or y for x, y in links if not (x or y).startswith("https:")]
    assert len(local) > 1
    assert not [link for link in local if not (page.parent / link).exists()]
