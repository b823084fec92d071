"""Readers for server-sent events and followed logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from rota.contract.runs import LogLine

SILENCE_SECONDS = 35.0  # longer than a few heartbeats of the server


class ServerEvent(NamedTuple):
    """An event; one without data only gives the position in the stream."""

    event: str
    id: str
    data: Any


class EventReader:
    """Parses events from pieces of text. Only a line feed ends a line: logs can contain other line separators."""

    def __init__(self) -> None:
        self._rest = ""
        self._fields: dict[str, str] = {}

    def read(self, piece: str) -> Iterator[ServerEvent]:
        """The events completed by this piece."""
        *lines, self._rest = (self._rest + piece).split("\n")
        for line in lines:
            if line:
                name, _, value = line.partition(": ")
                self._fields[name] = value
                continue
            fields, self._fields = self._fields, {}
            if "data" in fields or "id" in fields:
                data = json.loads(fields["data"]) if "data" in fields else None
                yield ServerEvent(fields.get("event", ""), fields.get("id", ""), data)


class LogReader:
    """Reads the lines of a followed log, each once.

    Lines arrive in portions, and only the last line of a portion has an id. The lines before it are held until then:
    after a lost connection the server sends the whole portion again.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.position: str | None = None
        self.ended = False
        self._held: list[LogLine] = []

    def begin(self) -> None:
        """Starts a new connection: held lines will arrive again."""
        self._held = []

    def read(self, event: ServerEvent) -> list[LogLine]:
        """The lines completed by this event."""
        if event.event == "end":
            self.ended = True
        if event.event != "line":
            return []
        self._held.append(msgspec.convert(event.data, LogLine))
        if not event.id:
            return []
        lines, self._held, self.position = self._held, [], event.id
        # By the next connection the job may have a newer run: stay with this one.
        self.path = f"/v1/runs/{quote(lines[-1].run_id, safe='')}/logs"
        return lines
