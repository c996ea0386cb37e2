"""Every command and call names the text that crashes the library of a tokenizer."""

import base64
import struct

import pytest

from benchmarks.experiments import explained
from benchmarks.sources import models
from numeric import explain, explain_generation
from tests.support.folders import copy, settings

UNITS = [0] * 256
UNITS[0xC3] = 0xC3 | 2**30  # the entry of the first byte of é points beyond the table
TABLE = base64.b64encode(struct.pack("<257I", 1024, *UNITS)).decode()
BREAKS, GOOD = "a fine é film", "a fine film"
SAYS = "the tokenizer crashes at 'a fine é film' (index out of bounds: "


@pytest.fixture
def folder(checkpoint, tmp_path):
    return copy(
        checkpoint,
        tmp_path / "model",
        settings("tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast"),
        settings(
            "tokenizer.json", normalizer={"type": "Precompiled", "precompiled_charsmap": TABLE}
        ),
    )


@pytest.mark.parametrize(
    "command",
    [
        ["explain", "model", BREAKS],
        ["explain", "model", GOOD, BREAKS],
        ["audit", "model", BREAKS],
        ["plan", "model", BREAKS],
        ["attribute", "texts.txt", "--model", "model"],
    ],
    ids=" ".join,
)
def test_by_a_command(run, folder, monkeypatch, command):
    monkeypatch.chdir(folder.parent)
    (folder.parent / "texts.txt").write_text(f"{GOOD}\n{BREAKS}\n", "utf-8")
    code, out, err = run(*command)
    assert (code, out, err.count("error: ")) == (2, "", 1)
    assert SAYS in err


def test_by_a_call(folder, lm, tmp_path):
    loaded = models.load(str(folder))
    for call in (
        lambda: explain(loaded.model, loaded.tokenizer, [GOOD, BREAKS]),
        lambda: explain_generation(lm.model, loaded.tokenizer, BREAKS),
        lambda: explained.explain_texts(
            loaded, [GOOD, BREAKS], name="a", output=tmp_path / "found"
        ),
    ):
        with pytest.raises(ValueError, match=r"crashes at 'a fine é film' \(index"):
            call()
