"""The whole installation in numbers, for metrics: bounded looks at every table of runs that have not ended."""

from __future__ import annotations

from typing import Any

import msgspec

from rota.domain.firing import LATE_AFTER
from rota.store.postgres.database import Database
from rota.store.read.fleet import Fleet

# Rows of each table that one look counts, and namespaces: beyond that, numbers are at least as large as they say.
MOST_COUNTED = 100_000
MOST_NAMESPACES = 1000
_MOST_OVERDUE_PER_SHARD = 1000


class InstallationCounts(msgspec.Struct, frozen=True):
    """One look."""

    live: list[Any]  # by namespace and pool: queued, running, oldest_seconds
    upcoming: list[Any]  # by namespace and pool: scheduled, retrying
    held: list[Any]  # by namespace, pool and gate: held
    dead_letters: list[Any]  # by namespace: letters
    breakers: list[Any]  # by namespace and state: breakers
    overdue: list[Any]  # by namespace: overdue
    slots: list[Any]  # by namespace and pool: slots
    workers: list[Any]  # each with its status


class Installation:
    """Counts runs, workers, schedules and gates of all namespaces."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._fleet = Fleet(database)

    async def look(self) -> InstallationCounts:
        bounds = {"most": MOST_COUNTED, "most_namespaces": MOST_NAMESPACES}
        return InstallationCounts(
            live=await self._database.fetch("count_live_everywhere", **bounds),
            upcoming=await self._database.fetch("count_upcoming_everywhere", **bounds),
            held=await self._database.fetch("count_held_everywhere", **bounds),
            dead_letters=await self._database.fetch("count_dead_letters_everywhere", **bounds),
            breakers=await self._database.fetch("count_breakers_everywhere", **bounds),
            overdue=await self._database.fetch(
                "count_overdue_everywhere", late_after=LATE_AFTER, most=_MOST_OVERDUE_PER_SHARD
            ),
            slots=await self._database.fetch("count_slots_everywhere"),
            workers=await self._fleet.workers(),
        )
