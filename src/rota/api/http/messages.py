"""Requests and answers of the API: Starlette's, made with less work, as most of them are small and there are many."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rota.api.http.body_budget import BYTES_PER_BYTE, Hold
from rota.api.problems import HttpProblemError

_JSON = (b"content-type", b"application/json")
_latin = "latin-1"  # the encoding of headers


class IncomingRequest(Request):
    """A request whose headers are indexed once."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self._given: list[tuple[bytes, bytes]] = scope["headers"]
        self._last = dict(self._given)

    def all_headers(self, name: str) -> list[str]:
        """The values of all headers of this name."""
        raw = _raw(name)
        last = self._last.get(raw)
        if last is None:
            return []
        if len(self._last) == len(self._given):  # no header is repeated
            return [last.decode(_latin)]
        return [value.decode(_latin) for given, value in self._given if given == raw]

    async def read(self, limit: int, hold: Hold) -> bytes:
        """The body, weighed before it is read. Raises HttpProblemError for one that is too large."""
        announced = self._last.get(b"content-length", b"0")
        if announced.isdigit():
            if int(announced) > limit:
                raise HttpProblemError(413, "Too large", f"the body is {int(announced)} bytes; the limit is {limit}")
            hold.grow_to(BYTES_PER_BYTE * int(announced))
        chunks: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk, more = message.get("body", b""), message.get("more_body", False)
            size += len(chunk)
            if size > limit:
                raise HttpProblemError(413, "Too large", f"the body has more than {limit} bytes")
            hold.grow_to(BYTES_PER_BYTE * size)
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


@cache
def _raw(name: str) -> bytes:
    return name.lower().encode()


class JsonResponse(Response):
    """Encoded JSON; its headers are those that Starlette would make."""

    media_type = "application/json"

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str] | None = None) -> None:
        self.status_code = status
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-length", b"%d" % len(body)), _JSON]
        if headers:
            given = [(name.lower().encode(_latin), value.encode(_latin)) for name, value in headers.items()]
            self.raw_headers[:0] = given
