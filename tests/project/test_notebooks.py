"""The notebooks run, and the kept ones have their sources' cells and full sizes."""

import copy
import gzip
import io
import json
import os
import re
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from functools import cache, partial
from pathlib import Path
from unittest import mock

import matplotlib as mpl
import nbformat
import numpy as np
import pytest
from IPython.display import Image
from nbformat import v4
from sklearn.datasets import load_digits

from axioms.rewrites.rewrites import REWRITES
from axioms.scoreboard.rule_sets import RULE_SETS
from axioms.scoreboard.scoreboard import STABILISERS
from benchmarks.experiments.causes import measure
from benchmarks.experiments.causes.examples import DISTANCES
from benchmarks.experiments.causes.language import TASKS
from benchmarks.experiments.table1 import mnist
from benchmarks.experiments.table2 import HINGES
from benchmarks.sources import data, models
from numeric.results.render import LEGEND
from paper_notebooks import build
from tests.support.theorems import stated

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "paper_notebooks"
NAMES = build.names()
TEXTS = {*NAMES} - {"01_proofs", "02_table1_mnist", "07_causes"}
EXAMPLES = {"sst2": 2, "imdb": 2}


class InThisProcess:
    """Stands in for a kernel, with all that is imported here; a real one is tested below."""

    def __init__(self, made, *, resources, **_):
        self.made, self.folder = made, resources["metadata"]["path"]

    def execute(self, env):
        names = {"__name__": "__main__"}
        code = [cell for cell in self.made.cells if cell.cell_type == "code"]
        with ExitStack() as block:
            block.enter_context(mock.patch.dict(os.environ, env))
            block.enter_context(chdir(self.folder))
            block.enter_context(mpl.rc_context())
            show = block.enter_context(mock.patch("paper_notebooks.output.display"))
            for n, cell in enumerate(code, start=1):
                cell.execution_count = n
                show.side_effect = partial(self.show, cell)
                said = io.StringIO()
                with redirect_stdout(said), redirect_stderr(said):
                    exec(cell.source, names)
                if said.getvalue():
                    shows(output_type="stream", name="stderr", text=said.getvalue())(cell)

    @staticmethod
    def show(cell, it, *, raw=False, metadata=None):
        if not raw:
            it = {"image/png": it._repr_png_()} if isinstance(it, Image) else {"text/html": it.data}
        shows(output_type="display_data", data=it, metadata=metadata or {})(cell)


def write_data(folder):
    """Writes a small --data-dir: embedded sentences and digits under the names of the data."""
    found = data.load("embedded")
    pairs = sorted(zip(found.texts, found.labels, strict=True), key=lambda pair: len(pair[0]))[:8]
    lines = ["sentence\tlabel", *(f"{text}\t{label}" for text, label in pairs)]
    (folder / "sst2_dev.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with gzip.open(folder / "imdb_small_test.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": t, "label": n}) + "\n" for t, n in pairs)
    images, labels = load_digits(return_X_y=True)
    large = np.arange(28) * 8 // 28
    x = (images.reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)[:, large][:, :, large]
    train = {"x_train": x[:900], "y_train": labels[:900]}
    np.savez(folder / "mnist.npz", **train, x_test=x[900:], y_test=labels[900:])


def write_model(folder, *, layers=4):
    """The embedded classifier without its later layers: a sweep costs the square of the depth."""
    found = models.load()
    found.model.bert.encoder.layer = found.model.bert.encoder.layer[:layers]
    found.model.config.num_hidden_layers = layers
    found.model.save_pretrained(folder)
    found.tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module")
def reduced(tmp_path_factory):
    """Any notebook at reduced size, by name, in seconds instead of hours."""
    folder = tmp_path_factory.mktemp("notebooks")
    write_data(folder)
    write_model(folder / "model")

    @cache
    def made(name):
        options = dict.fromkeys(("--sst-model", "--imdb-model", "--judges"), folder / "model")
        options |= {"--data-dir": folder, "--results": folder / "results", "--output": folder}
        given = [str(x) for option in options.items() for x in option]
        given += [f"--examples={dataset}={n}" for dataset, n in EXAMPLES.items()]
        with mock.patch.object(build, "NotebookClient", InThisProcess):
            assert build.main(["--reduced", *given, name]) == 0
        return nbformat.read(folder / f"{name}.ipynb", as_version=4)

    return made


def full_sizes():
    """Returns notebook -> the sizes that its kept run must have measured."""
    grid = mnist.declared()
    texts = {"sst2": 872, "imdb": 200}
    return {
        "01_proofs": {
            "statements": len(stated()),
            "cells": len(REWRITES) * len(RULE_SETS) * len(STABILISERS),
        },
        "02_table1_mnist": {"mnist": grid.analysis["images"], "networks": len(grid.models)},
        "03_table2_sst": {"sst2": texts["sst2"]},
        "04_table2_imdb": {"imdb": texts["imdb"]},
        "05_layerwise_figure2": texts,
        "06_beyond_the_paper": texts,
        "07_causes": {"prompts": measure.COUNT * len(TASKS) * len(DISTANCES)},
        "08_remedy": {"sst2": texts["sst2"], "imdb": 24},
        "09_bypassed_softmax": {"sst2": texts["sst2"]},
        "10_words_that_act_together": {"sst2": 50},
    }


def faults(made, name, *, sizes, is_reduced):
    """Everything that is wrong with an executed notebook."""
    source = build.notebook(build.SOURCES / f"{name}.py")
    if [(c.id, c.cell_type, c.source) for c in made.cells] != [
        (c.id, c.cell_type, c.source) for c in source.cells
    ]:
        yield "its cells are not those of its source; build it again"
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in code]
    if counts != list(range(1, len(code) + 1)):
        yield f"it was not executed once, from top to bottom: {counts}"
    if not any(cell.outputs for cell in code):
        yield "it shows nothing"
    if made.metadata.get("measured") != sizes | {"reduced": is_reduced}:
        yield f"it measured {made.metadata.get('measured')}, not {sizes}"
    yield from build.problems(made)
    if build.PLACE.search(json.dumps(made.metadata)):
        yield "its metadata name a place on this machine"
    if name in TEXTS:
        yield from strange_texts(made)


def strange_texts(made):
    """Output that is neither a number, a table, a figure, nor the embedded sentence."""
    embedded = set(re.findall(r"\w+", data.load("embedded").texts[2].lower()))
    embedded |= {"cls", "sep", "leave", "one", "out", "attnlrp", "cp", "lrp"}
    embedded |= {"mask", "relevance", "midpoint", "1", "budgeted", "loo", "4"}
    for n, output in build.outputs(made):
        if output.output_type == "stream":
            yield f"cell {n} prints {output.text!r}"
            continue
        shown = output.get("data", {})
        words = re.findall(r"\w+", re.sub(r"<[^>]*>", " ", shown.get("text/html", "")).lower())
        if strange := set(words) - embedded:
            yield f"cell {n} shows HTML that is not the embedded sentence: {strange}"
        for line in shown.get("text/markdown", "").splitlines():
            if line.startswith("|"):
                long = [cell for cell in line.split("|") if len(cell) > 60]
                if long:
                    yield f"cell {n} has a cell that may be a text: {long}"
            elif line.removeprefix("- ") in ("", LEGEND, HINGES) or line.startswith("**"):
                continue
            elif not re.search(r"\d", line):
                yield f"cell {n} shows a line without a number: {line}"


@pytest.mark.parametrize("name", NAMES)
def test_at_reduced_size_every_cell_runs_on_few_texts_images_and_proofs(reduced, name):
    made = reduced(name)
    grid, full = mnist.declared(reduced=True), full_sizes()[name]
    sizes = {
        "statements": sum("test_associativity.py" in x.test for x in stated()),
        "cells": 3 * len(RULE_SETS) * len(STABILISERS),
        "mnist": grid.analysis["images"],
        "networks": len(grid.models),
        "prompts": 2 * len(TASKS) * len(DISTANCES),
        **EXAMPLES,
    }
    small = {key: sizes[key] for key in full}
    assert all(small[key] < full[key] for key in full)
    assert list(faults(made, name, sizes=small, is_reduced=True)) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_kept_notebook_is_its_source_executed_at_full_size(name):
    path = KEPT / f"{name}.ipynb"
    made = nbformat.read(path, as_version=4)
    nbformat.validate(made)
    assert list(faults(made, name, sizes=full_sizes()[name], is_reduced=False)) == []
    assert path.stat().st_size < 400_000


def test_the_kept_notebook_of_proofs_has_each_statement_of_today():
    made = nbformat.read(KEPT / "01_proofs.ipynb", as_version=4)
    shown = "\n".join(build.texts_of(output) for _, output in build.outputs(made))
    row = lambda *cells: "| " + " | ".join(x.replace("|", "\\|") for x in cells) + " |"
    rows = {x.label: row(x.label, x.statement, x.verdict) for x in stated()}
    assert [label for label, wanted in rows.items() if wanted not in shown] == []


def test_every_kept_notebook_has_a_source():
    assert sorted(x.stem for x in KEPT.glob("*.ipynb")) == NAMES


def shows(**output):
    return lambda cell: cell.outputs.append(v4.new_output(**output))


def markdown(text):
    return shows(output_type="display_data", data={"text/markdown": text})


def html(text):
    return shows(output_type="display_data", data={"text/html": text})


SPOILED = {
    "an edited cell": (lambda cell: cell.update(source="1"), "not those of its source"),
    "a cell run twice": (lambda cell: cell.update(execution_count=7), "not executed once"),
    "an error": (shows(output_type="error", ename="E", evalue="", traceback=[]), "an error"),
    "a warning": (shows(output_type="stream", name="stderr", text="Warning"), "an error"),
    "a path": (markdown("1 file: /home/me/models"), "a place on this machine: /home/me/models"),
    "a path in a stream": (shows(output_type="stream", text="/tmp/x 1"), "a place"),
    "print": (shows(output_type="stream", text="1"), "prints"),
    "a sentence": (markdown("a gorgeous , witty , seductive movie ."), "without a number"),
    "a sentence in a table": (markdown(f"| {'words ' * 12} | 1 |"), "may be a text"),
    "a coloured sentence": (html("<span>witty</span>"), "not the embedded sentence"),
}


@pytest.mark.parametrize(("spoil", "expected"), SPOILED.values(), ids=SPOILED)
def test_a_spoiled_notebook_is_noticed(reduced, spoil, expected):
    name = "03_table2_sst"
    made = copy.deepcopy(reduced(name))
    spoil(next(cell for cell in made.cells if cell.cell_type == "code"))
    found = list(faults(made, name, sizes={"sst2": EXAMPLES["sst2"]}, is_reduced=True))
    assert any(expected in fault for fault in found), found


@pytest.mark.parametrize("sizes", [{"sst2": 872}, EXAMPLES, {}])
def test_another_size_is_noticed(reduced, sizes):
    found = faults(reduced("03_table2_sst"), "03_table2_sst", sizes=sizes, is_reduced=True)
    assert any("it measured" in fault for fault in found)


def test_a_quoted_text_is_noticed_however_it_is_marked_up():
    text = "one two three four five six seven eight"
    for shown in (text.upper(), "<b>one</b> two, three four five <i>six</i> seven"):
        made = v4.new_notebook(cells=[v4.new_code_cell()])
        markdown(shown)(made.cells[0])
        assert "quotes the data set" in next(build.problems(made, [text]))
    assert not list(build.problems(made, ["one two three four five six 7"]))


CELLS = "# %% [markdown]\n# # A claim\n\n# %%\nvalue = 1\n\n# %%\n"


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("assert value == 2, 'the headline'", "AssertionError: the headline"),
        ("import warnings; warnings.warn('rounded')", "an error or a warning"),
        ("print('/home/me/model')", "a place on this machine: /home/me/model"),
    ],
)
def test_a_notebook_that_fails_is_named_with_its_cell_and_not_written(
    tmp_path, monkeypatch, capsys, cell, message
):
    """In a kernel of its own, as the kept ones."""
    (tmp_path / "07_invented.py").write_text(CELLS + cell + "\n", encoding="utf-8")
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    assert build.main([f"--output={tmp_path}", f"--results={tmp_path / 'results'}"]) == 1
    said = capsys.readouterr().err
    assert "not written: 07_invented, cell 2" in said
    assert message in said
    assert not (tmp_path / "07_invented.ipynb").exists()
    assert (tmp_path / "results" / "07_invented.failed.ipynb").exists()


def test_an_unknown_name_and_a_wrong_number_are_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        build.main(["08_none", "--examples", "sst2=0"])
    told = capsys.readouterr().err
    assert re.search(r"08_none: pass NAME of 01_.*; --examples sst2=0: pass sst2=N or imdb=N", told)
