"""Requests as bytes, and a server whose limits a test chooses."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import httptools
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from listening import running
from rota.api.http.connection import ConnectionLimits
from rota.api.http.security_headers import GuardedApplication
from rota.api.server import http_config
from support import GUARD_SECONDS, in_time

# Nothing is cut unless a test makes the limit that it is about short.
AMPLE = dict.fromkeys(
    ("head_seconds", "body_seconds", "answer_seconds", "keep_alive_seconds", "rest_seconds", "deaf_seconds"),
    10 * GUARD_SECONDS,
)


@dataclass
class Answered:
    """One answer."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class _Reader:
    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.answers: list[Answered] = []
        self._now = Answered()

    def on_message_begin(self) -> None:
        self._now = Answered()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._now.headers[name.decode().lower()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self._now.body += body

    def on_message_complete(self) -> None:
        self._now.status = self.parser.get_status_code()
        self.answers.append(self._now)


def read_answers(data: bytes) -> list[Answered]:
    """The answers in what came back; fails when there is something else in it."""
    reader = _Reader()
    reader.parser.set_dangerous_leniencies(lenient_data_after_close=False)
    reader.parser.feed_data(data)
    return reader.answers


async def say(port: int, *pieces: bytes, pause: float = 0.0) -> bytes:
    """Sends the pieces and returns everything that comes until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    # Read beside: what came is lost when the connection is reset before it is read.
    reading = asyncio.create_task(read_all(reader))
    try:
        with suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause)
        return await in_time(reading)
    finally:
        writer.close()


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """Until the end, however it comes."""
    data = b""
    with suppress(ConnectionError):
        while piece := await reader.read(65536):
            data += piece
    return data


async def ask(port: int, *pieces: bytes, pause: float = 0.0) -> list[Answered]:
    """The answers to what is sent, once the server has ended the connection."""
    return read_answers(await say(port, *pieces, pause=pause))


class Seen:
    """What the application got to see."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self.streaming = 0
        self.go_on = asyncio.Event()


def build_echo(seen: Seen) -> GuardedApplication:
    """An application that notes what it is asked."""

    async def echo(request):
        body = await request.body()
        seen.requests.append((request.method, request.url.path, body))
        seen.headers.append(dict(request.headers))
        return Response(body or b"nothing")

    async def refuse(request):
        seen.requests.append((request.method, request.url.path, b""))
        return Response(b"no", 401)

    async def large(request):
        return Response(b"x" * 30_000_000)

    async def stream(request):
        async def pieces():
            seen.streaming += 1
            try:
                while True:
                    yield b"x" * 10_000
                    await asyncio.sleep(0)
            finally:
                seen.streaming -= 1

        return StreamingResponse(pieces())

    async def wait(request):
        await seen.go_on.wait()
        return Response(b"waited")

    async def fail(request):
        raise RuntimeError("of a test")

    routes = [
        Route("/refuse", refuse, methods=["GET", "POST"]),
        Route("/large", large),
        Route("/stream", stream),
        Route("/wait", wait),
        Route("/fail", fail),
        Route("/{rest:path}", echo, methods=["GET", "POST", "OPTIONS"]),
    ]
    return GuardedApplication(routes=routes)


@asynccontextmanager
async def served(app, *, tls=None, **limits):
    """An application behind the real server, on a port of this machine: the server."""
    given = ConnectionLimits(**AMPLE | {"look_seconds": 0.05} | limits)
    config = http_config(app, "127.0.0.1", 0, limits=given, tls=tls)
    async with running(config) as server:
        server.keeper = config.http_protocol_class.keywords["doorkeeper"]
        yield server
