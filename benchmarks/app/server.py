"""Serves the page of one model on this machine, to holders of a secret token alone."""

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from lrp_axioms.axioms.composites import UnassignedOperation
from lrp_axioms.axioms.extras import MissingLibrary
from lrp_axioms.benchmarks.app import proofs, work
from lrp_axioms.benchmarks.app.asked import Asked
from lrp_axioms.benchmarks.app.guard import Guard
from lrp_axioms.benchmarks.commands.advice import of_command
from lrp_axioms.benchmarks.sources.models import Classifier
from lrp_axioms.numeric.auditing.page import page as page_of_audit
from lrp_axioms.numeric.results import render

SOURCE = Path(__file__).with_name("page.html").read_text("utf-8")
FAULTS = (ValueError, UnassignedOperation, MissingLibrary)  # a reader can mend them
MOST = 200_000  # bytes of a request


class LeftError(Exception):
    """The reader has closed the page, or asked something else."""


def application(loaded: Classifier, token: str, port: int) -> Starlette:
    """Makes the application: a page, explanations as events, and files to download."""
    hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
    template = Environment(autoescape=True).from_string(SOURCE)

    async def page(_request: Request) -> Response:
        parts = render.fixed(SOURCE)
        parts["policy"] += "; connect-src 'self'"
        return HTMLResponse(template.render(about=work.about(loaded), **parts))

    async def explain(request: Request) -> Response:
        """Answers with server-sent events, and an error that is found later is one of them."""
        try:
            asked = Asked.of(await _body(request))
        except FAULTS as error:
            return _refused(request, error)
        events = _events(partial(work.answer, loaded, asked))
        return StreamingResponse(events, media_type="text/event-stream")

    async def download(request: Request) -> Response:
        kind = request.path_params["kind"]
        content = partial(work.file, kind=kind)
        answer = lambda asked: Response(content(loaded, asked), media_type=work.FILES[kind])
        return await _answered(request, answer)

    async def statements(request: Request) -> Response:
        found = lambda asked: JSONResponse(work.audited(loaded, asked)["verdicts"])
        return await _answered(request, found)

    async def python(request: Request) -> Response:
        def lines(asked: Asked) -> Response:
            a = work.explained(loaded, asked, asked.methods[0]).attribution
            return PlainTextResponse(work.python(loaded, asked, a.target[0].tolist()))

        return await _answered(request, lines)

    async def audit(request: Request) -> Response:
        found = lambda asked: HTMLResponse(page_of_audit(work.audited(loaded, asked)))
        return await _answered(request, found)

    async def written(request: Request) -> Response:
        count = request.query_params.get("count", "")
        number = int(count) if count.isdecimal() else 0
        return await _answered(
            request, lambda asked: HTMLResponse(work.written(loaded, asked, number))
        )

    async def proof(request: Request) -> Response:
        given = request.query_params
        text = partial(proofs.text, given.get("name", ""), given.get("method", ""))
        try:
            return PlainTextResponse(await run_in_threadpool(text))
        except FAULTS as error:
            return _refused(request, error)

    post = {"methods": ["POST"]}
    routes = [
        Route("/", page),
        Route("/explain", explain, **post),
        Route("/statements", statements, **post),
        Route("/python", python, **post),
        Route("/file/{kind}", download, **post),
        Route("/audit", audit),
        Route("/written", written),
        Route("/proof", proof),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, token=token, hosts=hosts)])


async def _answered(request: Request, found: Callable[[Asked], Response]) -> Response:
    """Reads a question and answers it in a thread, so that no request waits for another."""
    try:
        given = request.query_params.get("asked", "")
        body = await _body(request) if request.method == "POST" else given
        return await run_in_threadpool(lambda: found(Asked.of(body)))
    except FAULTS as error:
        return _refused(request, error)


def _refused(request: Request, error: Exception) -> Response:
    if request.method == "POST":  # by the page's own program
        return JSONResponse({"error": _said(error)}, status_code=400)
    return PlainTextResponse(f"{_said(error)}\n", status_code=400)


def _said(error: Exception) -> str:
    """Writes an error with the names of the page's fields, and not of a command's options."""
    return re.sub(r"--(?=(target|contrast|column)\b)", "", of_command(str(error)))


async def _events(work_of: Callable[[work.Tell], None]) -> AsyncIterator[str]:
    """Yields events of work in a thread; work whose reader has left ends at its next event."""
    loop, found = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any] | None]()
    left = threading.Event()

    def tell(event: dict[str, Any] | None) -> None:
        if left.is_set():
            raise LeftError
        loop.call_soon_threadsafe(found.put_nowait, event)

    def run() -> None:
        with suppress(LeftError):
            try:
                work_of(tell)
                tell({"end": True})
            except FAULTS as error:
                tell({"error": _said(error)})
            finally:
                tell(None)

    running = loop.run_in_executor(None, run)
    try:
        while (event := await found.get()) is not None:
            yield f"data: {json.dumps(event)}\n\n"
        await running  # a fault of this program is raised here, and printed
    finally:
        left.set()


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST:
            raise ValueError(f"the request has more than {MOST} bytes")
    return body
