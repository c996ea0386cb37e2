"""The commit of a result is of this code, and of no checkout that an installed copy lies in."""

import subprocess

from benchmarks.running import provenance


def test_the_commit_is_of_the_checkout_that_tracks_the_code(tmp_path, monkeypatch):
    code = tmp_path / "environment" / "provenance.py"
    code.parent.mkdir()
    code.touch()
    monkeypatch.setattr(provenance, "__file__", str(code))
    commit = provenance._commit.__wrapped__
    assert commit() is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "other code"], check=True)
    assert commit() is None
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "this code"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert commit() == head.stdout.strip()
