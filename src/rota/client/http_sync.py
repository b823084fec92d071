"""Connections for the synchronous client: blocking sockets, shared by threads, one request at a time on each.

Idle connections stand in a deque whose operations are atomic: there is no lock that a fork could find taken. A forked
process forgets the connections of its parent; on them, two processes would read each other's answers.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections import deque

from rota.client.http_messages import (
    JOINED_BYTES,
    ConnectionLostError,
    ConnectTimeoutError,
    ExchangeError,
    ExchangeTimeoutError,
    HungUpError,
    words_of,
)
from rota.client.http_parser import AnswerReader
from rota.client.http_routes import (
    IDLE_SECONDS,
    SURE_SECONDS,
    Route,
    check_tunnel,
    not_connected,
    shares,
)

_RECEIVED_BYTES = 64 * 1024


class Stock:
    """Connections that wait for a request."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: deque[Connection] = deque()
        self._process = os.getpid()
        self._closed = False

    def begin(self) -> None:
        """Forgets the connections of the process that this one was forked from; raises RuntimeError for a closed
        client."""
        if self._closed:
            raise RuntimeError("the client is closed")
        if self._process != os.getpid():
            self._drop()
            self._process = os.getpid()

    def enter(self, seconds: float) -> None:  # noqa: ARG002 - there are as many turns as threads
        """As `begin`, without waiting."""
        self.begin()

    def leave(self) -> None:
        """Nobody waits for the turn."""

    def take(self, *, repeatable: bool) -> Connection | None:
        """The connection that was used last, since the server has least reason to close it."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.is_usable(repeatable=repeatable):
                return connection
            connection.close()

    def give(self, connection: Connection) -> None:
        """Keeps the connection, or closes it; also closes an old one, and the next time another."""
        if self._closed or not connection.reader.keeps_alive or len(self._idle) >= self._most:
            connection.close()
            return
        now = connection.idle_since = time.monotonic()
        self._idle.append(connection)
        try:
            if now - self._idle[0].idle_since > IDLE_SECONDS:
                self._idle.popleft().close()
        except IndexError:
            return  # another thread took it

    def close(self) -> None:
        """Closes what is not in use, and later the rest."""
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return


class Connection:
    """A socket and the answers that come from it."""

    def __init__(self, plain_or_tls: socket.socket, *, is_plain: bool) -> None:
        self._socket = plain_or_tls
        self._is_plain = is_plain
        self._seconds = plain_or_tls.gettimeout()
        self.reader = AnswerReader()
        self.idle_since = 0.0

    def is_usable(self, *, repeatable: bool) -> bool:
        """Whether to send another request; a look at the socket costs time, and a repeatable request can risk it."""
        idle_seconds = time.monotonic() - self.idle_since
        if idle_seconds > IDLE_SECONDS:
            return False
        return (repeatable and idle_seconds < SURE_SECONDS) or not _ready(self._socket, select.POLLIN, 0.0)

    def exchange(self, head: bytes, content: bytes, seconds: float, *, without_body: bool, only_head: bool) -> None:
        """Sends a request and reads the answer, or its head; closes the connection if that fails, for whatever reason:
        a later request must not get this one's answer."""
        try:
            self._begin(seconds, without_body=without_body)
            reader = self.reader
            lost = self._send(head, content)
            while not (reader.is_complete or (only_head and reader.has_head)):
                self._read(lost)
            if lost is not None or only_head:
                reader.keeps_alive = False
        except BaseException:
            self.close()
            raise

    def receive(self) -> None:
        """Reads some more of an answer; closes the connection if that fails."""
        try:
            self._read(None)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def _begin(self, seconds: float, *, without_body: bool) -> None:
        self.reader.begin()
        self.reader.without_body = without_body
        if seconds != self._seconds:
            self._socket.settimeout(seconds)
            self._seconds = seconds

    def _send(self, head: bytes, content: bytes) -> ConnectionLostError | None:
        """Sends a request; what went wrong is raised later, because the answer may say why."""
        pieces = [head + content] if len(content) <= JOINED_BYTES else [head, content]
        sent = 0
        try:
            if len(pieces) == 1:
                sent = self._socket.send(pieces[0])
                if sent == len(pieces[0]):
                    return None
                pieces = [pieces[0][sent:]]
            if not self._send_while_reading(pieces):
                self.reader.keeps_alive = False
        except TimeoutError:
            raise ExchangeTimeoutError("it did not take the request") from None
        except OSError as error:
            never_sent = not sent and self._is_plain and len(pieces) == 1
            return ConnectionLostError(words_of(error), unanswered=True, never_sent=never_sent)
        return None

    def _send_while_reading(self, pieces: list[bytes]) -> bool:
        """Sends what doesn't fit into the buffers, unless the server answers before (413); whether all was sent."""
        self._socket.settimeout(0)
        try:
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    events = _ready(self._socket, select.POLLIN | select.POLLOUT, self._seconds)
                    if not events:
                        raise TimeoutError
                    if events & ~select.POLLOUT and self._receive_ready():
                        return False
                    rest = rest[self._send_ready(rest) :]
        finally:
            self._socket.settimeout(self._seconds)
        return True

    def _send_ready(self, rest: memoryview) -> int:
        try:
            return self._socket.send(rest)
        except OSError as error:
            if not _would_block(error):
                raise
            return 0

    def _receive_ready(self) -> bool:
        """Reads what has come; whether the answer is complete."""
        while not self.reader.is_complete:
            try:
                data = self._socket.recv(_RECEIVED_BYTES)
            except OSError as error:
                if not _would_block(error):
                    raise
                return False
            self._feed(data, None)
        return True

    def _read(self, lost: ConnectionLostError | None) -> None:
        try:
            data = self._socket.recv(_RECEIVED_BYTES)
        except TimeoutError:
            raise ExchangeTimeoutError("it said nothing") from None
        except OSError as error:
            unanswered = not self.reader.has_begun
            raise lost or ConnectionLostError(words_of(error), unanswered=unanswered) from None
        self._feed(data, lost)

    def _feed(self, data: bytes, lost: ConnectionLostError | None) -> None:
        if data:
            self.reader.feed(data)
        elif not self.reader.end():
            if lost:
                raise lost
            if not self.reader.has_begun:
                raise HungUpError
            raise ConnectionLostError("it hung up before its answer was complete", unanswered=False)


def _ready(one: socket.socket, events: int, seconds: float | None) -> int:
    """Which of the events, or of those that are always reported, the socket is ready for."""
    poll = select.poll()
    poll.register(one, events)
    found = poll.poll(None if seconds is None else seconds * 1000)
    return found[0][1] if found else 0


def _would_block(error: OSError) -> bool:
    """Whether a socket, plain or with TLS, has only to be waited for."""
    return isinstance(error, BlockingIOError) or type(error).__name__ in {"SSLWantReadError", "SSLWantWriteError"}


def connect(route: Route, seconds: float) -> Connection:
    """A new connection, through the proxy and with TLS if the way has them."""
    deadline = time.monotonic() + seconds
    try:
        one = _open_socket(route, seconds)
        try:
            if route.tunnel:
                _open_tunnel(one, route, deadline)
            if route.tls:
                one.settimeout(_left(deadline))
                one = route.tls.wrap_socket(one, server_hostname=route.server_name)
        except BaseException:
            one.close()
            raise
    except TimeoutError:
        raise ConnectTimeoutError(f"no connection within {seconds:g} s") from None
    except (OSError, UnicodeError, ExchangeError) as error:
        raise not_connected(route, error) from None
    return Connection(one, is_plain=route.tls is None)


def _open_socket(route: Route, seconds: float) -> socket.socket:
    """A connection to the first address that takes one."""
    failure: OSError | None = None
    addresses = socket.getaddrinfo(route.host, route.port, type=socket.SOCK_STREAM)
    for (family, kind, number, _, address), share in zip(addresses, shares(len(addresses), seconds), strict=True):
        one = socket.socket(family, kind, number)
        try:
            one.settimeout(share)
            one.connect(address)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            one.close()
            failure = error
        except BaseException:
            one.close()
            raise
        else:
            return one
    raise failure or OSError(f"{route.host} has no address")


def _open_tunnel(one: socket.socket, route: Route, deadline: float) -> None:
    """Asks the proxy for a connection to the server."""
    assert route.tunnel is not None  # noqa: S101 - asked by the caller
    one.settimeout(_left(deadline))
    one.sendall(route.tunnel)
    reader = AnswerReader()
    reader.without_body = True
    while not reader.is_complete:
        one.settimeout(_left(deadline))
        data = one.recv(_RECEIVED_BYTES)
        if not data:
            break
        reader.feed(data)
    check_tunnel(reader.status)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
