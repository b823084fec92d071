"""A monitor outside of the installation: it counts what it is told."""

from __future__ import annotations

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@contextmanager
def monitor(status: int = 200):
    """Listens on a port of its own; `url` is its secret address, `heard` what it was asked."""
    heard: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append((self.command, self.path))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.heard = heard
        server.url = f"http://127.0.0.1:{server.server_port}/ping/9f1c0ffee-secret"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
