"""A few pages for probes and scrapers, on a port of their own: a worker's health, metrics.

Served by threads, so that it answers even while the event loop is blocked. Connections are limited in number and
time: a client that holds connections open does not lock out others.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import msgspec

OK, UNAVAILABLE, NOT_FOUND = 200, 503, 404
MOST_CONNECTIONS = 32
SECONDS = 5.0
_JSON = "application/json"
_HEADERS = {
    "Connection": "close",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class ServedPage(NamedTuple):
    """An answer."""

    body: bytes
    status: int = OK
    content_type: str = _JSON


class PageServer:
    """Serves pages by their path; raises OSError if it can't listen."""

    def __init__(
        self,
        host: str,
        port: int,
        pages: Mapping[str, Callable[[], ServedPage]],
        *,
        name: str,
        seconds: float = SECONDS,
    ) -> None:
        self._server = _Listener((host, port), _handler_of(pages, seconds), seconds)
        self._thread = threading.Thread(target=self._server.serve_forever, name=name, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Listener(ThreadingHTTPServer):
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


def _status_page(status: int, words: str) -> ServedPage:
    return ServedPage(msgspec.json.encode({"status": words}), status)


def _handler_of(pages: Mapping[str, Callable[[], ServedPage]], seconds: float) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = seconds

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            self._answer(_status_page(NOT_FOUND, "not found") if page is None else page())

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            self._answer(_status_page(code, message or explain or "error"))
            self.close_connection = True

        def log_message(self, *_arguments: Any) -> None:
            """Probes come every few seconds and are not logged."""

        def _answer(self, page: ServedPage) -> None:
            self.request_version = self.protocol_version  # HTTP/0.9 would get no headers
            self.send_response_only(page.status)
            headers = {"Content-Type": page.content_type, **_HEADERS, "Content-Length": str(len(page.body))}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(page.body)

    return Handler
