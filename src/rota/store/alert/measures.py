"""What rules of alerts are measured from: the present, and what was counted of the last hours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from rota.domain.alerts import LONGEST_BURN, MOST_KEYS, OVERDUE_AFTER
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database

_MINUTES_KEPT = LONGEST_BURN + timedelta(minutes=10)
MOST_READ = 10_000  # rows, of what may be many
_MOST_JOBS = 1000


class AlertMeasures:
    """Reads of all namespaces at once what a rule asks for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def roll_up(self) -> None:
        """Sums up what workers told since the last time."""
        await self._database.fetch("roll_up_alert_minutes", kept=_MINUTES_KEPT)

    async def late_starts(self, first_late: int, windows: Sequence[float], pool: str | None) -> list[Any]:
        """Of pools with late starts: how many in each window. `first_late`: the step of the scale, from 1."""
        return await self._database.fetch("burning_pools", first_late=first_late, windows=windows, pool=pool)

    async def poor_ends(self, window: timedelta, minimum: int, share: float, pool: str | None) -> list[Any]:
        """Pools in which less than this share of runs succeeded."""
        return await self._database.fetch("ends_of_pools", window=window, minimum=minimum, share=share, pool=pool)

    async def buried(self, window: timedelta, threshold: float, task: str | None, job_id: UUID | None) -> list[Any]:
        """Namespaces with at least so many new dead letters."""
        return await self._database.fetch(
            "buried_of_late", window=window, threshold=threshold, task=task, job_id=job_id, most=MOST_READ
        )

    async def queued(self, waited: timedelta, pool: str | None, task: str | None) -> list[Any]:
        """Lanes in which a run has been ready for longer than this, and what the fleet offers to it."""
        return await self._database.fetch("queued_lanes", waited=waited, pool=pool, task=task, most=MOST_READ)

    async def overdue(
        self, grace: timedelta, window: timedelta, pool: str | None, task: str | None, job_id: UUID | None
    ) -> list[Any]:
        """Schedules that are overdue by more than the grace, or were within the window."""
        return await self._database.fetch(
            "overdue_schedules",
            grace=grace,
            window=window,
            pool=pool,
            task=task,
            job_id=job_id,
            most=MOST_READ,
            most_named=10 * MOST_KEYS,
        )

    async def failing_jobs(self, window: timedelta, task: str | None, job_id: UUID | None) -> list[Any]:
        """Recurring jobs of which a run failed for good within the window."""
        return await self._database.fetch("failing_jobs", window=window, task=task, job_id=job_id, most=_MOST_JOBS)

    async def failed_in_a_row(self, jobs: Iterable[tuple[str, UUID]], times: int, first: UUID) -> set[tuple[str, UUID]]:
        """Those of these jobs whose last runs, so many, have all failed; in the history from this id on."""
        rows = await self._database.fetch(
            "failures_in_a_row", **columns(jobs, "namespaces job_ids"), times=times, first=first
        )
        return {(row["namespace"], row["job_id"]) for row in rows}

    async def breakers(self) -> list[Any]:
        """Breakers that are not closed."""
        return await self._database.fetch("open_breakers", most=MOST_READ)

    async def lost(self) -> list[Any]:
        """Workers that were declared lost, and all schedulers; with the seconds since then or since their last beat."""
        return await self._database.fetch("lost_processes")

    async def skewed(self, seconds: float) -> list[Any]:
        """Processes whose clocks differ by more than this."""
        return await self._database.fetch("skewed_clocks", seconds=seconds)

    async def database_bytes(self) -> int:
        size: int = await self._database.fetch_value("database_bytes")
        return size


class OverdueCounts:
    """How many schedules have not fired although their time has come."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def count(self, grace: timedelta = OVERDUE_AFTER) -> tuple[dict[str, int], int]:
        """By namespace, and how many schedules there are in all."""
        rows = await self._database.fetch("count_overdue", grace=grace, most=MOST_READ)
        return {row["namespace"]: row["overdue"] for row in rows if row["namespace"] is not None}, rows[0]["scheduled"]

    async def note_heartbeat(self, pause: timedelta) -> bool:
        """Notes that the outside monitor is told now; False: it was a moment ago."""
        return bool(await self._database.fetch("note_heartbeat", pause=pause))
