"""The table of bad inputs: each is one message and exit code 2, and leaves all as it was."""

import gzip
import re
import shlex
import struct
import zlib

import pytest
from PIL import Image
from transformers import AutoTokenizer, ViTImageProcessorPil

from benchmarks import models
from tests import cases, folders
from tests.bad_arguments import COMMANDS
from tests.bad_folders import MODELS, RESULTS
from tests.traces import assert_same, snapshot


@pytest.fixture(scope="module")
def place(checkpoint, tmp_path_factory):
    """The folder in which the commands run, which nothing may change."""
    place = tmp_path_factory.mktemp("bad")
    folders.copy(checkpoint, place / "model")
    tokenizer = AutoTokenizer.from_pretrained(
        checkpoint, model_input_names=["input_ids", "attention_mask"]
    )
    for family in ("albert", "gpt2"):
        cases.family(family, pad_token_id=0)[0].float().save_pretrained(place / family)
        tokenizer.save_pretrained(place / family)
    cases.family("vit", num_channels=3)[0].save_pretrained(place / "vit")
    ViTImageProcessorPil(size={"height": 6, "width": 6}).save_pretrained(place / "vit")
    for folder in ("empty", "data", "broken"):
        (place / folder).mkdir()
    reviews = gzip.compress(b'{"text": "a fine film", "label": 1}')
    for name, content in {
        "taken": b"mine", "notes.md": b"a", "good.txt": b"fine\n",
        "stars.csv": b"stars,review\n3,fine\n", "rules.py": b"", "broken/time.json": b"{",
        "data/imdb_test.jsonl.gz": reviews, "data/mnist.npz": b"PK\3\4 and no more",
    }.items():  # fmt: skip
        (place / name).write_bytes(content)
    Image.new("L", (64, 64), 200).save(place / "cut.png")
    whole = (place / "cut.png").read_bytes()
    (place / "cut.png").write_bytes(whole[:60])
    header = b"IHDR" + struct.pack(">IIBBBBB", 2**16, 2**16, 8, 0, 0, 0, 0)
    checked = header + struct.pack(">I", zlib.crc32(header))
    (place / "bomb.png").write_bytes(whole[:12] + checked + whole[33:])
    return place


@pytest.fixture
def refused(run, alone, monkeypatch):
    """Runs a command; fails unless it is refused in one message, and models stay bit-equal."""
    seen = []

    def watched(load):
        def loading(*arguments, **options):
            classifier = load(*arguments, **options)
            seen.append((classifier.model, snapshot(classifier.model)))
            return classifier

        return loading

    for name in ("load", "load_for_images"):
        monkeypatch.setattr(models, name, watched(getattr(models, name)))

    def refused(says, *arguments):
        code, out, err = run(*arguments)
        flat = " ".join(re.sub("[│╭╮╰╯─]", " ", err).split())
        assert (code, out) == (2, ""), err
        assert "Traceback" not in err
        assert len(re.findall("^(?:error: |╭─ Error)", err, flags=re.MULTILINE)) == 1, err
        assert re.search(says, flat), flat
        for model, before in seen:
            assert_same(before, snapshot(model))

    return refused


def listing(folder):
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_line(refused, place, monkeypatch, command):
    monkeypatch.chdir(place)
    before = listing(place)
    refused(COMMANDS[command], *shlex.split(command))
    assert listing(place) == before


@pytest.mark.parametrize("name", MODELS)
def test_a_model_folder(refused, checkpoint, tmp_path, name):
    changes, says = MODELS[name]
    changes = changes if isinstance(changes, tuple) else (changes,)
    folder = folders.copy(checkpoint, tmp_path / "spoiled", *changes)
    refused(says, "explain", folder, "a fine film")


@pytest.mark.parametrize("name", RESULTS)
def test_a_result(refused, tmp_path, name):
    (tmp_path / "time.json").write_text(RESULTS[name])
    refused(f"{tmp_path.name}/time.json|time.json has rows of another kind", "report", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["time.json"]
