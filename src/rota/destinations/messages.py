"""What is sent of an event: the object that the API shows, for programs, and a few lines for people."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from rota.contract.fleet import EventOut
from rota.domain.events import data_of, rank_of
from rota.domain.text import strip_control

MOST_BODY_BYTES = 64 * 1024
_MOST_DETAIL = 2000
_MOST_LINES = 12
_MOST_VALUE = 200
_ID_BYTES = 16
_UNSHOWN = ("severity", "destinations")
_encoder = msgspec.json.Encoder()


class Message(NamedTuple):
    """An event for one destination. Its id is the same however often it is sent, so receivers can tell repeats."""

    id: str
    event: EventOut

    @property
    def body(self) -> bytes:
        """The event as the API shows it; one that is too large without its data."""
        body = _encoder.encode(self.event)
        if len(body) > MOST_BODY_BYTES:
            detail = None if self.event.detail is None else self.event.detail[:_MOST_DETAIL]
            data = {"tooLarge": len(body)}
            body = _encoder.encode(msgspec.structs.replace(self.event, detail=detail, data=data))
        return body

    @property
    def title(self) -> str:
        return strip_control(f"Rota: {self.event.event} {self.event.subject}"[:_MOST_VALUE])

    @property
    def text(self) -> str:
        """A few lines for people."""
        event = self.event
        lines = [
            (event.detail or "")[:_MOST_DETAIL],
            f"namespace: {event.namespace}",
            f"time: {event.time.isoformat()}",
        ]
        lines += [f"{name}: {_short(value)}" for name, value in (event.data or {}).items() if name not in _UNSHOWN]
        return strip_control("\n".join(line for line in lines[:_MOST_LINES] if line))

    @property
    def tone(self) -> str:
        """What Apprise calls the type of a message."""
        if self.event.event.endswith((".resolved", ".closed", ".completed", ".returned")):
            return "success"
        return ("info", "warning", "failure")[rank_of(self.event.data or {})]


def message_of(destination_id: UUID, row: Any) -> Message:
    """The event's time is part of the id: a database that was restored gives its numbers to other events."""
    known = f"{destination_id.hex} {row['id']} {row['at'].isoformat()}"
    return Message(f"msg_{blake2b(known.encode(), digest_size=_ID_BYTES).hexdigest()}", show_event(row))


def show_event(row: Any) -> EventOut:
    """An event as the API shows it."""
    return EventOut(
        event_id=row["id"],
        namespace=row["namespace"],
        time=row["at"],
        event=row["kind"],
        subject=row["subject"],
        detail=row["detail"],
        data=None if row["data"] is None else data_of(row),
    )


def _short(value: Any) -> str:
    return (value if isinstance(value, str) else _encoder.encode(value).decode())[:_MOST_VALUE]
