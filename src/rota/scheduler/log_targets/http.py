"""Targets that speak HTTP: Elasticsearch and OpenSearch (bulk API), Loki (push API).

A request that is refused as a whole is sent again in halves, down to the line that the target does not take. A target
that takes nothing at all is set up wrongly: lines are given up only once it has taken others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import aiohttp
import msgspec

from rota.scheduler.log_targets import ExportedLine, LogTarget, RefusedLine, TargetError

_TIMEOUT = aiohttp.ClientTimeout(total=30.0, connect=5.0)
_LONGEST_ANSWER_BYTES = 16 * 1024 * 1024
_SHOWN_CHARACTERS = 300
_OK = range(200, 300)
_CONFLICT = 409  # the line is there already
_REFUSED = (400, 413, 422)
_encoder = msgspec.json.Encoder()
_NANOSECONDS = 1000


class RefusedRequestError(TargetError):
    """The target does not take this request, now or later."""


class HttpTarget(LogTarget):
    """Posts lines to an address."""

    def __init__(self, address: str, headers: Mapping[str, str]) -> None:
        self._address = address
        self._headers = dict(headers)
        self._session: aiohttp.ClientSession | None = None
        self._has_taken = False

    async def send(self, lines: Sequence[ExportedLine]) -> list[RefusedLine]:
        refused = await self._send(lines)
        if len(refused) < len(lines):
            self._has_taken = True
        elif not self._has_taken:
            raise TargetError(f"it takes no line: {refused[0].reason}")
        return refused

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    async def _send(self, lines: Sequence[ExportedLine]) -> list[RefusedLine]:
        try:
            return await self._deliver(lines)
        except RefusedRequestError as error:
            if len(lines) == 1:
                return [RefusedLine(lines[0], str(error))]
        half = len(lines) // 2
        return [*await self._send(lines[:half]), *await self._send(lines[half:])]

    @abstractmethod
    async def _deliver(self, lines: Sequence[ExportedLine]) -> list[RefusedLine]:
        """Sends one request; raises RefusedRequestError if it is refused as a whole."""

    async def _post(self, body: bytes, content_type: str) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=_TIMEOUT)
        headers = {**self._headers, "Content-Type": content_type}
        try:
            # A redirect would carry the credentials elsewhere.
            async with self._session.post(self._address, data=body, headers=headers, allow_redirects=False) as answer:
                text = await answer.content.read(_LONGEST_ANSWER_BYTES)
                while not answer.content.at_eof():
                    text += await answer.content.read(_LONGEST_ANSWER_BYTES)
                    if len(text) > _LONGEST_ANSWER_BYTES:
                        raise TargetError("its answer is too long")
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TargetError(f"it does not answer: {type(error).__name__}: {error}") from error
        if status in _OK:
            return text
        said = f"status {status}: {text[:_SHOWN_CHARACTERS].decode('utf-8', 'replace')}"
        raise RefusedRequestError(said) if status in _REFUSED else TargetError(said)


class Elasticsearch(HttpTarget):
    """The bulk API of Elasticsearch and OpenSearch. Each line has an id, so one that comes twice is there once."""

    def __init__(self, address: str, index: str, headers: Mapping[str, str]) -> None:
        super().__init__(f"{address}/_bulk", headers)
        self._index = index

    async def _deliver(self, lines: Sequence[ExportedLine]) -> list[RefusedLine]:
        parts = []
        for line in lines:
            fields = msgspec.to_builtins(line)
            parts += [
                _encoder.encode({"create": {"_index": self._index, "_id": line.key}}),
                _encoder.encode({"@timestamp": line.time, **fields}),
            ]
        return _refusals(lines, await self._post(b"\n".join(parts) + b"\n", "application/x-ndjson"))


def _refusals(lines: Sequence[ExportedLine], answer: bytes) -> list[RefusedLine]:
    """What the answer to a bulk request says of each line; raises TargetError if one is to be sent again."""
    try:
        items = [item["create"] for item in msgspec.json.decode(answer)["items"]]
        outcomes = [(item["status"], item.get("error")) for item in items]
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError) as error:
        raise TargetError("its answer is not one to a bulk request") from error
    if len(outcomes) != len(lines):
        raise TargetError("its answer has another number of lines than the request")
    refused = []
    for line, (status, why) in zip(lines, outcomes, strict=True):
        if status in _OK or status == _CONFLICT:
            continue
        if status not in _REFUSED:
            raise TargetError(f"status {status} for a line: {_brief(why)}")
        refused.append(RefusedLine(line, f"status {status}: {_brief(why)}"))
    return refused


class Loki(HttpTarget):
    """The push API of Loki. Labels are few: namespace, task and stream. All else is in the line, a JSON object."""

    def __init__(self, address: str, headers: Mapping[str, str]) -> None:
        super().__init__(f"{address}/loki/api/v1/push", headers)

    async def _deliver(self, lines: Sequence[ExportedLine]) -> list[RefusedLine]:
        streams: dict[tuple[str, str, str], list[list[str]]] = defaultdict(list)
        refused = []
        for line in lines:
            try:
                moment = str(_nanoseconds(line.time))
            except ValueError:
                refused.append(RefusedLine(line, "its time can't be read"))
                continue
            streams[line.namespace, line.task or "", line.stream].append([moment, line.encoded().decode()])
        pushed = [
            {
                "stream": {"service_name": "rota", "namespace": namespace, "task": task, "stream": stream},
                "values": values,
            }
            for (namespace, task, stream), values in streams.items()
        ]
        if pushed:
            await self._post(_encoder.encode({"streams": pushed}), "application/json")
        return refused


def _nanoseconds(moment: str) -> int:
    since = datetime.fromisoformat(moment) - datetime.fromisoformat("1970-01-01T00:00:00Z")
    return (since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds) * _NANOSECONDS


def _brief(error: Any) -> str:
    return _encoder.encode(error).decode()[:_SHOWN_CHARACTERS]
