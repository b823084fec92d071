"""Reading server-sent events, and logs that come as such."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from rota.contract.runs import LogLine

# Longer than a few of the server's signs of life.
SILENCE_SECONDS = 35.0


class ServerEvent(NamedTuple):
    """An event as it came; one without data only says where the stream is."""

    event: str
    id: str
    data: Any


class EventReader:
    """Makes events of text that comes in pieces.

    A line ends with a line feed and nothing else: a log may hold what others take for the end of a line.
    """

    def __init__(self) -> None:
        self._rest = ""
        self._fields: dict[str, str] = {}

    def read(self, piece: str) -> Iterator[ServerEvent]:
        """The events that this piece completes."""
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
    """Makes lines of a followed log, none of them twice.

    Lines come in portions, and only the last line of one has an id. Those before it are held until it is there: after a
    cut in the middle the whole portion comes again.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.position: str | None = None
        self.ended = False
        self._held: list[LogLine] = []

    def begin(self) -> None:
        """A new connection: what was held comes again."""
        self._held = []

    def read(self, event: ServerEvent) -> list[LogLine]:
        """The lines that are complete with this event."""
        if event.event == "end":
            self.ended = True
        if event.event != "line":
            return []
        self._held.append(msgspec.convert(event.data, LogLine))
        if not event.id:
            return []
        lines, self._held, self.position = self._held, [], event.id
        # The latest run of a job may be another one by the time of the next connection.
        self.path = f"/v1/runs/{quote(lines[-1].run_id, safe='')}/logs"
        return lines
