"""Fixtures that several tests share; tests leave the models as they were."""

import builtins
import gc
import io
import json
import os
import socket
import sys
from functools import partial

import hypothesis
import pytest
import torch

from tests.support import cases, folders, program

# Every machine tries one set of examples, however busy the machine is.
STEADY = dict(deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck))
hypothesis.settings.register_profile("steady", **STEADY)
hypothesis.settings.load_profile("steady")
if many := os.environ.get("LRP_AXIOMS_EXAMPLES"):  # make fuzz: this many new examples of each test
    MANY = STEADY | dict(derandomize=False, max_examples=int(many), print_blob=True)
    hypothesis.settings.register_profile("fuzz", **MANY)
    hypothesis.settings.load_profile("fuzz")


def pytest_collection_finish():
    """Every pytest run inside a test collects garbage: not among all modules, again and again."""
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def embedded():
    """The embedded classifier in float64, by attention implementation."""
    return {name: cases.load_embedded(name) for name in ("sdpa", "eager")}


@pytest.fixture(scope="session")
def loaded():
    """The embedded classifier with its tokenizer; tests leave both as they were."""
    from benchmarks.sources import models

    return models.load()


@pytest.fixture(scope="session")
def lm():
    """The embedded language model with its tokenizer; tests leave both as they were."""
    from benchmarks.sources import models

    return models.load("embedded-lm")


@pytest.fixture(scope="session")
def tokenizer():
    """The tokenizer of tiny language models; tests leave it as it was."""
    from tests.support import writers

    return writers.tokenizer()


@pytest.fixture(scope="session")
def six_sentences(tmp_path_factory):
    """Where rows are measured on the sentences of ``one_by_one``, each once for all tests."""
    return tmp_path_factory.mktemp("six")


@pytest.fixture(scope="module")
def sentences():
    """Six sentences, each measured alone."""
    from tests.support import one_by_one

    return one_by_one.sentences()


@pytest.fixture(scope="module")
def browser():
    """A headless browser for the tests of a module."""
    from tests.support.browser import chromium

    with chromium() as found:
        yield found


@pytest.fixture
def tiny():
    return cases.tiny_bert()


@pytest.fixture
def batch():
    return cases.tiny_batch()


@pytest.fixture
def float64():
    """Runs a test as the census is measured: in float64, quietly, and with a time limit."""
    from tests.census.measure import conditions

    with conditions():
        yield


@pytest.fixture
def soon(monkeypatch):
    """Records at the second call of a shape, so that the third proves and the fourth replays."""
    monkeypatch.setattr("lrp_axioms.numeric.replay.calls.AFTER", 1)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """A folder as `save_pretrained` writes it: a random BERT and a tokenizer."""
    return folders.tiny(tmp_path_factory.mktemp("models") / "tiny-bert")


@pytest.fixture
def alone(monkeypatch):
    """Whatever opens a connection or reads standard input fails the test."""

    def fail(*arguments, **_):
        pytest.fail(f"something outside was asked: {arguments}")

    for place, name in (
        (socket.socket, "connect"), (socket.socket, "connect_ex"), (socket, "getaddrinfo"),
        (socket, "gethostbyname"), (builtins, "input"),
    ):  # fmt: skip
        monkeypatch.setattr(place, name, fail)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for name in ("read", "readline"):
        monkeypatch.setattr(sys.stdin, name, fail)


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the program, with its work in this process: exit code, stdout, stderr."""

    from benchmarks import cli
    from benchmarks.running import workers

    monkeypatch.setattr(workers, "MOST", 1)

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
def told(run):
    """Runs the program with --json, and returns its object."""

    def told(*call):
        code, out, err = run(*call, "--json")
        assert code == 0, err
        return json.loads(out)

    return told


@pytest.fixture
def small(monkeypatch, tmp_path_factory):
    """The whole job with two theorems, ten digits after one epoch, and two lengths to time."""
    from benchmarks.experiments import theorems, time_by_length
    from benchmarks.experiments.table1 import digits

    folder = tmp_path_factory.mktemp("theorems")
    (folder / "test_few.py").write_text(program.HEAD + program.HOLDS + program.REFUTES)
    monkeypatch.setattr(theorems, "theorems", partial(theorems.theorems, folder=folder))
    few = partial(digits.table1, seeds=(0,), epochs=1, count=10)
    monkeypatch.setattr(digits, "table1", few)
    monkeypatch.setattr(time_by_length, "LENGTHS", (4, 8))
    timed = partial(time_by_length.lrp_versus_loo, repeats=1)
    monkeypatch.setattr(time_by_length, "lrp_versus_loo", timed)
    return folder


@pytest.fixture(autouse=True)
def no_rules_are_left():
    """Rules that a test leaves on would act in every test behind it."""
    before = torch._C._len_torch_function_stack()
    yield
    assert torch._C._len_torch_function_stack() == before
