"""Serves the page of one model on this machine, to holders of a secret token alone."""

import json
import secrets
from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lrp_axioms.axioms.composites import UnassignedOperation
from lrp_axioms.axioms.extras import MissingLibrary
from lrp_axioms.benchmarks.app import work
from lrp_axioms.benchmarks.sources.models import Classifier
from lrp_axioms.numeric.results import render

SOURCE = Path(__file__).with_name("page.html").read_text("utf-8")
FAULTS = (ValueError, UnassignedOperation, MissingLibrary)  # a reader can mend them
MOST = 200_000  # bytes of a request
HEADERS = {
    b"cache-control": b"no-store",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-frame-options": b"DENY",
}


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
    """Makes the application: a page, explanations as JSON, and files to download."""
    work.check(loaded)
    hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
    template = Environment(autoescape=True).from_string(SOURCE)

    async def page(_request: Request) -> Response:
        parts = render.fixed(SOURCE)
        parts["policy"] += "; connect-src 'self'"
        return HTMLResponse(template.render(about=work.about(loaded), **parts))

    async def explain(request: Request) -> Response:
        return await _answered(request, lambda asked: JSONResponse(work.answer(loaded, asked)))

    async def download(request: Request) -> Response:
        kind = request.path_params["kind"]

        def found(asked: work.Asked) -> Response:
            return Response(work.file(loaded, asked, kind), media_type=work.FILES[kind])

        return await _answered(request, found)

    async def audit(request: Request) -> Response:
        return await _shown(request, lambda asked: work.audited(loaded, asked))

    async def written(request: Request) -> Response:
        count = request.query_params.get("count", "")

        def page(asked: work.Asked) -> str:
            return work.written(loaded, asked, int(count) if count.isdecimal() else 0)

        return await _shown(request, page)

    async def python(request: Request) -> Response:
        def found(asked: work.Asked) -> Response:
            a = work.explained(loaded, asked, asked.methods[0]).attribution
            return PlainTextResponse(work.python(loaded, asked, a.target[0].item()))

        return await _answered(request, found)

    routes = [
        Route("/", page),
        Route("/explain", explain, methods=["POST"]),
        Route("/python", python, methods=["POST"]),
        Route("/audit", audit),
        Route("/written", written),
        Route("/file/{kind}", download, methods=["POST"]),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, token=token, hosts=hosts)])


async def _answered(request: Request, found: Callable[[work.Asked], Response]) -> Response:
    """Reads a question and answers it in a thread, so that no request waits for another."""
    try:
        asked = work.Asked.of(json.loads(await _body(request)))
        return await run_in_threadpool(found, asked)
    except FAULTS as error:
        return JSONResponse({"error": str(error)}, status_code=400)


async def _shown(request: Request, page: Callable[[work.Asked], str]) -> Response:
    """Answers a question in the address with a page of its own."""
    given = request.query_params
    data = {"text": given.get("text"), "target": given.get("target") or None}
    data |= {"methods": given.getlist("method"), "unit": given.get("unit", "token")}
    try:
        return HTMLResponse(await run_in_threadpool(lambda: page(work.Asked.of(data))))
    except FAULTS as error:
        return PlainTextResponse(f"{error}\n", status_code=400)


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST:
            raise ValueError(f"the request has more than {MOST} bytes")
    return body
