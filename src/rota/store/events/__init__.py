"""Events: what happened to the fleet, schedules, gates, pools and runs, in the order of their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from rota.domain.events import EventFilter
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database, Statements


class EventPage(NamedTuple):
    """Events behind a number. No transaction before `oldest` is under way any more; none from `next` on had begun."""

    rows: list[Any]
    oldest: int
    next: int


class Event(msgspec.Struct, frozen=True):
    """Something that happened. One about a recurring job is its owner's, unless another is named."""

    namespace: str
    kind: str
    subject: str
    detail: str | None
    job_id: UUID | None = None
    owner: str | None = None
    data: str | None = None  # for programs, an object (JSON)


class Events:
    """Reads events."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def after(self, number: int, limit: int) -> EventPage:
        """Events of all namespaces after a number, in order."""
        rows = await self._database.fetch("follow_events", after=number, limit=limit)
        return EventPage([row for row in rows if row["id"] is not None], rows[0]["oldest"], rows[0]["next"])

    async def between(self, wanted: EventFilter, after: int, until: int, limit: int) -> list[Any]:
        """Events that a filter admits, with numbers above `after` up to `until`, in order."""
        chosen = _parameters(wanted)
        return await self._database.fetch("events_between", after=after, until=until, limit=limit, **chosen)

    async def latest_before(self, age: timedelta) -> int:
        """The number of the latest event that is older than this; 0 when there is none."""
        number: int | None = await self._database.fetch_value("earlier_event", age=age)
        return number or 0

    async def latest(self, wanted: EventFilter, before: int, limit: int) -> list[Any]:
        """Events that a filter admits, latest first."""
        chosen = _parameters(wanted) | {"since_time": wanted.since, "until_time": wanted.until}
        return await self._database.fetch("list_events", before=before, limit=limit, **chosen)


def _parameters(wanted: EventFilter) -> dict[str, Any]:
    return {
        "namespace": wanted.namespace,
        "owner": wanted.owner,
        "sees_all": wanted.sees_all,
        "kinds": list(wanted.kinds),
        "beginnings": [kind for kind in wanted.kinds if kind.endswith(".")],
        "subject": wanted.subject,
    }


async def record_events(statements: Statements, events: Sequence[Event]) -> None:
    """Writes events."""
    if events:
        await statements.fetch(
            "add_events",
            **columns(map(msgspec.structs.astuple, events), "namespaces kinds subjects details job_ids owners datas"),
        )
