"""Terminals of other encodings, and readers that leave: nothing crashes, and no file is lost."""

import io
import os
import sys
from types import SimpleNamespace

import pytest

from axioms.pages import show
from benchmarks import cli
from benchmarks.commands.console import console, spell_what_cannot_be_encoded
from tests.commands.test_attribute_command import saved

TEXT = "a fine film"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("model"), "bert")


@pytest.fixture
def into(monkeypatch):
    """Runs the program with another stdout: the exit code.  No theorem is proved for its page."""
    monkeypatch.setattr(show, "page", lambda _: SimpleNamespace(verdicts=()))
    monkeypatch.setattr(show, "text", lambda _: "ε ≥ 0\n" * 9999)

    def into(stream, *arguments):
        monkeypatch.setattr(sys, "argv", ["lrp-axioms", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code or 0

    return into


def terminal(encoding):
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding)


@pytest.mark.parametrize("command", ["audit", "explain", "prove"])
def test_a_command_prints_what_an_ascii_terminal_can_show(into, model, command):
    stream = terminal("ascii")
    given = ["--show", "10"] if command == "prove" else [model, TEXT, "--full"]
    assert into(stream, command, *given) == 0
    shown = stream.buffer.getvalue().decode("ascii")
    expected = {"audit": "  ####", "explain": "fine", "prove": "eps >= 0\n" * 9999}
    assert expected[command] in shown


LETTERS = {
    "ascii": "## -- eps >= -1.5 1-2 e 2 naive ? ?",
    "cp1252": "## -- eps >= -1.5 1–2 é ² naïve ? ?",
    "utf-8": "██ ░░ ε ≥ −1.5 1–2 é ² naïve 映 ?",
}


@pytest.mark.parametrize("encoding", LETTERS)
def test_signs_are_spelled_only_where_they_must_be(monkeypatch, encoding):
    stream = terminal(encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    spell_what_cannot_be_encoded()
    console.print(LETTERS["utf-8"].replace("?", "\udce9"), highlight=False)
    assert stream.buffer.getvalue().decode(encoding) == LETTERS[encoding] + "\n"


@pytest.mark.parametrize("command", ["audit", "explain", "prove", "attribute"])
def test_a_reader_that_leaves_loses_no_file(into, model, tmp_path, capfd, monkeypatch, command):
    monkeypatch.setattr(console, "quiet", False)  # which it is from then on
    (tmp_path / "texts.txt").write_text(TEXT)
    page, parts = tmp_path / "a.html", tmp_path / "parts"
    arguments = {
        "audit": [model, TEXT, "--html", page],
        "explain": [model, TEXT, "--html", page],
        "prove": ["--show", "10"],
        "attribute": [tmp_path / "texts.txt", "--model", model, "--output", parts],
    }
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as left:
        assert into(left, command, *arguments[command]) == 0
        console.print("dropped", "with what was kept to be written")
    assert capfd.readouterr().err == ""
    if page in arguments[command]:
        assert page.read_text("utf-8").rstrip().endswith("</html>")
    if parts in arguments[command]:
        assert [path.name for path in sorted(parts.iterdir())] == [
            "manifest.json",
            "part-000000000000.parquet",
            "record.json",
        ]
