"""Events: what happened to breakers, pools and declared schedules, as a list or as it comes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation
from rota.api.paging import PAGE_PARAMETERS, read_limit
from rota.api.streams.sse import BEAT, BEAT_SECONDS, event, event_stream, read_position, read_switch
from rota.contract.fleet import EventList, EventOut
from rota.domain.rights import Right
from rota.errors import BadInputError, DatabaseUnavailableError
from rota.time_limits import time_limit

_LATEST = (1 << 63) - 1
_PAGE = 500


@Operation(
    "GET",
    "/v1/events",
    Right.READ,
    answer=EventList,
    query={
        "follow": "true: stream events as they happen, in the order of their numbers",
        **PAGE_PARAMETERS,
    },
    headers={"Last-Event-ID": "with follow: continue after this event; from now on if not given"},
)
async def list_events(services: Backend, call: ApiRequest) -> Any:
    """List what happened to breakers, pools and declared schedules, or stream it (server-sent events)."""
    if read_switch(call, "follow"):
        return _follow(services, call)
    limit = read_limit(call.query)
    rows = await services.events.latest(call.namespace, _read_cursor(call), call.only, limit)
    next_cursor = str(rows[-1]["id"]) if len(rows) == limit else None
    return EventList(items=[_show(row) for row in rows], next_cursor=next_cursor)


def _follow(services: Backend, call: ApiRequest) -> Any:
    for name in PAGE_PARAMETERS:
        if name in call.query:
            raise BadInputError("needs follow=false", field=name)
    services.event_tail.check_room(call.namespace, call.caller.owner)
    return event_stream(call, _events(services, call, read_position(call)), services.stopping)


async def _events(services: Backend, call: ApiRequest, after: int | None) -> AsyncGenerator[bytes, None]:
    """First the events since the client was cut off, then new ones. The first id tells a new client where it began."""
    namespace, only = call.namespace, call.only
    async with services.event_tail.follow(namespace, only, call.caller.owner) as follower:
        yield b": following\n\n"
        begin = await follower.begin
        position = begin if after is None else after
        yield f"id: {position}\n\n".encode()
        try:
            while rows := await services.events.between(namespace, position, begin, only, _PAGE):
                yield b"".join(_event(row) for row in rows)
                position = rows[-1]["id"]
        except DatabaseUnavailableError:
            return  # the client reconnects and continues from its position
        while True:
            try:
                async with time_limit(BEAT_SECONDS):
                    row = await follower.coming.get()
            except TimeoutError:
                yield BEAT
                continue
            if row is None:
                return
            if row["id"] > position:
                yield _event(row)


def _event(row: Any) -> bytes:
    return event("event", _show(row), row["id"])


def _show(row: Any) -> EventOut:
    return EventOut(
        event_id=row["id"],
        time=row["at"],
        event=row["kind"],
        subject=row["subject"],
        detail=row["detail"],
        data=None if row["data"] is None else msgspec.json.decode(row["data"], type=dict[str, Any]),
    )


def _read_cursor(call: ApiRequest) -> int:
    text = call.query.get("cursor")
    if text is None:
        return _LATEST
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_LATEST)) - 1:
        raise BadInputError("is not a valid cursor; use the nextCursor of this list", field="cursor")
    return int(text)


OPERATIONS = (list_events,)
