"""A worker's health, for supervisors and probes: GET /healthz on a port of its own.

Answered by threads of its own, so that it answers also when the event loop does not turn. There are only so many of
them, and each has only so long: a client that holds connections open keeps no other from asking.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from rota.errors import SetupError

OK, UNAVAILABLE, NOT_FOUND = 200, 503, 404
MOST_CONNECTIONS = 32
SECONDS = 5.0
_HEADERS = {
    "Content-Type": "application/json",
    "Connection": "close",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class WorkerHealth(msgspec.Struct, frozen=True):
    """How a worker is doing; one that is not `well` had better be restarted."""

    well: bool
    status: str
    detail: str | None


class HealthServer:
    """Serves a worker's health."""

    def __init__(self, host: str, port: int, health: Callable[[], WorkerHealth], *, seconds: float = SECONDS) -> None:
        handler = _handler_of(health, seconds)
        try:
            self._server = _Server((host, port), handler, seconds)
        except OSError as error:
            raise SetupError(f"ROTA_WORKER_PORT: port {port} on {host} can't be used ({error})") from None
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


class _Server(ThreadingHTTPServer):
    """Keeps the time of each connection, and makes room for a new one by ending the oldest."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], seconds: float) -> None:
        self._seconds = seconds
        self._open: dict[socket.socket, float] = {}  # since when; the oldest first
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            oldest = next(iter(self._open)) if len(self._open) >= MOST_CONNECTIONS else None
            self._open[request] = time.monotonic()
        if oldest is not None:
            self._cut(oldest)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._forget(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called about twice a second: a time-out of the socket alone would begin anew with each byte."""
        with self._lock:
            late = [line for line, since in self._open.items() if time.monotonic() - since > self._seconds]
        for line in late:
            self._cut(line)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A prober that hangs up is no news."""

    def _cut(self, line: socket.socket) -> None:
        self._forget(line)
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)  # its thread notices, and closes it

    def _forget(self, line: socket.socket) -> None:
        with self._lock:
            self._open.pop(line, None)


def _handler_of(health: Callable[[], WorkerHealth], seconds: float) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = seconds

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/healthz":
                self._answer(NOT_FOUND, {"status": "not found"})
                return
            state = health()
            body = {"status": state.status} | ({"detail": state.detail} if state.detail else {})
            self._answer(OK if state.well else UNAVAILABLE, body)

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            self._answer(code, {"status": message or explain or "error"})
            self.close_connection = True

        def log_message(self, *_arguments: Any) -> None:
            """Probes come every few seconds; they are no news."""

        def _answer(self, status: int, body: dict[str, str]) -> None:
            data = msgspec.json.encode(body)
            self.request_version = self.protocol_version  # to HTTP/0.9 no headers would be sent
            self.send_response_only(status)
            for name, value in (_HEADERS | {"Content-Length": str(len(data))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    return Handler
