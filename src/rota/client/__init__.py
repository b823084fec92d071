"""A small HTTP client for the API: what the command line stands on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from rota.errors import BadInputError, RotaError, SetupError

TIMEOUT_SECONDS = 30.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PORTS = range(1, 65536)


class ServerUnreachableError(RotaError):
    """No Rota server answers at the address."""


class AnswerError(RotaError):
    """The server answered with a problem document."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"the server answered with {status}")
        self.status = status
        self.problem = problem


class Client:
    """Calls the API with a token and turns problems into errors."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = check_url(url)
        if token and not (token.isascii() and token.isprintable()):
            raise SetupError("The token holds characters that no token has; look at ROTA_TOKEN or admin.token.")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # A proxy for the outside world is of no use on the way to this very machine.
        proxies = urlsplit(self.url).hostname not in _LOOPBACK
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=proxies)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """The decoded answer; raises AnswerError or ServerUnreachableError."""
        wanted = {name: value for name, value in (query or {}).items() if value is not None}
        for name, value in (headers or {}).items():
            if not (value.isascii() and value.isprintable()):
                raise BadInputError("may hold printable ASCII characters only", field=name)
        with self._reached():
            response = self._http.request(method, path, json=body, params=wanted, headers=headers)
        return self._read(response)

    def preview(
        self,
        cron_expression: str | None = None,
        *,
        every_seconds: float | None = None,
        timezone: str | None = None,
        dst: str | None = None,
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        job_id: str | None = None,
        after: datetime | None = None,
        count: int | None = None,
    ) -> Any:
        """When a schedule would fire (`fireTimes`) and what it means (`description`); raises as `call` does."""
        wanted = {
            "cronExpression": cron_expression,
            "everySeconds": every_seconds,
            "timezone": timezone,
            "dst": dst,
            "startTime": start_time and start_time.isoformat(),
            "endTime": end_time and end_time.isoformat(),
            "jobId": job_id,
            "after": after and after.isoformat(),
            "count": count,
        }
        body = {field: value for field, value in wanted.items() if value is not None}
        return self.call("POST", "/v1/schedules/preview", body=body)

    def read_text(self, path: str) -> str:
        """An answer that is text; raises as `call` does."""
        with self._reached():
            response = self._http.get(path)
        if not response.is_success:
            self._read(response)
        return response.text

    def events(self, path: str, *, query: dict[str, Any], after: str | None = None) -> Iterator[tuple[str, str, Any]]:
        """Server-sent events: (event, id, data) of each; ends when the server ends it or the connection is lost."""
        headers = {"Last-Event-ID": after} if after else {}
        with self._reached(), self._http.stream("GET", path, params=query, headers=headers) as response:
            if not response.is_success:
                response.read()
                self._read(response)
            fields: dict[str, str] = {}
            for line in _lines(response.iter_text()):
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "data" in fields:
                    yield fields.get("event", ""), fields.get("id", ""), json.loads(fields["data"])
                    fields = {}

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except httpx.TimeoutException as error:
            raise ServerUnreachableError(f"{self.url} did not answer within {TIMEOUT_SECONDS:g} seconds") from error
        except httpx.TransportError as error:
            raise ServerUnreachableError(f"no Rota server answers at {self.url} ({error})") from error

    def _read(self, response: httpx.Response) -> Any:
        try:
            content = response.json()
        except ValueError:
            content = None
        if not isinstance(content, dict):
            said = f"{response.status_code} to {response.url.path}"
            raise ServerUnreachableError(f"what answers at {self.url} is not a Rota server (it said {said})")
        if not response.is_success:
            raise AnswerError(response.status_code, content)
        return content


def _lines(pieces: Iterator[str]) -> Iterator[str]:
    """Lines that end with a line feed, and nothing else: a log may hold what others take for the end of a line."""
    rest = ""
    for piece in pieces:
        *lines, rest = (rest + piece).split("\n")
        yield from lines


def check_url(url: str) -> str:
    """The server's address; raises SetupError when it can't be one."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 80) in _PORTS
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        fits = False
    if not fits:
        raise SetupError(f"{url!r} is not the address of a server, such as http://127.0.0.1:7682 (ROTA_URL, ROTA_PORT)")
    return url.rstrip("/")
