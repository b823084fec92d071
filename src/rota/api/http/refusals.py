"""Answers to unreadable requests: made once, and followed by the end of the connection."""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from rota.api.http.security_headers import GUARDING, GUARDING_TLS
from rota.api.problems import HttpProblemError, problem_of


class UnreadableError(Exception):
    """Parsing of a request was given up."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


class Refusal:
    """A complete answer, after which the connection ends."""

    def __init__(self, status: int, title: str, detail: str, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.detail = detail
        self._line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
        self._body = msgspec.json.encode(problem_of(HttpProblemError(status, title, detail)))
        own = {
            "content-type": "application/problem+json",
            "content-length": str(len(self._body)),
            "connection": "close",
        }
        self._headers = [(name.encode(), value.encode()) for name, value in (own | (headers or {})).items()]

    def encode(self, date: list[tuple[bytes, bytes]], *, secure: bool) -> bytes:
        """The bytes to send; `date` holds the headers that begin every answer of the server."""
        headers = (*date, *self._headers, *(GUARDING_TLS if secure else GUARDING))
        return b"".join([self._line, *(b"%b: %b\r\n" % pair for pair in headers), b"\r\n", self._body])


MALFORMED = Refusal(400, "Malformed request", "this is not a request of HTTP/1.1 (RFC 9112)")
HOST = Refusal(400, "Malformed request", "a request has one Host header, with a name and perhaps a port")
FRAMING = Refusal(400, "Malformed request", "a body is either chunked, in HTTP/1.1, or has one Content-Length")
TOO_SLOW = Refusal(408, "Too slow", "the request did not arrive in time")
URL_TOO_LONG = Refusal(414, "Address too long", "the address is too long")
HEAD_TOO_LARGE = Refusal(431, "Headers too large", "there are too many headers, or they are too long")
CODING = Refusal(501, "Unknown coding", "no other Transfer-Encoding than chunked is known")
TUNNEL = Refusal(501, "No tunnel", "this server is not a proxy")
VERSION = Refusal(505, "Unknown version", "only HTTP/1.1 and HTTP/1.0 are spoken here")
FULL = Refusal(503, "Overloaded", "too many connections are open; try again in a moment", {"retry-after": "1"})
PIPELINE = Refusal(429, "Too many requests", "too many requests were sent ahead of their answers", {"retry-after": "1"})
