"""Events: what happened, as a list or as it comes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation
from rota.api.paging import PAGE_PARAMETERS, read_limit, read_moment, read_number_cursor, read_text
from rota.api.streams.sse import BEAT, BEAT_SECONDS, event, event_stream, read_position, read_switch
from rota.contract.fleet import EventList
from rota.destinations.messages import show_event
from rota.domain.events import EventFilter
from rota.domain.rights import EVERYWHERE, Right
from rota.errors import BadInputError, DatabaseUnavailableError
from rota.time_limits import time_limit

_PAGE = 500
_MOST_KINDS = 20
_TIMES = {
    "since": "at or after this time (RFC 3339, or seconds or milliseconds since 1970)",
    "until": "before this time (RFC 3339, or seconds or milliseconds since 1970)",
}


@Operation(
    "GET",
    "/v1/events",
    Right.READ,
    answer=EventList,
    query={
        "follow": "true: stream events as they happen, in the order of their numbers",
        "kind": "only of this kind; `worker.` stands for all that begin so; several separated by commas",
        "subject": "only about this job, task, worker, pool, …",
        **_TIMES,
        **PAGE_PARAMETERS,
    },
    headers={"Last-Event-ID": "with follow: continue after this event; from now on if not given"},
)
async def list_events(services: Backend, call: ApiRequest) -> Any:
    """List what happened to workers, schedulers, runs, schedules, breakers and pools, or stream it (server-sent
    events)."""
    wanted = _read_filter(call)
    if read_switch(call, "follow"):
        return _follow(services, call, wanted)
    limit = read_limit(call.query)
    rows = await services.events.latest(wanted, read_number_cursor(call.query), limit)
    next_cursor = str(rows[-1]["id"]) if len(rows) == limit else None
    return EventList(items=[show_event(row) for row in rows], next_cursor=next_cursor)


def _read_filter(call: ApiRequest) -> EventFilter:
    kinds = tuple(kind for kind in (read_text(call.query, "kind") or "").split(",") if kind)
    if len(kinds) > _MOST_KINDS:
        raise BadInputError(f"names more than {_MOST_KINDS} kinds", field="kind")
    return EventFilter(
        namespace=call.namespace,
        owner=call.only,
        sees_all=call.only is None and EVERYWHERE in call.access.identity.grants,
        kinds=kinds,
        subject=read_text(call.query, "subject"),
        since=read_moment(call.query, "since"),
        until=read_moment(call.query, "until"),
    )


def _follow(services: Backend, call: ApiRequest, wanted: EventFilter) -> Any:
    for name in (*_TIMES, *PAGE_PARAMETERS):
        if name in call.query:
            raise BadInputError("needs follow=false", field=name)
    services.event_tail.check_room(call.namespace, call.caller.owner)
    return event_stream(call, _events(services, call, wanted, read_position(call)), services.stopping)


async def _events(
    services: Backend, call: ApiRequest, wanted: EventFilter, after: int | None
) -> AsyncGenerator[bytes, None]:
    """First the events since the client was cut off, then new ones. The first id tells a new client where it began."""
    async with services.event_tail.follow(wanted, call.caller.owner) as follower:
        yield b": following\n\n"
        begin = await follower.begin
        position = begin if after is None else after
        yield f"id: {position}\n\n".encode()
        try:
            while rows := await services.events.between(wanted, position, begin, _PAGE):
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
    return event("event", show_event(row), row["id"])


OPERATIONS = (list_events,)
