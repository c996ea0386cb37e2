"""A worker, a node and the command of a Ray cluster are killed, each at a random moment."""

import pytest

from benchmarks.research.speed.scale import kills

TEXTS = 2000


def test_whoever_dies_every_text_is_explained_once_and_as_if_nothing_had_happened(tmp_path):
    pytest.importorskip("ray", reason="pip install 'lrp-axioms[cluster]' brings Ray")
    done, folders = kills.disturb(tmp_path, kills=len(kills.VICTIMS), seed=1, texts=TEXTS)
    assert done == dict.fromkeys(kills.VICTIMS, 1)
    wrong = kills.compared(folders, tmp_path / "alone", TEXTS)
    assert wrong == {"lost": 0, "doubled": 0, "different": 0}


def test_the_comparison_notices_each_kind_of_mistake(tmp_path, monkeypatch):
    line = lambda n, value=0.5: {"example": n, "relevance": [value]}
    found = {
        "alone": [line(0), line(1)],
        "lost": [line(0)],
        "doubled": [line(0), line(1), line(1)],
        "different": [line(0), line(1, 0.25)],
    }
    monkeypatch.setattr(kills, "explain", lambda *_: None)
    monkeypatch.setattr(kills, "lines", lambda folder: found[folder.name])
    for name in ("lost", "doubled", "different"):
        wrong = kills.compared([tmp_path / name], tmp_path / "alone", 2)
        want = {"lost": 0, "doubled": 0, "different": 1} | {name: 1}
        assert wrong == want
