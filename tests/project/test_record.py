"""A record notices added, removed and changed entries, and resumes where it stopped."""

import json

import numpy as np
import pytest

from tests.support import record, recorded


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs the script on one part, in this process; returns exit code and printed lines."""

    def run(action, entry):
        monkeypatch.setattr(record, "PARTS", {"few": (entry, [("a", 1), ("b", 2), ("c", 3)])})
        argv = ["record", action, str(tmp_path), "--workers", "1"]
        monkeypatch.setattr("sys.argv", argv)
        with pytest.raises(SystemExit) as stopped:
            record.main()
        return int(stopped.value.code), capsys.readouterr().out.split("\n  ")

    return run


def same(item):
    yield item[0], item[1]


def test_a_comparison_lists_every_difference_and_fails(run):
    assert run("write", same)[0] == 0
    code, lines = run("compare", same)
    assert (code, lines[0].splitlines()[-1]) == (0, "few: 0 differences")
    other = lambda item: [("a", 1), ("b", 5), ("d", 4)]
    code, lines = run("compare", other)
    assert code == 1
    assert [line.strip() for line in lines[1:]] == [
        "removed c: 3",
        "added d: 4",
        "changed b: 2 -> 5",
    ]


def test_an_interrupted_part_goes_on_with_the_items_that_are_left(run, tmp_path, monkeypatch):
    def stops(item):
        if item[0] == "c":
            raise KeyboardInterrupt
        return same(item)

    def last(item):
        assert item[0] == "c"
        return same(item)

    with pytest.raises(KeyboardInterrupt):
        run("write", stops)
    assert run("write", last)[0] == 0
    assert json.loads((tmp_path / "few.json").read_text()) == {"a": 1, "b": 2, "c": 3}
    with pytest.raises(KeyboardInterrupt):
        run("write", stops)
    monkeypatch.setattr(record, "tree", lambda: "changed since")
    with pytest.raises(AssertionError):
        run("write", last)


def test_a_hash_of_numbers_sees_ten_digits_of_the_largest():
    x = np.array([1.0, -0.5, 1e-3])
    assert recorded.digest(x) == recorded.digest(x + np.array([0, 0, 1e-13]))
    assert recorded.digest(x) != recorded.digest(x + np.array([0, 0, 2e-10]))
    assert recorded.digest(x) != recorded.digest(x * (1 + 1e-8))
    assert recorded.digest(x) != recorded.digest(x[None])


def test_paths_and_addresses_are_no_part_of_a_text():
    text = "a rule in numeric/auditing/ledger.py at 0x7f0123456789"
    assert recorded.hide(text) == "a rule in ledger.py at ..."
