"""Server-sent events: how they are written, and where a client that was cut off continues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from rota.access.credential_cache import FRESH_SECONDS
from rota.api.operations import ApiRequest
from rota.errors import BadInputError

BEAT_SECONDS = 10.0
BEAT = b": still here\n\n"
_LONGEST_POSITION = 18  # digits of a bigint
_SWITCHES = {"true": True, "false": False}
_encoder = msgspec.json.Encoder()


def event_stream(call: ApiRequest, events: AsyncGenerator[bytes, None], stopping: asyncio.Event) -> StreamingResponse:
    """A response that proxies must not buffer or cache. It ends when the caller's key does, or when the server stops:
    the client reconnects and continues from its position."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_while_known(call, events, stopping), media_type="text/event-stream", headers=headers)


async def _while_known(
    call: ApiRequest, events: AsyncGenerator[bytes, None], stopping: asyncio.Event
) -> AsyncIterator[bytes]:
    async with aclosing(events):
        coming = asyncio.ensure_future(anext(events, None))
        stopped = asyncio.ensure_future(stopping.wait())
        try:
            while True:
                await asyncio.wait({coming, stopped}, timeout=FRESH_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if stopped.done() or not await call.is_still_known():
                    return
                if not coming.done():
                    continue
                if (piece := await coming) is None:
                    return
                yield piece
                coming = asyncio.ensure_future(anext(events, None))
        finally:
            coming.cancel()
            stopped.cancel()
            await asyncio.gather(coming, stopped, return_exceptions=True)


def event(kind: str, data: Any, position: int | None = None) -> bytes:
    """One event; a client that is cut off after it continues at its position."""
    number = f"id: {position}\n" if position is not None else ""
    return f"event: {kind}\n{number}data: ".encode() + _encoder.encode(data) + b"\n\n"


def read_position(call: ApiRequest) -> int | None:
    """The last position the client has seen (Last-Event-ID), if any."""
    text = call.request.headers.get("last-event-id", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_POSITION else None


def read_switch(call: ApiRequest, name: str) -> bool:
    """A parameter that is true or false."""
    text = call.query.get(name, "false")
    if text not in _SWITCHES:
        raise BadInputError("must be true or false", field=name)
    return _SWITCHES[text]
