"""The bare server: what one more server on the way costs at least.

Plain ASGI on uvicorn and httptools, without routes, tokens, checks or a database. It passes the first request of a kind
on to Rota and from then on answers every other of the same method, path and number of jobs with what Rota said: a
client can't tell.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import sys
import time
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from bench.front_door.side import TEXT
from bench.peers.peer import PORT, setting

PORT_FILE = "echo.port"
MARK = TEXT.encode()  # once in each job
START_SECONDS = 30.0

Answer = tuple[dict[str, Any], dict[str, Any]]


class Echo:
    """The application."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._answers: dict[tuple[str, str, int], Answer] = {}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Reads the whole request and answers."""
        message = await receive()
        body = message["body"]
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        kind = scope["method"], scope["path"], body.count(MARK)
        answer = self._answers.get(kind)
        if answer is None:
            answer = await asyncio.to_thread(self._ask, kind[:2], scope["headers"], body)
            if answer[0]["status"] < http.client.BAD_REQUEST:
                self._answers[kind] = answer
        for part in answer:
            await send(part)

    def _ask(self, line: tuple[str, str], headers: list[tuple[bytes, bytes]], body: bytes) -> Answer:
        """What Rota says to it."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        connection.request(*line, body, {name.decode(): value.decode() for name, value in headers})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        return (
            {"type": "http.response.start", "status": answer.status, "headers": head},
            {"type": "http.response.body", "body": content},
        )


def command(python: str) -> list[str]:
    """Starts it; {home} is filled in."""
    return [python, "-m", "bench.front_door.echo", "{home}"]


def address(home: Path) -> str:
    """Where it listens; waits until it does."""
    file, deadline = home / PORT_FILE, time.monotonic() + START_SECONDS
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return f"http://127.0.0.1:{file.read_text()}"


def main() -> None:
    """Serves until it is killed."""
    listening = socket.create_server(("127.0.0.1", 0))
    file = Path(sys.argv[1]) / PORT_FILE
    written = file.with_suffix(".new")
    written.write_text(str(listening.getsockname()[1]))
    written.rename(file)  # never seen half written
    options = {"http": "httptools", "lifespan": "off", "access_log": False, "log_level": "warning"}
    server = uvicorn.Server(uvicorn.Config(Echo(int(setting(PORT))), **options))  # type: ignore[arg-type]
    uvloop.run(server.serve(sockets=[listening]))


if __name__ == "__main__":
    main()
