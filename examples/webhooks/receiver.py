"""A customer's side: a small HTTP server that checks signatures, and fails as often as it is told to."""

from __future__ import annotations

import argparse
import hmac
import json
import os
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from webhooks import sign

OK, SICK, FORGED = 204, 503, 401
Fails = Callable[[int], bool]


class Delivery(NamedTuple):
    """An event that was accepted."""

    customer: str
    event: Any
    time: float


class Receiver(ThreadingHTTPServer):
    """Takes POST /CUSTOMER. `fails` is asked with the number of the request, from 1."""

    daemon_threads = True

    def __init__(self, port: int, secret: str, fails: Fails = lambda _number: False) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.secret = secret
        self.fails = fails
        self.requests = 0
        self.deliveries: list[Delivery] = []
        self.lock = threading.Lock()

    def judge(self, customer: str, signature: str, body: bytes) -> int:
        """The status to answer with; keeps what is accepted."""
        with self.lock:
            self.requests += 1
            if not hmac.compare_digest(signature, sign(self.secret, customer, body)):
                return FORGED
            if self.fails(self.requests):
                return SICK
            self.deliveries.append(Delivery(customer, json.loads(body), time.time()))
            return OK


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Receiver

    def do_POST(self) -> None:
        """Answers as the receiver judges."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.judge(self.path.strip("/"), self.headers.get("Webhook-Signature", ""), body)
        self.send_response(status)
        self.end_headers()

    def log_message(self, template: str, *values: Any) -> None:
        """On standard output, where one sees it come in."""
        print(template % values, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fail-every", type=int, default=0, help="1: always, 3: every third request")
    given = parser.parse_args()
    every: int = given.fail_every
    Receiver(
        given.port, os.environ["ROTA_SECRET_WEBHOOKS"], lambda number: bool(every) and number % every == 0
    ).serve_forever()
