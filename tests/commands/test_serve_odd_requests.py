"""Whatever a program or a reader sends to ``lrp-axioms serve`` is answered with one message."""

import asyncio
import json
import logging
import re
import socket
from itertools import product
from urllib.parse import quote_from_bytes

import pytest

from benchmarks.app import server
from benchmarks.app.asked import CHOSEN, NAMED
from benchmarks.commands.advice import of_page
from benchmarks.commands.targets import parse_target
from benchmarks.sources import models
from numeric.methods.catalogue import METHODS, WITH_RULES
from numeric.reference.dispatch import RULES
from tests.support.served import TOKEN, Served

MODELS = ("embedded", "embedded-english", "answers", "tags")
POSTED = ("/explain", "/statements", "/python", "/file/html", "/file/png", "/file/json")
ENDPOINTS = (*POSTED, "/audit", f"/written?count={'9' * 5000}")
GOOD = {"text": "a film", "methods": ["attnlrp"], "context": "a fine film", "column": "1"}
PYTHON = re.compile(r"lrp_axioms|numeric|set_int|texts\[|[a-z]\(|pass None|Error|Traceback|count=")
NINES, THIRTY = "9" * 5000, "9" * 30
VALUES = ("\ud800", "a\0b", NINES, THIRTY, "-1", "1.5", 3, 1.5, True, ["a"], [3], {}, {"a": "b"})
LEGAL = [  # texts that are good ones of their fields
    *product(("text", "context", "answer"), (NINES, THIRTY, "-1", "1.5")),
    *product(CHOSEN, (True,)),
]
BODIES = {
    "nothing": b"",
    "no JSON": b"film",
    "no UTF-8": b'{"text": "\xff"}',
    "half a file": b'{"text": "a film", ',
    "a number": b"3",
    "null": b"null",
    "a list": b"[]",
    "nested": b"[" * 50_000,
    "a long number": b'{"text": %s}' % (b"9" * 5000),
    "infinity": b'{"text": Infinity, "methods": ["loo"]}',
    "half a character as a field": b'{"\\ud800": 1}',
    "a field twice, and once odd": b'{"text": "a film", "text": "\\ud800", "methods": ["loo"]}',
    "no fields": b"{}",
    "a long text, each letter nine in an address": json.dumps({"text": "膜" * 30_000}).encode(),
    "too many bytes": json.dumps({"text": "a " * 200_000}).encode(),
    "many names": json.dumps(GOOD | {"methods": [str(n) for n in range(2000)]}).encode(),
}


@pytest.fixture(scope="module", params=MODELS)
def served(request, heads):
    name = request.param if request.param in models.EMBEDDED else heads / request.param
    with Served(name) as found:
        yield found


def send(served, endpoint, body):
    headers = {"x-token": TOKEN}
    if endpoint in POSTED:
        return served.send(endpoint, body, **headers)
    joint = "&" if "?" in endpoint else "?"
    return served.send(f"{endpoint}{joint}asked={quote_from_bytes(body)}", **headers)


def message(status, body, headers):
    """The one message of an answer, which may be its last event; it names nothing of Python."""
    text = body.decode()
    if headers["content-type"].startswith("text/event-stream"):
        *_, text, end = text.split("\n\n")
        assert end == ""
        status, text = 400, text.removeprefix("data: ")
    said = json.loads(text)["error"] if text.startswith("{") else text
    assert status == 400, (status, said)
    assert said.strip()
    assert not PYTHON.search(said[:300] + said[-300:]), said[:600]
    return said


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_every_endpoint_answers_every_odd_body_with_a_message(served, endpoint):
    for body in BODIES.values():
        message(*send(served, endpoint, body))


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_every_endpoint_answers_every_odd_value_of_every_field_with_a_message(served, endpoint):
    fields = ("text", *NAMED, *CHOSEN, "unit", "methods")
    for field, value in product(fields, VALUES):
        unread = {"target", "contrast"} if endpoint.startswith("/written") else ()
        if (field, value) in LEGAL or (field in unread and isinstance(value, str)):
            continue
        # Other values are refused before a model or an endpoint is known.
        late = field in ("target", "contrast") and isinstance(value, str)
        if not late and (served.name != "embedded" or endpoint not in ("/explain", "/audit")):
            continue
        asked = dict(GOOD) if served.name != "embedded-english" else GOOD | {"column": "2"}
        if served.name == "embedded":
            del asked["column"]
        odd = [value] if field == "methods" and isinstance(value, str) else value
        said = message(*send(served, endpoint, json.dumps(asked | {field: odd}).encode()))
        assert field in ("text", "unit") or re.search(rf"\b(no )?{field[:6]}|answer|half|NUL", said)


@pytest.mark.parametrize("count", ["", "-1", "0", "1.5", "65", "x", "1e1", NINES, "%ED%A0%80"])
def test_every_odd_number_of_tokens_is_named_by_its_field(served, count):
    asked = quote_from_bytes(json.dumps(GOOD).encode())
    said = message(*served.send(f"/written?asked={asked}&count={count}", **{"x-token": TOKEN}))
    if served.name == "embedded-english":
        assert said.startswith("write '")
        assert said.endswith("': write 1 to 64 tokens\n")


def test_a_body_that_is_cut_off_is_no_fault_of_the_program(served):
    found = []
    handler = logging.Handler()
    handler.emit = found.append
    logging.getLogger("uvicorn.error").addHandler(handler)
    try:
        for path in POSTED:
            with socket.create_connection(("127.0.0.1", served.port)) as client:
                head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nx-token: {TOKEN}"
                client.sendall(f'{head}\r\nContent-Length: 99\r\n\r\n{{"text": '.encode())
        while served.server.server_state.connections or served.server.server_state.tasks:
            served.thread.join(0.05)
        served.post("/python", {})
    finally:
        logging.getLogger("uvicorn.error").removeHandler(handler)
    assert [x.getMessage() for x in found] == []


@pytest.mark.parametrize("port", [80, 8765])
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_answers_to_its_address_as_a_browser_spells_it(port, name, loaded):
    app = server.application(loaded, TOKEN, port)
    own, bare = f"{name}:{port}", name
    spelled = bare if port == 80 else own  # a browser leaves the port of HTTP out
    assert status(app, spelled, f"http://{spelled}") == 200
    assert status(app, own, f"http://{own}") == 200
    assert status(app, bare) == (200 if port == 80 else 403)
    for other in (f"{name}:81", f"evil.example:{port}", "evil.example"):
        assert status(app, other) == 403
        assert status(app, spelled, f"http://{other}") == 403


def status(app, host, origin=None):
    """The status of the page, for the names that a request gives."""
    given = [(b"host", host.encode()), (b"x-token", TOKEN.encode())]
    given += [(b"origin", origin.encode())] if origin else []
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": given}
    sent = []

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(each):
        sent.append(each)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"]


NAMES = (
    *("x", "2000", "-1", "-0x", THIRTY, NINES),
    *("\ud800", "a\0b", " fine", "fine ", "dul", "film it"),
)


@pytest.mark.parametrize("name", ["embedded", "embedded-lm", "classes", "tags", "masked"])
def test_a_name_means_as_a_contrast_what_it_means_as_a_target(name, heads):
    loaded = models.load(name if name in models.EMBEDDED else str(heads / name))
    given = 2 if name == "tags" else None, ["a", "[MASK]", "film"]
    refused = []
    for value in (*NAMES, "", "0", "1", *map(loaded.label, (0, 1))):
        one, other = read(loaded, value, *given), read(loaded, None, *given, value)
        assert other == (one.replace("target", "contrast", 1) if isinstance(one, str) else one)
        refused += [value] * isinstance(one, str)
        assert not PYTHON.search(of_page(str(one)))
    assert {*NAMES[1:8]} <= {*refused}


def read(loaded, name, column, tokens, contrast=None):
    """The number of the last name, or the message that refuses it."""
    try:
        found = parse_target(loaded, name, column, tokens, contrast)
    except ValueError as error:
        return str(error)
    return found if isinstance(found, int) else found.terms[-1].label


@pytest.mark.parametrize(("name", "dtype"), [
    ("embedded", "float32"), ("embedded", "float16"), ("embedded-english", "float32"),
    ("embedded-english", "bfloat16"),
])  # fmt: skip
def test_a_card_offers_an_audit_where_there_is_one(name, dtype):
    methods = [*METHODS] if dtype == "float32" else [*WITH_RULES]
    asked = {"text": "Anna put the key", "methods": methods}
    with Served(name, dtype=dtype) as served:
        rows = served.rows(asked)
        assert set(rows) == {*methods}
        assert [x for x in rows if rows[x]["audited"]] == [
            x for x in WITH_RULES if METHODS[x].composite.rules.items() <= RULES.keys()
        ] * (dtype == "float32")
        for method, row in rows.items():
            ask = asked | {"methods": [method]}
            for path in ("/statements", "/audit"):
                answered = send(served, path, json.dumps(ask).encode())
                if row["audited"]:
                    assert (answered[0], len(answered[1]) > 500) == (200, True)
                else:
                    assert re.search("pass attnlrp|--dtype float32", message(*answered))
            if "`audit` says" in row["caption"]:
                assert row["audited"] or dtype != "float32"


def test_a_label_that_is_half_a_character_is_no_fault():
    asked = {"text": "a film", "methods": ["cp-lrp"], "target": "0"}
    with Served("embedded") as served:
        served.loaded.model.config.id2label = {0: "\ud800", 1: "fine"}
        assert served.ask("/", **{"x-token": TOKEN})[0] == 200
        assert served.events(asked)[-1] == {"end": True}
        for path in (*POSTED[1:], "/audit"):
            assert send(served, path, json.dumps(asked).encode())[0] in (200, 400), path
