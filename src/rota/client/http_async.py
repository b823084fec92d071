"""Connections for the asynchronous client, on asyncio's or uvloop's transports, one request at a time on each.

A request costs one future and one write. There is no timer per request: each connection has one, which looks now and
then whether the server was silent for too long.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections import deque
from contextlib import suppress
from typing import Any

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
from rota.time_limits import time_limit

# More of a stream than this is left with the server until it is read.
_HELD_BYTES = 256 * 1024
_RECEIVED_BYTES = 64 * 1024


class AsyncStock:
    """Connections that wait for a request, and turns at having one in use."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle: deque[AsyncConnection] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns = asyncio.Semaphore(most)
        self._closed = False

    def begin(self) -> None:
        """Forgets connections of another event loop, which may be closed; raises RuntimeError for a closed client."""
        if self._closed:
            raise RuntimeError("the client is closed")
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._drop()
            self._loop, self._turns = loop, asyncio.Semaphore(self._most)

    async def enter(self, seconds: float) -> None:
        """Waits for a turn, but no longer than this."""
        self.begin()
        if not self._turns.locked():
            await self._turns.acquire()
            return
        try:
            async with time_limit(seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise ConnectTimeoutError("all connections of this client are in use") from None

    def leave(self) -> None:
        """Ends a turn."""
        self._turns.release()

    def take(self, *, repeatable: bool) -> AsyncConnection | None:
        """The connection that was used last, since the server has least reason to close it."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable(repeatable=repeatable):
                return connection
            connection.close()
        return None

    def give(self, connection: AsyncConnection) -> None:
        """Keeps the connection, or closes it."""
        if self._closed or not connection.reader.keeps_alive or len(self._idle) >= self._most:
            connection.close()
        else:
            connection.rest()
            self._idle.append(connection)

    async def aclose(self) -> None:
        """Closes what is not in use, and later the rest."""
        self._closed = True
        self._drop()
        await asyncio.sleep(0)  # transports close in the next round of the loop

    def _drop(self) -> None:
        while self._idle:
            # Of an event loop that is closed, only the garbage collector closes the sockets.
            with suppress(RuntimeError):
                self._idle.pop().close()


class AsyncConnection(asyncio.Protocol):
    """A transport and the answers that come from it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.reader = AnswerReader()
        self._loop = loop
        self._transport: asyncio.Transport
        self._is_open = False
        self._is_new = True
        self._is_busy = True  # some servers answer before they are asked: that they take no more connections
        self._waits_for_all = True  # of the answer, not for the next piece
        self._waiter: asyncio.Future[None] | None = None
        self._failure: ExchangeError | None = None
        self._is_paused = False
        # For the timer. `_unsent_bytes` is what was left to send when it last looked.
        self._seconds = 0.0
        self._last_sign = 0.0
        self._unsent_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_time = 0.0

    def is_usable(self, *, repeatable: bool) -> bool:
        """Whether to send another request; a look at the socket costs time, and a repeatable request can risk it."""
        idle_seconds = self._loop.time() - self._last_sign
        if not self._is_open or idle_seconds > IDLE_SECONDS:
            return False
        return (repeatable and idle_seconds < SURE_SECONDS) or not _has_news(self._transport)

    async def exchange(
        self, head: bytes, content: bytes, seconds: float, *, without_body: bool, only_head: bool
    ) -> None:
        """Sends a request and reads the answer, or its head; closes the connection if that fails, for whatever reason:
        a later request must not get this one's answer."""
        if not self._is_new:
            self.reader.begin()
        self.reader.without_body = without_body
        self._is_new, self._is_busy, self._waits_for_all = False, True, not only_head
        self._watch(seconds)
        try:
            if self._is_over():
                return
            if len(content) <= JOINED_BYTES:
                self._transport.write(head + content)
            else:
                self._transport.write(head)
                self._transport.write(content)
                self._unsent_bytes = self._transport.get_write_buffer_size()
            waiter = self._waiter = self._loop.create_future()
            await waiter
            while only_head and not self.reader.has_head:
                await self._news()
        except BaseException:
            self.close()
            raise
        if only_head:
            self.reader.keeps_alive = False

    def _is_over(self) -> bool:
        """Whether the server has answered before it was asked; raises the error if the connection has broken."""
        if self._failure is not None:
            self._failure.never_sent = True
            raise self._failure
        self.reader.keeps_alive = False
        return self.reader.is_complete

    async def receive(self) -> None:
        """Waits for more of a stream; closes the connection if that fails."""
        try:
            if self._is_paused:
                self._is_paused = False
                self._transport.resume_reading()
            self._watch(self._seconds)
            await self._news()
        except BaseException:
            self.close()
            raise

    def rest(self) -> None:
        """Waits for the next request."""
        self._is_busy = False
        self._last_sign = self._loop.time()

    def close(self) -> None:
        """Closes the connection at once, whatever was not sent yet."""
        self._is_open = self._is_busy = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The transport is there."""
        self._transport = transport  # type: ignore[assignment]
        self._is_open = True

    def data_received(self, data: bytes) -> None:
        """A part of an answer; from a server that was asked nothing, a reason to close."""
        if not self._is_busy:
            self.close()
            return
        self._last_sign = self._loop.time()
        try:
            complete = self.reader.feed(data)
        except ExchangeError as error:
            self._fail(error)
            self.close()
            return
        if complete:
            if self._unsent_bytes and self._transport.get_write_buffer_size():
                self.reader.keeps_alive = False  # answered before all was sent (413)
            self._wake()
        elif not self._waits_for_all:
            if self.reader.held_bytes > _HELD_BYTES:
                self._is_paused = True
                self._transport.pause_reading()
            self._wake()

    def eof_received(self) -> None:
        """The server hung up: from now on a request would be lost silently."""
        self._is_open = False

    def connection_lost(self, exc: Exception | None) -> None:
        """The server hung up, or the connection broke."""
        self._is_open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_busy:
            return
        unanswered = not self.reader.has_begun
        if exc is not None:
            words = words_of(exc) if isinstance(exc, OSError) else str(exc) or type(exc).__name__
            self._fail(ConnectionLostError(words, unanswered=unanswered))
        elif self.reader.is_complete or self.reader.end():
            self._wake()
        elif unanswered:
            self._fail(HungUpError())
        else:
            self._fail(ConnectionLostError("it hung up before its answer was complete", unanswered=False))

    async def _news(self) -> None:
        """Until the answer is complete, or for a stream until more of it came; raises what prevents it."""
        if self._failure is not None:
            raise self._failure
        self._waiter = self._loop.create_future()
        await self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _fail(self, error: ExchangeError) -> None:
        waiter, self._waiter = self._waiter, None
        self._failure = error
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

    def _watch(self, seconds: float) -> None:
        """Limits the server's silence from now on."""
        self._seconds, self._unsent_bytes = seconds, 0
        now = self._last_sign = self._loop.time()
        if self._timer is None or self._timer_time > now + seconds:
            self._set_timer(now + seconds)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_time = at
        self._timer = self._loop.call_at(at, self._look)

    def _look(self) -> None:
        """The timer: sending a part of the request is a sign of life, too."""
        self._timer = None
        now = self._loop.time()
        if self._unsent_bytes:
            left, before = self._transport.get_write_buffer_size(), self._unsent_bytes
            self._unsent_bytes = left
            if left < before:
                self._last_sign = now
        if self._is_busy and self._waiter is None:
            self._last_sign = now  # it is not the server that we wait for
        limit = self._seconds if self._is_busy else IDLE_SECONDS
        if self._last_sign + limit > now:
            self._set_timer(self._last_sign + limit)
            return
        if self._is_busy:
            self._fail(ExchangeTimeoutError(f"it said nothing for {self._seconds:g} s"))
        self.close()


def _has_news(transport: asyncio.Transport) -> bool:
    """Whether the server said something unasked or hung up, which the event loop may not have seen yet."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def connect(route: Route, seconds: float) -> AsyncConnection:
    """A new connection, through the proxy and with TLS if the way has them."""
    loop = asyncio.get_running_loop()
    try:
        async with time_limit(seconds):
            one = await _open_socket(loop, route, seconds)
            if route.tunnel:
                await _open_tunnel(loop, one, route)
            name = route.server_name if route.tls else None
            # From here on the socket is the transport's, which closes it if TLS fails.
            _, connection = await loop.create_connection(
                lambda: AsyncConnection(loop), sock=one, ssl=route.tls, server_hostname=name
            )
    except TimeoutError:
        raise ConnectTimeoutError(f"no connection within {seconds:g} s") from None
    except (OSError, UnicodeError, ExchangeError) as error:
        raise not_connected(route, error) from None
    return connection


async def _open_socket(loop: asyncio.AbstractEventLoop, route: Route, seconds: float) -> socket.socket:
    """A connection to the first address that takes one."""
    failure: OSError | None = None
    addresses = await _addresses(loop, route)
    for (family, kind, number, _, address), share in zip(addresses, shares(len(addresses), seconds), strict=True):
        one = socket.socket(family, kind, number)
        try:
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with time_limit(share):
                await loop.sock_connect(one, address)
        except OSError as error:
            one.close()
            failure = error
        except BaseException:
            one.close()
            raise
        else:
            return one
    raise failure or OSError(f"{route.host} has no address")


async def _addresses(loop: asyncio.AbstractEventLoop, route: Route) -> list[Any]:
    return await loop.getaddrinfo(route.host, route.port, type=socket.SOCK_STREAM)


async def _open_tunnel(loop: asyncio.AbstractEventLoop, one: socket.socket, route: Route) -> None:
    """Asks the proxy for a connection to the server."""
    assert route.tunnel is not None  # noqa: S101 - asked by the caller
    try:
        await loop.sock_sendall(one, route.tunnel)
        reader = AnswerReader()
        reader.without_body = True
        while not reader.is_complete:
            data = await loop.sock_recv(one, _RECEIVED_BYTES)
            if not data:
                break
            reader.feed(data)
        check_tunnel(reader.status)
    except BaseException:
        one.close()
        raise
