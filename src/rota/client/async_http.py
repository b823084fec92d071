"""Sends requests to one server, on connections that are used again.

The seam between Rota's calls and HTTP: `request` and `stream` are all that the calls know of it. The synchronous face
is made from this file; how bytes move is in http_async.py and http_sync.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from rota.client.http_async import AsyncConnection, AsyncStock, connect
from rota.client.http_messages import (
    ConnectionLostError,
    ExchangeError,
    HttpAnswer,
    RequestHeads,
    TimeLimits,
    headers_of,
)
from rota.client.http_routes import MOST_CONNECTIONS, Route


class AsyncHttpConnections:
    """Connections to one server, each with one request at a time."""

    def __init__(self, route: Route, headers: Mapping[str, str], *, most: int = MOST_CONNECTIONS) -> None:
        self.heads = RequestHeads(route.before_path, {**route.usual_headers, **headers})
        self._route = route
        self._stock = AsyncStock(most)

    async def request(
        self,
        method: str,
        path: str,
        *,
        limits: TimeLimits,
        content: bytes | None = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
    ) -> HttpAnswer:
        """The answer; raises ExchangeError if there is none.

        If a connection that was used before turns out to be closed, the request goes out again on a new one, provided
        it is repeatable or was never sent.
        """
        head = self.heads.head(method, path, query, headers or {}, None if content is None else len(content))
        without_body = method == "HEAD"
        return await self.send(path, head, content or b"", limits, repeatable=repeatable, without_body=without_body)

    async def send(
        self,
        path: str,
        head: bytes,
        content: bytes,
        limits: TimeLimits,
        *,
        repeatable: bool = False,
        without_body: bool = False,
    ) -> HttpAnswer:
        """The answer to a request that was made before, as `request` does."""
        await self._stock.enter(limits.silence)
        try:
            connection, was_repeated = await self._exchange(
                head, content, limits, repeatable, without_body=without_body
            )
            answer = connection.reader.answer(path)
            answer.was_repeated = was_repeated
            self._stock.give(connection)
            return answer
        finally:
            self._stock.leave()

    def stream(
        self,
        path: str,
        *,
        limits: TimeLimits,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncStreamedAnswer:
        """An answer to read piece by piece, as a context manager."""
        head = self.heads.head("GET", path, query, headers or {}, None)
        return AsyncStreamedAnswer(self, head, path, limits)

    async def aclose(self) -> None:
        """Closes the connections that are not in use, and the others after their answers."""
        await self._stock.aclose()

    async def open_stream(self, head: bytes, limits: TimeLimits) -> AsyncConnection:
        """A connection on which the head of an answer has come; it takes no turn, since it may last for hours."""
        self._stock.begin()
        connection, _ = await self._exchange(head, b"", limits, repeatable=True, only_head=True)
        return connection

    async def _exchange(
        self,
        head: bytes,
        content: bytes,
        limits: TimeLimits,
        repeatable: bool,
        *,
        without_body: bool = False,
        only_head: bool = False,
    ) -> tuple[AsyncConnection, bool]:
        """A connection with the answer, and whether the request may have arrived on another one before."""
        connection = self._stock.take(repeatable=repeatable)
        may_have_arrived = False
        if connection is not None:
            try:
                await connection.exchange(head, content, limits.silence, without_body=without_body, only_head=only_head)
            except ConnectionLostError as lost:
                if not (lost.unanswered and (repeatable or lost.never_sent)):
                    raise
                may_have_arrived = not lost.never_sent
            else:
                return connection, False
        try:
            connection = await connect(self._route, limits.connect)
            await connection.exchange(head, content, limits.silence, without_body=without_body, only_head=only_head)
        except ExchangeError as error:
            error.never_sent = error.never_sent and not may_have_arrived
            raise
        return connection, may_have_arrived


class AsyncStreamedAnswer:
    """An answer that is read piece by piece; the connection ends with it."""

    _connection: AsyncConnection

    def __init__(self, connections: AsyncHttpConnections, head: bytes, path: str, limits: TimeLimits) -> None:
        self._connections = connections
        self._head = head
        self._path = path
        self._limits = limits

    async def __aenter__(self) -> Self:
        self._connection = await self._connections.open_stream(self._head, self._limits)
        self.status = self._connection.reader.status
        self.headers = headers_of(self._connection.reader.fields)
        return self

    async def __aexit__(self, *_details: object) -> None:
        self._connection.close()

    async def piece(self) -> bytes:
        """The next piece of the body; empty at its end."""
        reader = self._connection.reader
        while not reader.held_bytes and not reader.is_complete:
            await self._connection.receive()
        return reader.take()

    async def whole(self) -> HttpAnswer:
        """The answer with the rest of its body."""
        reader = self._connection.reader
        while not reader.is_complete:
            await self._connection.receive()
        return reader.answer(self._path)
