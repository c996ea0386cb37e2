"""``lrp-axioms serve``: a page on this machine, for one model."""

import os
import secrets
import socket
import sys
from contextlib import suppress
from typing import Annotated

import typer

from lrp_axioms.axioms.extras import need
from lrp_axioms.benchmarks.commands.console import (
    check_names,
    console,
    invocation,
    loading,
    mendable,
)
from lrp_axioms.benchmarks.commands.options import DTYPES, MODEL, Dtype
from lrp_axioms.benchmarks.commands.output import answer

PORT = 8765
LIMITS = {"timeout_graceful_shutdown": 1, "h11_max_incomplete_event_size": 2**20}  # s, bytes
LIMITS |= {"http": "h11"}  # another parser of addresses has another limit


def serve(
    model: Annotated[str, typer.Argument(**MODEL)] = "embedded",
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = PORT,
    dtype: Dtype = "float32",
    device: Annotated[str, typer.Option(help="As in explain.")] = "cpu",
):
    """Open a page on this machine that explains texts by several methods side by side."""
    with mendable():
        check_names("--dtype", [dtype], DTYPES)
        need("serve", "pytest", "starlette", "uvicorn", extra="app")
        with loading("the model"):
            import uvicorn

            from lrp_axioms.benchmarks.app.server import Server, application
            from lrp_axioms.benchmarks.sources import models

            loaded = models.load(model, device=device, dtype=dtype)
        token, listening = secrets.token_urlsafe(24), listen(port)
        port = listening.getsockname()[1]
        app = application(loaded, token, port)
    address = f"http://127.0.0.1:{port}/?token={token}"
    answer(address=address)
    quiet, console.quiet = console.quiet, invocation.json  # nobody could open the page without it
    console.print(address, highlight=False, soft_wrap=True)
    console.quiet = quiet
    console.print("Open this address in a browser; Ctrl-C ends the program.", style="dim")
    sys.stdout.flush()  # a program may wait for the address
    how = {"log_level": "warning", "access_log": False, "server_header": False}
    with suppress(KeyboardInterrupt):
        Server(uvicorn.Config(app, **how, **LIMITS)).run(sockets=[listening])
    os._exit(130)  # Python would wait for methods that run in threads


def listen(port: int) -> socket.socket:
    """Listens on a port of the loopback; ValueError if it is taken."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
        found.listen()
    except OSError as error:
        found.close()
        raise ValueError(f"--port {port}: {error.strerror}; pass another one, or 0") from error
    return found
