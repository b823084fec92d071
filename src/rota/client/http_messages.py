"""HTTP/1.1 messages: heads of requests, answers, and the errors of an exchange without one."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from rota.errors import BadInputError, RotaError

# A head and a body up to this size are sent as one piece; a larger body is not copied.
JOINED_BYTES = 64 * 1024
SUCCESS = range(200, 300)
_METHOD = re.compile(r"[A-Z]{1,20}")
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE = re.compile(r"[\t -~]*")
_TARGET = re.compile(r"/[A-Za-z0-9._~:/?@!$&'()*+,;=%-]*")
# Methods whose requests have a length even if they have no body.
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class ExchangeError(RotaError):
    """A request got no answer. `never_sent`: surely no byte of it left, so it is always safe to send it again."""

    never_sent = False


class NotConnectedError(ExchangeError):
    """There was no connection."""

    never_sent = True


class ExchangeTimeoutError(ExchangeError):
    """Nothing came in time."""


class ConnectTimeoutError(ExchangeTimeoutError):
    """There was no connection in time."""

    never_sent = True


class NotHttpError(ExchangeError):
    """What the server said is no HTTP."""


class ConnectionLostError(ExchangeError):
    """The connection broke. `unanswered`: before any byte of the answer."""

    def __init__(self, message: str, *, unanswered: bool, never_sent: bool = False) -> None:
        super().__init__(message)
        self.unanswered = unanswered
        self.never_sent = never_sent


class HungUpError(ConnectionLostError):
    """The server closed the connection in order, but before any byte of the answer."""

    def __init__(self) -> None:
        super().__init__("it hung up", unanswered=True)


class TimeLimits(NamedTuple):
    """How long to wait for a connection, and for the next sign of life on it, in seconds."""

    connect: float
    silence: float


class HttpAnswer(msgspec.Struct):
    """An answer. `path` is what was asked for, without the query; names in `headers` are in lower case.

    `was_repeated`: the request went out twice, and the server may have got both.
    """

    status: int
    content: bytes
    path: str
    fields: list[tuple[bytes, bytes]]
    was_repeated: bool = False

    @property
    def is_success(self) -> bool:
        """Whether the status is one of success."""
        return self.status in SUCCESS

    @property
    def headers(self) -> dict[str, str]:
        """The header fields; values of one name are joined."""
        return headers_of(self.fields)

    @property
    def text(self) -> str:
        """The content as UTF-8."""
        return self.content.decode(errors="replace")


def headers_of(fields: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Header fields by their names in lower case."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in fields:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


class RequestHeads:
    """Makes the heads of requests to one server; what they have in common is made once."""

    def __init__(self, before_path: str, usual: Mapping[str, str]) -> None:
        self._before_path = before_path
        self._usual = {name.lower(): _field(name, value) for name, value in usual.items()}
        self._all_usual = "".join(self._usual.values())

    def head(
        self, method: str, path: str, query: Mapping[str, object] | None, headers: Mapping[str, str], size: int | None
    ) -> bytes:
        """The head of a request with a body of this size, JSON unless a header says otherwise, or with none.

        Given headers replace the usual ones. Raises BadInputError for what can't be sent.
        """
        if not _METHOD.fullmatch(method):
            raise BadInputError(f"{method!r} is not an HTTP method")
        fields = self._all_usual
        if headers:
            given = {name.lower(): _field(name, value) for name, value in headers.items()}
            alone = given.keys().isdisjoint(self._usual)
            fields = fields + "".join(given.values()) if alone else "".join((self._usual | given).values())
        if size is not None:
            kind = "" if headers and "content-type" in given else "Content-Type: application/json\r\n"
            fields = f"{fields}{kind}Content-Length: {size}\r\n"
        elif method in _WITH_BODY:
            fields += "Content-Length: 0\r\n"
        return f"{method} {self._before_path}{target_of(path, query)} HTTP/1.1\r\n{fields}\r\n".encode("ascii")


def _field(name: str, value: str) -> str:
    if not _FIELD_NAME.fullmatch(name):
        raise BadInputError(f"{name!r} is not the name of a header")
    if not _FIELD_VALUE.fullmatch(value):
        raise BadInputError("must be printable ASCII", field=name)
    return f"{name}: {value}\r\n"


def target_of(path: str, query: Mapping[str, object] | None) -> str:
    """The path with its query, percent-encoded where needed. Parameters that are None are left out."""
    if not _TARGET.fullmatch(path):
        path = quote(f"/{path.removeprefix('/')}", safe="/?@!$&'()*+,;=:%")
    given = [(name, _query_text(value)) for name, value in (query or {}).items() if value is not None]
    if not given:
        return path
    return f"{path}{'&' if '?' in path else '?'}{urlencode(given, quote_via=quote)}"


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def words_of(error: OSError) -> str:
    """What the operating system says, without addresses; TLS and names of hosts have words of their own."""
    if isinstance(error, socket.gaierror) or error.errno is None or type(error).__module__ == "ssl":
        return str(error) or type(error).__name__
    return os.strerror(error.errno)
