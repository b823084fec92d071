"""Real HTTP receivers on loopback, and an independent check of signatures."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from contextlib import asynccontextmanager

from aiohttp import web

ADD = "INSERT INTO rota.events (namespace, kind, subject, data) VALUES ($1, $2, $3, $4) RETURNING id"


class Receiver:
    """Keeps what it gets; answers as told."""

    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}/hook/s3cret-path?token=s3cret-query"
        self.port = port
        self.requests = []
        self.status = 200
        self.delay_seconds = 0.0
        self.refused = None  # a text that is answered with 422
        self.on_request = lambda: None

    @property
    def events(self):
        return [json.loads(body) for _, body in self.requests]

    @property
    def kinds(self):
        return [event["event"] for event in self.events]

    @property
    def ids(self):
        return [headers["webhook-id"] for headers, _ in self.requests]

    async def take(self, request):
        body = await request.read()
        self.requests.append((dict(request.headers), body))
        self.on_request()
        await asyncio.sleep(self.delay_seconds)
        is_refused = self.refused is not None and self.refused.encode() in body
        return web.Response(status=422 if is_refused else self.status)


@asynccontextmanager
async def receiver(port=0):
    """A receiver that is up for the length of the block."""
    app = web.Application()
    taker = Receiver(port)
    app.router.add_post("/{rest:.*}", taker.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    taker.port = runner.addresses[0][1]
    taker.url = taker.url.replace(":0/", f":{taker.port}/")
    try:
        yield taker
    finally:
        await runner.cleanup()


def is_signed(headers, body, secret):
    """Whether one of the signatures is by this secret, by the words of the specification."""
    found = {name.lower(): value for name, value in headers.items()}
    content = f"{found['webhook-id']}.{found['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.split("_", 1)[1])
    wanted = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(one, f"v1,{wanted}") for one in found["webhook-signature"].split(" "))
