"""Connections of the API: how slow a client may be, how much it may send ahead, and how many there may be.

uvicorn parses and answers; this module watches. There are no timers per request: a connection notes its phase of
reading and since when, and the doorkeeper looks at all connections about once a second.

    idle --first byte--> head --its end--> body --its end--> idle
                                             \\--answered before it was whole--> rest --its end--> idle, or closed
    any --a request that can't be read, or is too slow--> deaf

When it is unclear where a request ends, nothing after it is read: it gets one answer, or none if the application has
begun to answer, and the connection ends. It stays open but deaf for a moment, since closing a socket with unread data
would discard the answer on its way.

At the limit of connections, a new one replaces a waiting one: the oldest that has never sent a request, else the one
that has been idle longest. Clients without a token are always among those before long, so they can't keep clients with
a token out.
"""

from __future__ import annotations

import asyncio
import re
import resource
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any
from urllib.parse import unquote, urlsplit

import httptools
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from rota.api.http import refusals
from rota.api.http.refusals import Refusal, UnreadableError
from rota.api.http.security_headers import GUARDING_TLS
from rota.telemetry import get_logger

# Files other than client connections: the database's, logs, blobs, and connections being refused or closed.
OTHER_FILES = 512
MOST_CONNECTIONS = 16_384  # an idle one costs some 12 KiB
LEAST_CONNECTIONS = 64
_HOST = re.compile(rb"[^\s/?#@\\]*")
_CHUNKED = b"chunked"
_CHECKED = frozenset({b"host", b"transfer-encoding", b"expect"})  # headers of a request that decide how it is read
_FRAMING = (b"connection", b"transfer-encoding")  # answers with these are left to uvicorn
_WRITTEN_AT_ONCE_BYTES = 64 * 1024  # a larger body is not copied behind its head
# Checked and encoded once.
_CONSTANT_LINES = {
    pair: b"%b: %b\r\n" % pair
    for pair in (
        *GUARDING_TLS,
        (b"content-type", b"application/json"),
        (b"content-type", b"application/problem+json"),
    )
}
_log = get_logger("connections")


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Limits for each client."""

    connections: int = MOST_CONNECTIONS
    being_refused: int = 128  # connections beyond those, which get an answer
    head_seconds: float = 15.0  # from the first byte, or from connecting, to the end of the headers
    body_seconds: float = 30.0  # and on top of it:
    body_bytes_per_second: int = 64 * 1024
    answer_seconds: float = 30.0  # in which the client takes less than `least_taken_bytes` from one look to the next
    least_taken_bytes: int = 1024
    keep_alive_seconds: float = 75.0
    rest_seconds: float = 10.0  # to send the rest of a body after the answer
    deaf_seconds: float = 2.0  # to take the answer to an unreadable request
    head_bytes: int = 64 * 1024
    headers: int = 100
    url_bytes: int = 16 * 1024
    pipelined: int = 32
    # A chunk of one byte has five around it; much more is padding.
    overhead_per_byte: int = 16
    look_seconds: float = 1.0


class Phase(Enum):
    """The request that is being read."""

    idle = auto()
    head = auto()
    body = auto()
    rest = auto()
    deaf = auto()


class Doorkeeper:
    """Knows all connections of a server, and which of them can be closed to make room."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._all: set[GuardedProtocol] = set()
        # In the order in which they began to wait: connections that have never sent a request, and the others.
        self._strangers: dict[GuardedProtocol, None] = {}
        self._idle: dict[GuardedProtocol, None] = {}
        self._looking: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._all)

    def accept(self, connection: GuardedProtocol) -> bool:
        """Counts a new connection; False when it can't be served."""
        full = len(self._all) >= self.limits.connections
        self._all.add(connection)
        if self._looking is None:
            self._looking = connection.loop.call_later(self.limits.look_seconds, self._look, connection.loop)
        if full and not self._make_room():
            if len(self._all) > self.limits.connections + self.limits.being_refused:
                connection.transport.abort()
            return False
        self.waits(connection)
        return True

    def waits(self, connection: GuardedProtocol) -> None:
        """Notes that the connection has no request to answer."""
        (self._idle if connection.cycle else self._strangers)[connection] = None

    def works(self, connection: GuardedProtocol) -> None:
        """Notes that the connection has a request."""
        self._strangers.pop(connection, None)
        self._idle.pop(connection, None)

    def forget(self, connection: GuardedProtocol) -> None:
        self._all.discard(connection)
        self.works(connection)

    def _make_room(self) -> bool:
        waiting = self._strangers or self._idle
        if not waiting:
            return False
        longest = next(iter(waiting))
        del waiting[longest]
        longest.transport.abort()
        return True

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        # First, so that the next look comes whatever happens in this one.
        self._looking = loop.call_later(self.limits.look_seconds, self._look, loop) if self._all else None
        for connection in list(self._all):
            try:
                connection.look(now)
            except Exception:  # noqa: BLE001 - one connection must not keep the others from being looked at
                _log.exception("a connection could not be checked, and is closed")
                connection.transport.abort()


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *, doorkeeper: Doorkeeper, **given: Any) -> None:
        super().__init__(**given)
        self._keeper = doorkeeper
        self._limits = doorkeeper.limits
        self._phase = Phase.idle
        self._since = 0.0
        self._turn = 0  # counts changes of phase
        self._raw_bytes = 0  # that came in this phase
        self._body_bytes = 0
        self._head_bytes = 0
        self._hosts = 0
        self._codings = b""
        self._replayed = False
        self._answering: RequestResponseCycle | None = None
        self._unsent = 0
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self._sent_at = self.loop.time()
        if not self._keeper.accept(self):
            self._refuse(refusals.FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        """Informs every request of the connection; uvicorn informs only the last."""
        self._keeper.forget(self)
        super().connection_lost(exc)
        for cycle in (self._answering, *(waiting for waiting, _ in self.pipeline)):
            _disconnect(cycle)
        self.pipeline.clear()

    def data_received(self, data: bytes) -> None:
        if self._phase is Phase.deaf:
            return
        if self._phase is Phase.idle:
            self._enter(Phase.head)
        turn = self._turn
        self._feed(data)
        if turn == self._turn:
            self._count(len(data))

    def _feed(self, data: bytes) -> None:
        try:
            while data:
                data = self._parse(data)
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause.refusal if isinstance(cause, UnreadableError) else refusals.MALFORMED)

    def _parse(self, data: bytes) -> bytes:
        """Returns what must be parsed again."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._head_without_upgrade() + data[upgrade.args[0] :]
        return b""

    def _count(self, size: int) -> None:
        """Counts all bytes, not just headers and body: the parser buffers half a header."""
        self._raw_bytes += size
        allowed = self._limits.head_bytes
        if self._phase is Phase.body:
            allowed += self._limits.overhead_per_byte * self._body_bytes
        if self._phase is not Phase.rest and self._raw_bytes > allowed:
            self._refuse(refusals.HEAD_TOO_LARGE)

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._since = self.loop.time()
        self._raw_bytes = 0
        self._turn += 1

    # What the parser calls

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._phase is not Phase.head:
            self._enter(Phase.head)
        self._head_bytes = self._hosts = 0
        self._codings = b""

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > self._limits.url_bytes:
            raise UnreadableError(refusals.URL_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Reads a header; trailers are ignored."""
        if self._phase is not Phase.head:
            return
        name = name.lower()
        headers, limits = self.headers, self._limits
        headers.append((name, value))
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > limits.head_bytes or len(headers) > limits.headers:
            raise UnreadableError(refusals.HEAD_TOO_LARGE)
        if name not in _CHECKED:
            return
        if name == b"host":
            self._hosts += 1 if _HOST.fullmatch(value) else 2
        elif name == b"transfer-encoding":
            self._codings = value.lower()
        elif name == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue"

    def on_headers_complete(self) -> None:
        """Checks the head and passes the request to the application."""
        version = self.parser.get_http_version()
        self._check_head(version)
        if self.parser.should_upgrade():
            self._replayed = True
            return
        if not self.url.startswith(b"/"):
            self._read_whole_address()
        self._begin_cycle(version)
        if self._answering is None:
            self._answering = self.cycle
        self._enter(Phase.body)
        self._body_bytes = 0
        self._keeper.works(self)

    def _begin_cycle(self, version: str) -> None:
        """As uvicorn does: passes the request to the application, or lets it wait for those before it."""
        parser, scope, before = self.parser, self.scope, self.cycle
        address = httptools.parse_url(self.url)
        path = address.path.decode("ascii")
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = version
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = address.path
        scope["query_string"] = address.query or b""
        self.cycle = GuardedCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._replayed:
            self._replayed = False
            return
        super().on_message_complete()
        self._enter(Phase.idle)
        if isinstance(self.cycle, GuardedCycle) and self.cycle.closes_after_body:
            self.transport.close()

    def _check_head(self, version: str) -> None:
        if version not in ("1.1", "1.0"):
            raise UnreadableError(refusals.VERSION)
        if self.parser.get_method() == b"CONNECT":
            raise UnreadableError(refusals.TUNNEL)
        if self._hosts > 1 or (not self._hosts and version == "1.1"):
            raise UnreadableError(refusals.HOST)
        if self._codings and self._codings != _CHUNKED:
            raise UnreadableError(refusals.CODING if self._codings.endswith(_CHUNKED) else refusals.FRAMING)
        if self._codings and version == "1.0":
            raise UnreadableError(refusals.FRAMING)
        if len(self.pipeline) >= self._limits.pipelined:
            raise UnreadableError(refusals.PIPELINE)
        if version == "1.0":
            self.expect_100_continue = False

    def _head_without_upgrade(self) -> bytes:
        """The head without its Upgrade header, to be parsed again: we ignore the offer, but the parser can't."""
        line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        kept = [b"%b: %b\r\n" % pair for pair in self.headers if pair[0] != b"upgrade"]
        return b"".join([line, *kept, b"\r\n"])

    def _read_whole_address(self) -> None:
        """An absolute address, as proxies get it; its host takes precedence over the Host header."""
        try:
            parts = urlsplit(self.url)
            host = parts.netloc.rpartition(b"@")[2]
        except ValueError:
            raise UnreadableError(refusals.MALFORMED) from None
        if parts.scheme not in (b"http", b"https") or not host or not _HOST.fullmatch(host):
            raise UnreadableError(refusals.MALFORMED)
        self.url = (parts.path or b"/") + (b"?" + parts.query if parts.query else b"")
        self.headers[:] = [(b"host", host), *(pair for pair in self.headers if pair[0] != b"host")]

    # What the application's side calls

    def on_response_complete(self) -> None:
        """Starts the next pipelined request, if there is one."""
        self.server_state.total_requests += 1
        self._answering = None
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._answering, app = self.pipeline.pop()
            self._start_asgi_task(self._answering, app)
            return
        self._keeper.waits(self)
        if self._phase is Phase.body:
            self._leave_rest()
        elif self._phase is Phase.idle:
            self._since = self.loop.time()

    def _leave_rest(self) -> None:
        if self.expect_100_continue and not self._body_bytes:
            # The client may or may not send the body: what comes next could be the body or a request.
            self.transport.close()
        else:
            self._enter(Phase.rest)

    def _refuse(self, refusal: Refusal) -> None:
        """Answers in the application's place, after earlier requests; nothing more is read."""
        own = self.cycle if self._phase is Phase.body else None
        answered = self._phase is Phase.rest
        self._enter(Phase.deaf)
        _log.debug("refused", status=refusal.status, reason=refusal.detail)
        if own is not None and own is not self._answering:
            self.pipeline.popleft()
            own = None
        if self._answering is not None and own is None:
            (self.pipeline[0][0] if self.pipeline else self._answering).keep_alive = False
        elif answered or (own is not None and own.response_started):
            self.transport.abort()
        else:
            _disconnect(own)
            self._answering = None
            self._say(refusal)

    def _say(self, refusal: Refusal) -> None:
        if self.transport.is_closing():
            return
        self.transport.write(refusal.encode(self.server_state.default_headers, secure=self.scheme == "https"))
        if self.transport.can_write_eof():
            with suppress(OSError):
                self.transport.write_eof()

    # What the doorkeeper calls

    def look(self, now: float) -> None:
        """Ends the connection if its client is too slow."""
        self._look_at_sending(now)
        if self.transport.is_closing():
            return
        if self.flow.read_paused and self._phase in (Phase.head, Phase.body):
            self._since += self._limits.look_seconds  # we are the slow side
        if now - self._since <= self._patience():
            return
        if self._phase in (Phase.head, Phase.body):
            self._refuse(refusals.TOO_SLOW)
        elif self._answering is None:
            self.transport.close()

    def _patience(self) -> float:
        limits = self._limits
        if self._phase is Phase.body:
            return limits.body_seconds + self._body_bytes / limits.body_bytes_per_second
        if self._phase is Phase.idle and self.cycle is not None:
            return limits.keep_alive_seconds
        if self._phase in (Phase.idle, Phase.head):
            return limits.head_seconds
        return limits.rest_seconds if self._phase is Phase.rest else limits.deaf_seconds

    def _look_at_sending(self, now: float) -> None:
        """Cuts a client that does not take its answer, even when only the rest of it is left."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent <= self._unsent - self._limits.least_taken_bytes:
            self._sent_at = now
        elif now - self._sent_at > self._limits.answer_seconds:
            _log.info("a client did not read its answer", client=self.client, unsent_bytes=unsent)
            self.transport.abort()
        self._unsent = unsent

    def resume_writing(self) -> None:
        self._sent_at = self.loop.time()
        super().resume_writing()


class GuardedCycle(RequestResponseCycle):
    """One request and its answer. An answer that is whole is written at once; all others are uvicorn's to write."""

    _head = b""  # of an answer whose body has not come yet
    closes_after_body = False  # the request's, which was answered before it was whole

    async def send(self, message: Any) -> None:
        if self.more_body and not self.keep_alive and self.response_started and not message.get("more_body", False):
            # Closing a socket with unread data would discard the answer on its way.
            self.keep_alive = self.closes_after_body = True
        if self._head:
            if self._can_finish(message):
                self._finish(message["body"])
                return
            head, self._head = self._head, b""
            if not self.disconnected:
                self.transport.write(head)
        elif not self.response_started and not self.disconnected and message["type"] == "http.response.start":
            found = self._head_of(message["status"], message.get("headers", ()))
            if found is not None:
                self._head, self.expected_content_length = found
                self.response_started, self.chunked_encoding = True, False
                self.waiting_for_100_continue = False
                return
        await super().send(message)

    def _head_of(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, int] | None:
        """The head and the length of the body; None: that has to be found out, or something is wrong with it."""
        if self.access_log or self.scope["method"] == "HEAD":
            return None
        length: int | None = None
        lines = [STATUS_LINE[status]]
        for pair in (*self.default_headers, *headers):
            line = _CONSTANT_LINES.get(pair)
            if line is None:
                name, value = pair
                name = name.lower()
                if name == b"content-length":
                    length = int(value)
                elif name in _FRAMING or HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
                    return None
                line = b"%b: %b\r\n" % (name, value)
            lines.append(line)
        if length is None:
            return None
        lines.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        return b"".join(lines), length

    def _can_finish(self, message: Any) -> bool:
        """Whether a message is all of the body, and can be written now."""
        size = len(message.get("body", b""))
        return (
            size == self.expected_content_length
            and 0 < size <= _WRITTEN_AT_ONCE_BYTES
            and not (message.get("more_body", False) or self.flow.write_paused or self.disconnected)
        )

    def _finish(self, body: bytes) -> None:
        self.transport.write(self._head + body)
        self._head = b""
        self.expected_content_length = 0
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


def _disconnect(cycle: RequestResponseCycle | None) -> None:
    if cycle is not None and not cycle.response_complete:
        cycle.disconnected = True
        cycle.message_event.set()


def raise_file_limit() -> int:
    """Raises this process's limit of open files as far as allowed; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + OTHER_FILES if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # A system may allow less than it says (macOS does).
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MOST_CONNECTIONS + OTHER_FILES if soft == resource.RLIM_INFINITY else soft


def most_connections(files: int) -> int:
    """How many connections fit into this many files."""
    return max(LEAST_CONNECTIONS, min(MOST_CONNECTIONS, files - OTHER_FILES))
