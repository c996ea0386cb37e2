"""Refuses requests of other pages and programs."""

import secrets

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
