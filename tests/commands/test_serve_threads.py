"""Slow answers of ``lrp-axioms serve`` stop neither another answer nor the end of the program."""

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from axioms.evidence import prove
from axioms.pages import show
from benchmarks.app import proofs, server, work
from tests.support.served import TOKEN, Served

ROOT = Path(__file__).parents[2]
SECONDS = 3  # until the program has ended, and the interpreter with it
QUICK = {"text": "a film", "methods": ["attnlrp"]}
SLOW = QUICK | {"methods": ["cp-lrp"]}


@pytest.fixture
def served(monkeypatch):
    """A server whose CP-LRP takes until ``free`` is set."""
    found, plain = Served("embedded"), work.explain_text
    found.free, found.entered = threading.Event(), threading.Semaphore(0)

    def slow(*args, method, **more):
        if method == "cp-lrp":
            found.entered.release()
            assert found.free.wait(60)
        return plain(*args, method=method, **more)

    monkeypatch.setattr(work, "explain_text", slow)
    yield found
    found.free.set()
    found.end()


def abandon(served, path):
    """Asks for a slow answer, and closes the connection once the answer is being made."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    connection.request("POST", path, json.dumps(SLOW), {"x-token": TOKEN})
    assert served.entered.acquire(timeout=60)
    connection.close()


@pytest.mark.parametrize("path", ["/explain", "/python", "/file/json"])
def test_no_answer_waits_for_abandoned_ones_until_too_many_are_made(served, path):
    for n in range(server.THREADS):
        assert set(served.rows(QUICK)) == {"attnlrp"}, f"behind {n} abandoned answers"
        assert served.post("/python", QUICK)[0] == 200
        abandon(served, path)
    for other in ("/explain", "/python", "/statements", "/file/png"):
        status, body, _ = served.post(other, QUICK)
        assert (status, f"{server.THREADS} answers are being made; wait" in body.decode()) == (
            400,
            True,
        )
    assert b"answers are being made" in served.ask("/proof?name=25", **{"x-token": TOKEN})[1]
    served.free.set()
    while served.server.config.app.state.running:
        time.sleep(0.05)
    assert set(served.rows(QUICK | {"methods": ["attnlrp", "cp-lrp"]})) == {"attnlrp", "cp-lrp"}


def test_readers_who_wait_are_told_that_the_program_ends(served):
    found = {}
    asking = [
        threading.Thread(target=lambda path=path: found.update({path: served.post(path, SLOW)}))
        for path in ("/explain", "/python", "/file/html")
    ]
    for each in asking:
        each.start()
        assert served.entered.acquire(timeout=60)
    served.end()
    for each in asking:
        each.join(60)
    assert {
        path: b"the program has ended; start it again" in x[1] for path, x in found.items()
    } == (dict.fromkeys(("/explain", "/python", "/file/html"), True))


def test_proofs_that_are_asked_for_at_once_are_decided_in_turn(monkeypatch):
    """pytest changes the streams, modules and environment of the whole process."""
    at_work, most, plain = [], [], prove._isolated_pytest

    @contextmanager
    def counted(paths):
        at_work.append(paths)
        most.append(len(at_work))
        time.sleep(0.1)
        with plain(paths):
            yield
        at_work.pop()

    monkeypatch.setattr(prove, "_isolated_pytest", counted)
    with ThreadPoolExecutor() as threads:
        found = list(threads.map(proofs.text, ["25", "1"], ["attnlrp"] * 2))
    assert found == [show.text(show.page(name)) for name in ("25", "1")]
    assert max(most) == 1


HALF = b"POST /explain HTTP/1.1\r\nHost: %s\r\nx-token: %s\r\nContent-Length: 99\r\n\r\n{"


@pytest.mark.parametrize(
    ("said", "paths"), [("--quiet", []), ("--json", ["/statements", "/file/png", "/explain"])]
)
def test_an_interrupt_ends_the_program_while_methods_run(said, paths):
    """Whatever else is said, the program says its address."""
    call = [sys.executable, "-m", "lrp_axioms", "serve", "embedded", "--port", "0", said]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(call, **pipes, cwd=ROOT, text=True) as program:
        try:
            line = program.stdout.readline()
            address = json.loads(line)["address"] if said == "--json" else line.strip()
            with urllib.request.urlopen(address, timeout=60) as answered:
                assert b"which words speak" in answered.read()
            host, token = address.removeprefix("http://").split("/?token=")
            ask = {"text": "a film " * 200, "methods": ["attnlrp", "atman", "loo"]}
            connections = [http.client.HTTPConnection(host, timeout=60) for _ in (0, *paths)]
            for connection, path in zip(connections[1:], paths, strict=True):
                connection.request("POST", path, json.dumps(ask), {"x-token": token})
            connections[0].connect()
            connections[0].sock.sendall(HALF % (host.encode(), token.encode()))
            time.sleep(2)
            begun = time.monotonic()
        finally:
            program.send_signal(signal.SIGINT)
        code = program.wait(60)
        assert time.monotonic() - begun < SECONDS
        assert code == 130
        assert program.stderr.read().strip() in ("", "Aborted.")
        for connection in connections:
            connection.close()
