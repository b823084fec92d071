"""A worker's health, for supervisors and probes: GET /healthz on a port of its own.

Served by threads, so that it answers even while the event loop is blocked. Connections are limited in number and
time: a client that holds connections open does not lock out others.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

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
    """A worker's state; one that is not `well` should be restarted."""

    well: bool
    status: str
    detail: str | None


class HealthyOrNot(Protocol):
    """A worker."""

    def health(self) -> WorkerHealth: ...


def worst_health(workers: Sequence[HealthyOrNot]) -> WorkerHealth:
    """The state of the worker of this process that is worst off."""
    states = [worker.health() for worker in workers]
    return min(states, key=lambda state: (state.well, state.detail is None, state.status == "live"))


class HealthServer:
    """Serves GET /healthz."""

    def __init__(self, host: str, port: int, health: Callable[[], WorkerHealth], *, seconds: float = SECONDS) -> None:
        try:
            self._server = _HealthServer((host, port), _handler_of(health, seconds), seconds)
        except OSError as error:
            raise SetupError(f"ROTA_WORKER_PORT: port {port} on {host} can't be used ({error})") from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="rota-health", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _HealthServer(ThreadingHTTPServer):
    """Limits how long connections last, and closes the oldest to make room for a new one."""

    daemon_threads = True
    # The library's 5 are soon used up in a burst, and a probe that finds no place waits a second or more for its
    # kernel to try again.
    request_queue_size = 4 * MOST_CONNECTIONS

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], seconds: float) -> None:
        self._seconds = seconds
        self._open: dict[socket.socket, float] = {}  # when each was opened, oldest first
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
        """Called about twice a second; a socket timeout alone would start again with each byte."""
        with self._lock:
            late = [line for line, since in self._open.items() if time.monotonic() - since > self._seconds]
        for line in late:
            self._cut(line)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores probes that hang up."""

    def _cut(self, line: socket.socket) -> None:
        self._forget(line)
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)  # its thread notices and closes it

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
            """Probes come every few seconds and are not logged."""

        def _answer(self, status: int, body: dict[str, str]) -> None:
            data = msgspec.json.encode(body)
            self.request_version = self.protocol_version  # HTTP/0.9 would get no headers
            self.send_response_only(status)
            for name, value in (_HEADERS | {"Content-Length": str(len(data))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    return Handler
