"""Server-sent events: how they are written, and where a client that was cut off goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from rota.api.operations import Call
from rota.errors import BadInputError

BEAT_SECONDS = 10.0
BEAT = b": still here\n\n"
_LONGEST_POSITION = 18  # digits of a bigint
_SWITCHES = {"true": True, "false": False}
_encoder = msgspec.json.Encoder()


def event_stream(events: AsyncIterator[bytes]) -> StreamingResponse:
    """A response that nobody on the way keeps or gathers."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


def event(kind: str, data: Any, position: int | None = None) -> bytes:
    """One event; who is cut off behind it goes on at its position."""
    number = f"id: {position}\n" if position is not None else ""
    return f"event: {kind}\n{number}data: ".encode() + _encoder.encode(data) + b"\n\n"


def read_position(call: Call) -> int | None:
    """The last position the client has seen (Last-Event-ID), if it names one."""
    text = call.request.headers.get("last-event-id", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_POSITION else None


def read_switch(call: Call, name: str) -> bool:
    """A parameter that is true or false."""
    text = call.query.get(name, "false")
    if text not in _SWITCHES:
        raise BadInputError("must be true or false", field=name)
    return _SWITCHES[text]
