"""Serves the page of one model on this machine, to holders of a secret token alone."""

import asyncio
import json
import logging
import secrets
import threading
from asyncio import CancelledError, Future
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from jinja2 import Environment
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lrp_axioms.axioms.composites import UnassignedOperation
from lrp_axioms.axioms.extras import MissingLibrary
from lrp_axioms.benchmarks.app import proofs, work
from lrp_axioms.benchmarks.app.asked import Asked
from lrp_axioms.benchmarks.commands.advice import of_page
from lrp_axioms.benchmarks.sources.models import Classifier
from lrp_axioms.numeric.auditing.page import page as page_of_audit
from lrp_axioms.numeric.methods.amplification import FULL
from lrp_axioms.numeric.results import render

SOURCE = Path(__file__).with_name("page.html").read_text("utf-8")
# Faults that a reader can mend, and a body that is cut off, whose answer nobody reads.
FAULTS = (ValueError, UnassignedOperation, MissingLibrary, ClientDisconnect, *FULL)
MOST = 200_000  # bytes of a request
ENDED = "the program has ended; start it again"
THREADS = 16  # answers at once, also for readers who have left
HEADERS = {
    b"cache-control": b"no-store",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-frame-options": b"DENY",
}
Start = Callable[[Callable[[], Any]], Future[Any]]
Endpoint = Callable[[Request], Awaitable[Response]]


class LeftError(Exception):
    """The reader has closed the page, or asked something else."""


class Guard:
    """Refuses other hosts and origins, and requests without the token; adds headers."""

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str]) -> None:
        self.app, self.token, self.hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS.items()]
            await send(message)

        if fault := self._fault(Request(scope)):
            response = PlainTextResponse(f"{fault}\n", status_code=403)
            return await response(scope, receive, with_headers)
        return await self.app(scope, receive, with_headers)

    def _fault(self, request: Request) -> str:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host not in self.hosts:
            return "this page is for its own address alone"
        if origin is not None and origin != f"http://{host}":
            return "another page asked; open the address that the terminal shows"
        given = request.headers.get("x-token") or request.query_params.get("token", "")
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return "the token is missing or wrong; open the address that the terminal shows"
        return ""


def application(loaded: Classifier, token: str, port: int) -> Starlette:
    """Makes the application: a page, explanations as events, and files to download."""
    ends = [f":{port}", ""][: 1 + (port == 80)]  # browsers leave out the port of HTTP
    hosts = frozenset(name + end for name in ("127.0.0.1", "localhost") for end in ends)
    template = Environment(autoescape=True).from_string(SOURCE)
    threads, running = ThreadPoolExecutor(THREADS), set[Future[Any]]()

    def start(work: Callable[[], Any]) -> Future[Any]:
        if len(running) == THREADS:
            raise ValueError(f"{THREADS} answers are being made; wait until one of them is done")
        found = asyncio.get_running_loop().run_in_executor(threads, work)
        running.add(found)
        found.add_done_callback(running.discard)
        return found

    async def page(_request: Request) -> Response:
        parts = render.fixed(SOURCE)
        parts["policy"] += "; connect-src 'self'"
        made = template.render(about=work.about(loaded), **parts)
        return HTMLResponse(made.encode(errors="replace"))  # names of labels may be no UTF-8

    def threaded(found: Callable[[Request, bytes | str], Response]) -> Endpoint:
        """Makes an endpoint that answers in a thread, so that no request waits for another."""

        async def answered(request: Request) -> Response:
            try:
                given = request.query_params.get("asked", "")
                body = await _body(request) if request.method == "POST" else given
                return await start(partial(found, request, body))
            except (*FAULTS, CancelledError) as error:
                return _refused(request, error)

        return answered

    def asking(found: Callable[[Request, Asked], Response]) -> Endpoint:
        return threaded(lambda request, body: found(request, Asked.of(body)))

    def explain(_request: Request, asked: Asked) -> Response:
        """Answers with server-sent events, and an error that is found later is one of them."""
        events = _events(start, partial(work.answer, loaded, asked))
        return StreamingResponse(events, media_type="text/event-stream")

    def download(request: Request, asked: Asked) -> Response:
        kind = request.path_params["kind"]
        return Response(work.file(loaded, asked, kind), media_type=work.FILES[kind])

    def statements(_request: Request, asked: Asked) -> Response:
        return JSONResponse(work.audited(loaded, asked)["verdicts"])

    def python(_request: Request, asked: Asked) -> Response:
        return PlainTextResponse(work.python(loaded, asked))

    def audit(_request: Request, asked: Asked) -> Response:
        return HTMLResponse(page_of_audit(work.audited(loaded, asked)))

    def written(request: Request, asked: Asked) -> Response:
        return HTMLResponse(work.written(loaded, asked, request.query_params.get("count", "")))

    def proof(request: Request, _body: bytes | str) -> Response:
        name, method = (request.query_params.get(key, "") for key in ("name", "method"))
        return PlainTextResponse(proofs.text(name, method))

    post = {"methods": ["POST"]}
    routes = [
        Route("/", page),
        Route("/explain", asking(explain), **post),
        Route("/statements", asking(statements), **post),
        Route("/python", asking(python), **post),
        Route("/file/{kind}", asking(download), **post),
        Route("/audit", asking(audit)),
        Route("/written", asking(written)),
        Route("/proof", threaded(proof)),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(Guard, token=token, hosts=hosts)])
    app.state.running = running
    return app


class Server(uvicorn.Server):
    """Ends at once, whatever runs in the threads of its application."""

    async def shutdown(self, sockets: Any = None) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # no request is a fault now
        for each in [*self.config.app.state.running]:
            each.cancel(ENDED)
        await super().shutdown(sockets)


def _refused(request: Request, error: Exception) -> Response:
    said = _said(error)
    if request.method == "POST":  # by the page's own program
        return JSONResponse({"error": said}, status_code=400)
    return PlainTextResponse(f"{said}\n", status_code=400)


def _said(error: Exception) -> str:
    full = "the memory is full; close other programs, or write a shorter text"
    return full if isinstance(error, FULL) else of_page(str(error))


async def _events(start: Start, work_of: Callable[[work.Tell], None]) -> AsyncIterator[str]:
    """Yields events of work in a thread; work whose reader has left ends at its next event."""
    loop, found = asyncio.get_running_loop(), asyncio.Queue[Any]()
    left = threading.Event()

    def tell(event: dict[str, Any]) -> None:
        if left.is_set():
            raise LeftError
        loop.call_soon_threadsafe(found.put_nowait, event)

    def run() -> dict[str, Any]:
        try:
            work_of(tell)
        except (*FAULTS, LeftError) as error:
            return {"error": _said(error)}
        return {"end": True}

    line = lambda event: f"data: {json.dumps(event)}\n\n"
    try:
        running = start(run)
        running.add_done_callback(lambda _: found.put_nowait(None))
        while (event := await found.get()) is not None:
            yield line(event)
        # A fault of this program is raised here, and printed.
        yield line({"error": ENDED} if running.cancelled() else await running)
    except ValueError as error:  # no thread is free
        yield line({"error": str(error)})
    finally:
        left.set()


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST:
            raise ValueError(f"the request has more than {MOST} bytes")
    return body
