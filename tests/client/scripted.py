"""Servers on this machine that say what a test tells them to, and both faces of the client's connections."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.parser import BytesParser

import uvloop

from rota.client._sync.http import HttpConnections
from rota.client.async_http import AsyncHttpConnections
from rota.client.http_routes import find_route
from rota.client.server_address import time_limits, trust
from support import GUARD_SECONDS

BEGIN = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"  # of a stream
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    method: str
    target: str
    headers: dict[str, str]
    content: bytes
    connection: int

    @property
    def path(self) -> str:
        """The target without the query."""
        return self.target.partition("?")[0]


class Peer:
    """The server's end of a connection."""

    def __init__(self, one: socket.socket, number: int, heard: list[Asked]) -> None:
        self.socket = one
        self.number = number
        self._heard = heard
        self._read = b""

    def request(self, *, content: bool = True) -> Asked | None:
        """The next request, noted for the test; None if the client hung up."""
        while b"\r\n\r\n" not in self._read:
            if not self._more():
                return None
        head, self._read = self._read.split(b"\r\n\r\n", 1)
        first, fields = head.split(b"\r\n", 1)
        headers = {name.lower(): value for name, value in BytesParser().parsebytes(fields + b"\r\n\r\n").items()}
        size = int(headers.get("content-length", 0)) if content else 0
        while len(self._read) < size:
            if not self._more():
                return None
        body, self._read = self._read[:size], self._read[size:]
        method, target, _ = first.decode().split(" ")
        asked = Asked(method, target, headers, body, self.number)
        self._heard.append(asked)
        return asked

    def _more(self) -> bool:
        try:
            data = self.socket.recv(65536)
        except OSError:
            return False
        self._read += data
        return bool(data)

    def send(self, data: bytes) -> None:
        """Sends this as it is."""
        self.socket.sendall(data)

    def close(self) -> None:
        """Hangs up."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def reset(self) -> None:
        """Breaks the connection."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def gone(self) -> bool:
        """Waits until the client has hung up."""
        self.socket.settimeout(GUARD_SECONDS)
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


class Scripted:
    """A server whose script runs for each connection, in a thread of its own."""

    def __init__(self, script: Callable[[Peer], None], host: str, tls: ssl.SSLContext | None) -> None:
        self.heard: list[Asked] = []
        self.failures: list[BaseException] = []
        self._script = script
        self._tls = tls
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.port = self._listener.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls else 'http'}://{shown}:{self.port}"
        self._peers: list[Peer] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def connections(self) -> int:
        """How many there were."""
        return len(self._peers)

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            peer = Peer(one, len(self._peers), self.heard)
            self._peers.append(peer)
            thread = threading.Thread(target=self._serve, args=(peer,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: Peer) -> None:
        try:
            if self._tls:
                peer.socket = self._tls.wrap_socket(peer.socket, server_side=True)
            self._script(peer)
        except (OSError, ValueError) as error:
            self.failures.append(error)
        finally:
            peer.close()

    def close(self) -> None:
        """Ends everything."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(GUARD_SECONDS)
        for peer in self._peers:
            with suppress(OSError):
                peer.socket.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(GUARD_SECONDS)
            assert not thread.is_alive()


@contextmanager
def scripted(script, *, host="127.0.0.1", tls=None):
    """A server that does this on each connection."""
    server = Scripted(script, host, tls)
    try:
        yield server
    finally:
        server.close()


def answering(*answers: bytes):
    """A script: these answers in turn over all connections, the last of them for ever."""
    coming = list(answers)

    def script(peer):
        while peer.request():
            peer.send(coming.pop(0) if len(coming) > 1 else coming[0])

    return script


def answer(status: int, content: bytes = b"", **headers: str) -> bytes:
    """An answer with a length."""
    fields = {"Content-Length": str(len(content)), **{name.replace("_", "-"): text for name, text in headers.items()}}
    lines = [f"HTTP/1.1 {status} Words", *(f"{name}: {text}" for name, text in fields.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def chunk(data: bytes) -> bytes:
    """A piece of a stream; an empty one ends it."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


class Connected:
    """The connections of one face to a server, to be called without await."""

    def __init__(self, url, headers, ca_file, runner, options):
        route = find_route(url, trust(url, ca_file))
        self._runner = runner
        self.connections = (HttpConnections if runner is None else AsyncHttpConnections)(route, headers, **options)

    def request(self, method="GET", path="/", *, seconds=GUARD_SECONDS, **options):
        """The answer."""
        return self._run(self.connections.request(method, path, limits=time_limits(seconds), **options))

    def pieces(self, path="/", *, seconds=GUARD_SECONDS, most=1000):
        """The pieces of a stream."""
        streamed = self.connections.stream(path, limits=time_limits(seconds))
        if self._runner is not None:
            return self._run(_pieces(streamed, most))
        with streamed as found:
            read = []
            while len(read) < most and (piece := found.piece()):
                read.append(piece)
            return found.status, read

    def close(self):
        """Ends the connections."""
        self._run(self.connections.close() if self._runner is None else self.connections.aclose())

    def _run(self, found):
        return found if self._runner is None else self._runner.run(found)


async def _pieces(streamed, most):
    async with streamed as found:
        read = []
        while len(read) < most and (piece := await found.piece()):
            read.append(piece)
        return found.status, read


@contextmanager
def face_of(name):
    """Makes connections of this face: asyncio, uvloop or sync."""
    opened = []
    factory = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop, "sync": None}[name]
    runner = asyncio.Runner(loop_factory=factory) if factory else None

    def connect(url, headers=None, ca_file=None, **options):
        opened.append(Connected(url, headers or {}, ca_file, runner, options))
        return opened[-1]

    connect.runner = runner
    try:
        yield connect
        for one in opened:
            one.close()
    finally:
        if runner is not None:
            runner.close()
