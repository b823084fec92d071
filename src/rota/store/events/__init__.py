"""Events in the order of their numbers, for those who follow them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from rota.store.postgres.database import Database


class EventPage(NamedTuple):
    """Events behind a number. No transaction before `oldest` is under way any more; none from `next` on had begun."""

    rows: list[Any]
    oldest: int
    next: int


class Events:
    """Reads events."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def after(self, number: int, limit: int) -> EventPage:
        """Those of all namespaces behind a number, in order."""
        rows = await self._database.fetch("follow_events", after=number, limit=limit)
        return EventPage([row for row in rows if row["id"] is not None], rows[0]["oldest"], rows[0]["next"])

    async def between(self, namespace: str, after: int, until: int, owner: str | None, limit: int) -> list[Any]:
        """Those of a namespace (and about this owner's jobs) with numbers above `after` and up to `until`, in order."""
        return await self._database.fetch(
            "events_between", namespace=namespace, after=after, until=until, owner=owner, limit=limit
        )

    async def latest_before(self, age: timedelta) -> int:
        """The number of the latest event that is older than this; 0 when there is none."""
        number: int | None = await self._database.fetch_value("earlier_event", age=age)
        return number or 0
