# Made from src/rota/client/async_transport.py by tools/make_sync.py (`make sync`): change that file, not this one.
"""Sends and retries requests, reads pages and follows streams for `Client`."""

from __future__ import annotations

import time
from codecs import getincrementaldecoder
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from rota.client.answers import Page, read_answer, read_object, read_text, unreachable
from rota.client.bodies import encode, query_of
from rota.client.errors import AnswerError, ServerUnreachableError
from rota.client.event_streams import SILENCE_SECONDS, EventReader, LogReader, ServerEvent
from rota.client.http_messages import SUCCESS, ExchangeError, HttpAnswer
from rota.client.http_routes import find_route
from rota.client.retries import RETRIES, Patience, Tries, read_patience
from rota.client.server_address import find_server, request_headers, time_limits, trust
from rota.contract.fleet import EventOut
from rota.contract.runs import LogLine
from rota.domain.durations import Duration

T = TypeVar("T")
Item = TypeVar("Item")
TIMEOUT_SECONDS = 30.0
_FOLLOW = {"follow": "true"}


class Calls:
    """A connection to a server: turns problems into errors and retries safe requests."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        namespace: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
        patience: Duration | None = None,
        ca_file: str | Path | None = None,
    ) -> None:
        """Takes missing address, token and namespace from the environment, like the command line.

        A try ends when the server is silent for `timeout` seconds; there are up to `retries` more, none later than
        twice the timeout: enough for about 8 seconds without a server. With `patience` ("10m", seconds or a timedelta)
        there are as many as fit into that time. With `ca_file` (or ROTA_CA_FILE) only its certificates are trusted.
        Raises SetupError for a bad address, token or proxy.
        """
        self.url, token = find_server(url, token)
        self._timeout = timeout
        self._limits = time_limits(timeout)
        self._retries = retries
        self._patience_seconds = read_patience(patience)
        from rota.client._sync.http import HttpConnections  # noqa: PLC0415 - help texts need no HTTP library

        route = find_route(self.url, trust(self.url, ca_file))
        self._http = HttpConnections(route, request_headers(token, namespace))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
    ) -> Any:
        """Any call of the API, with its field names; returns the decoded answer. Retries GET and what is repeatable.

        Raises AnswerError, ServerUnreachableError, or BadInputError for a body that can't be sent.
        """
        content, safe = None if body is None else encode(body), repeatable or method == "GET"
        response = self._send(method, path, content=content, query=query, headers=headers, repeatable=safe)
        return read_object(self.url, response)

    def read_text(self, path: str) -> str:
        """The answer as text; raises as `call` does."""
        return read_text(self.url, self._send("GET", path))

    def stream(self, path: str, *, query: Mapping[str, Any], after: str | None = None) -> Generator[ServerEvent, None]:
        """Server-sent events after an id, until the server ends the stream; raises as `call` does."""
        headers = {"Last-Event-ID": after} if after else {}
        limits = time_limits(max(self._timeout, SILENCE_SECONDS))
        reader, decoder = EventReader(), getincrementaldecoder("utf-8")("replace")
        try:
            with self._http.stream(path, query=query, headers=headers, limits=limits) as answer:
                if answer.status not in SUCCESS:
                    read_text(self.url, answer.whole())
                while piece := answer.piece():
                    for event in reader.read(decoder.decode(piece)):
                        yield event
        except ExchangeError as error:
            raise unreachable(self.url, error) from error

    def _ask(
        self,
        kind: type[T],
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
        tries: Tries | None = None,
    ) -> T:
        """The answer as this type."""
        content = None if body is None else encode(body)
        response = self._send(
            method, path, content=content, query=query, headers=headers, repeatable=repeatable, tries=tries
        )
        return read_answer(self.url, response, kind)

    def _send(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
        retries: int | None = None,
        longer: float = 0.0,
        tries: Tries | None = None,
    ) -> HttpAnswer:
        """The last answer, with its `status`, `content` and `headers`; `longer` extends the timeout for a request that
        waits on purpose. The content is JSON unless the headers say otherwise."""
        tries = tries or self._tries(repeatable=repeatable, retries=retries)
        limits = time_limits(self._timeout + longer) if longer else self._limits
        while True:
            try:
                answer = self._http.request(
                    method,
                    path,
                    limits=limits,
                    content=content,
                    query=query,
                    headers=headers,
                    repeatable=tries.repeatable,
                )
            except ExchangeError as error:
                pause = tries.pause_after_error(error)
                if pause is None:
                    raise unreachable(self.url, error) from error
            else:
                pause = tries.pause_after_answer(answer)
                if pause is None:
                    return answer
            time.sleep(pause)

    def _tries(self, *, repeatable: bool = True, retries: int | None = None, patience: Duration | None = None) -> Tries:
        """As many as this client allows, unless a number or a patience is given."""
        if retries is not None:
            return Tries(retries, self._timeout, repeatable=repeatable)
        seconds = self._patience_seconds if patience is None else read_patience(patience)
        return Tries(self._retries, self._timeout, repeatable=repeatable, patience_seconds=seconds)

    def _items(
        self, kind: type[Page[Item]], path: str, filters: Mapping[str, Any], page_size: int | None
    ) -> Iterator[Item]:
        """All items of a list, fetched page by page (None: as large as the server makes them)."""
        query = query_of({**filters, "limit": page_size})
        while True:
            page = self._ask(kind, "GET", path, query=query, repeatable=True)
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor

    def _follow_log(self, path: str) -> Iterator[LogLine]:
        """Lines until the end of the run; reconnects."""
        log, patience = LogReader(path), Patience()
        while True:
            lost: ServerUnreachableError | AnswerError = ServerUnreachableError(
                f"{self.url} ended the stream before the run has ended"
            )
            log.begin()
            try:
                with closing(self.stream(log.path, query=_FOLLOW, after=log.position)) as events:
                    for event in events:
                        patience.begin_anew()
                        for line in log.read(event):
                            yield line
            except (ServerUnreachableError, AnswerError) as error:
                lost = error
            if log.ended:
                return
            time.sleep(patience.pause_after(lost))

    def _follow_logs(self, filters: Mapping[str, Any]) -> Iterator[LogLine]:
        """Lines of all runs without an end; reconnects."""
        position, patience = None, Patience(None)
        query = {**_FOLLOW, **query_of(filters)}
        while True:
            lost: ServerUnreachableError | AnswerError = ServerUnreachableError(f"{self.url} ended the stream")
            try:
                with closing(self.stream("/v1/logs", query=query, after=position)) as events:
                    for event in events:
                        patience.begin_anew()
                        position = event.id or position
                        if event.event == "line":
                            yield msgspec.convert(event.data, LogLine)
            except (ServerUnreachableError, AnswerError) as error:
                lost = error
            time.sleep(patience.pause_after(lost))

    def _follow_events(self, after: int | None, kind: str | None, subject: str | None) -> Iterator[EventOut]:
        """Events without an end; reconnects."""
        position, patience = None if after is None else str(after), Patience(None)
        query = _FOLLOW | {"kind": kind, "subject": subject}
        while True:
            lost: ServerUnreachableError | AnswerError = ServerUnreachableError(f"{self.url} ended the stream")
            try:
                with closing(self.stream("/v1/events", query=query, after=position)) as events:
                    for event in events:
                        patience.begin_anew()
                        position = event.id or position
                        if event.event == "event":
                            yield msgspec.convert(event.data, EventOut)
            except (ServerUnreachableError, AnswerError) as error:
                lost = error
            time.sleep(patience.pause_after(lost))
