"""``make paper`` on the paper's checkpoints and data sets, as the Hub's libraries keep them here.

The weights are random, so that nothing but the download and the numbers themselves is untested.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.experiments import rows
from benchmarks.experiments import tables as tables_of
from benchmarks.sources.pins import PINS
from tests.support import folders, program

ROOT = Path(__file__).parents[2]
TEXTS = ["a fine film .", "a dull soup .", "a fine , fine soup . a dull film .", "dull film ."]
PAPER = ("LOO", "IG", "Rollout", "AttnLRP", "CP-LRP")
CARD = (
    "---\nconfigs:\n- config_name: all\n  data_files:\n  - {{split: {0}, path: data/{0}-*}}\n---\n"
)
SCRIPT = """
import json, sys
from benchmarks import cli
for line in json.loads(sys.argv[1]):
    sys.argv = line
    try:
        cli.main()
    except SystemExit as stopped:
        assert not stopped.code, line
"""


@pytest.fixture
def home(tmp_path):
    """A folder for HF_HOME with both checkpoints, of 12 layers, and both data sets."""
    home = tmp_path / "home"
    for number, (name, revision) in enumerate(PINS["models"].items()):
        layers = {"num_hidden_layers": 12, "num_labels": 2}
        model = folders.tiny(tmp_path / f"model-{number}", **layers)
        folders.in_hub(home, "model", name, revision, model)
    for name, source in PINS["datasets"].items():
        folder = tmp_path / name
        (folder / "data").mkdir(parents=True)
        (folder / "README.md").write_text(CARD.format(source["split"]))
        table = pa.table({source["text"]: TEXTS, "label": [1, 0, 1, 0]})
        pq.write_table(table, folder / "data" / f"{source['split']}-00000-of-00001.parquet")
        folders.in_hub(home, "dataset", source["hub"], source["revision"], folder)
    return home


def lines(*arguments):
    """The calls of the program behind ``make paper``."""
    make = ["make", "--dry-run", "--old-file=.venv/.complete", "paper", *arguments]
    said = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [shlex.split(line) for line in said.splitlines() if "lrp-axioms" in line]


def test_one_command_puts_both_checkpoints_beside_the_paper(home, tmp_path):
    calls = lines("REVIEWS=3", "ARGS=--workers 1")
    environment = {"HF_HOME": str(home), "HF_HUB_CACHE": str(home / "hub")}
    environment |= {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    options = {"env": os.environ | environment, "cwd": tmp_path, "capture_output": True}
    program_of = [sys.executable, "-c", SCRIPT, json.dumps(calls)]
    done = subprocess.run(program_of, **options, text=True, check=False)
    assert done.returncode == 0, done.stderr
    forecasts, _, tables = done.stdout.partition("Table 2: agreement")
    assert " ".join(forecasts.split()).count("an interrupted run resumes.") == 2
    assert "Table 2: agreement with Leave-One-Out on 3 texts of 'imdb'" in tables
    page = (tmp_path / "results" / "paper" / "report.md").read_text("utf-8")
    for dataset, count in (("sst2", 4), ("imdb", 3)):
        row = rows.load(f"figure2-{dataset}")
        configs = (rows.load(x) for x in rows.names() if x.startswith(f"table2-{dataset}-"))
        paper = {label: numbers for x in configs for label, numbers in x.paper.items()}
        place = tmp_path / "results" / "paper" / dataset
        names = ("table2", "figure2", "special", "softmax")
        found = {x: program.strict_json(place / f"{x}-{dataset}.json") for x in names}
        origin = "hub:{hub}@{revision}".format(**PINS["datasets"][dataset])
        about = {"model": row.model, "examples": count, "dataset_origin": origin}
        for result in found.values():
            assert tables_of.escaped(result["title"]) in page
            assert result["settings"].items() >= about.items()
        beside = iter(found["table2"]["rows"])
        own = {each["method"]: next(beside) for each in beside if each["method"] in PAPER}
        for method, numbers in own.items():
            assert numbers.items() >= paper[method].items()
        assert tuple(own) == PAPER
        cells = [x for x in found["figure2"]["rows"] if "paper r all, sum to one" in x]
        assert len(cells) == 36
        for each in cells:
            numbers = row.paper[each["order"]]["r all, sum to one"]
            assert each["paper r all, sum to one"] == numbers[each["layer"] - 1]
