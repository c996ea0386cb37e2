"""A server of the page for one model."""

import json
import threading
import urllib.error
import urllib.request
from contextlib import AbstractContextManager

import uvicorn

from benchmarks.app import command, server
from benchmarks.sources import models

TOKEN = "a-token"
TEXT = "not a bad film"


def question(*methods, **more):
    """A question of the page about ``TEXT``."""
    return {"text": TEXT, "methods": list(methods), "unit": "token"} | more


class Served(AbstractContextManager):
    """A server of one model on a free port, in a thread."""

    def __init__(self, name, **options):
        self.name, self.loaded = name, models.load(name, **options)
        listening = command.listen(0)
        self.port = listening.getsockname()[1]
        app = server.application(self.loaded, TOKEN, self.port)
        config = uvicorn.Config(app, log_level="error", **command.LIMITS)
        self.server = server.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([listening],), daemon=True)
        self.thread.start()

    def cut(self):
        """Breaks all connections off, as a network does."""
        for each in list(self.server.server_state.connections):
            self.server.servers[0].get_loop().call_soon_threadsafe(each.transport.abort)

    def end(self):
        self.server.should_exit = True
        self.thread.join(60)

    def __exit__(self, *_):
        self.end()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path, data=None, **headers):
        return self.send(path, None if data is None else json.dumps(data).encode(), **headers)

    def send(self, path, body=None, **headers):
        request = urllib.request.Request(self.address + path, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read(), error.headers

    def post(self, path, data):
        return self.ask(path, data, **{"x-token": TOKEN})

    def events(self, data):
        """The events that answer a question; an error of the request is the only one."""
        status, body, _ = self.post("/explain", data)
        if status != 200:
            return [json.loads(body)]
        lines = body.decode().split("\n\n")
        assert lines.pop() == ""
        return [json.loads(line.removeprefix("data: ")) for line in lines]

    def rows(self, data):
        """By method, the rows that answer a question without a fault."""
        events = self.events(data)
        assert events[-1] == {"end": True}, events[-1]
        return {x["row"]["name"]: x["row"] for x in events if "row" in x}


def run_python(served, ask):
    """The relevance that the page's lines of Python give."""
    status, lines, _ = served.post("/python", ask)
    assert (status, lines.count(b"\n")) == (200, 4)
    names = {}
    exec(lines.decode(), names)
    return names["found"].relevance[0].tolist()
