"""A worker's health, for whoever starts and restarts processes: GET /healthz on a port of its own.

Answered by a thread of its own, so that it answers also when the event loop does not turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from rota.errors import SetupError

OK, UNAVAILABLE, NOT_FOUND = 200, 503, 404


class Health(msgspec.Struct, frozen=True):
    """How a worker is doing; one that is not `well` had better be restarted."""

    well: bool
    status: str
    detail: str | None


class HealthServer:
    """Serves a worker's health."""

    def __init__(self, host: str, port: int, health: Callable[[], Health]) -> None:
        handler = _handler_of(health)
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise SetupError(f"ROTA_WORKER_PORT: port {port} on {host} can't be used ({error})") from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="rota-health", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Serves from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Serves no more."""
        self._server.shutdown()
        self._server.server_close()


def _handler_of(health: Callable[[], Health]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5
        server_version = "rota"
        sys_version = ""

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/healthz":
                self._answer(NOT_FOUND, {"status": "not found"})
                return
            state = health()
            body = {"status": state.status} | ({"detail": state.detail} if state.detail else {})
            self._answer(OK if state.well else UNAVAILABLE, body)

        def log_message(self, *_arguments: Any) -> None:
            """Probes come every few seconds; they are no news."""

        def _answer(self, status: int, body: dict[str, str]) -> None:
            data = msgspec.json.encode(body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
