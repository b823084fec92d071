"""Firing: the schedules of recurring jobs become runs, and follow changes of the time zone data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.job import Timetable
from rota.errors import DataRejectedError
from rota.store.lease import leased
from rota.store.postgres.batches import write_each
from rota.store.postgres.database import Database
from rota.store.postgres.scan_positions import ScanPositions
from rota.store.read.jobs import read_with_timetable
from rota.store.schema.partitions import with_days
from rota.telemetry import get_logger

_log = get_logger("schedules")


class ScheduledJob(msgspec.Struct, frozen=True):
    """A recurring job that is scheduled, as it was read."""

    namespace: str
    id: UUID
    version: int
    timetable: Timetable
    next_fire_at: datetime
    fired_through: datetime
    database_time: datetime


class PlannedRun(msgspec.Struct, frozen=True):
    """A run to make: for this time, to start at that one; or to record as skipped, for a reason."""

    id: UUID
    nominal_at: datetime
    run_at: datetime
    skipped: str | None = None


class Firing(msgspec.Struct, frozen=True):
    """What to make of a due job: runs at these nominal times, a new mark, and when to look again (None: never)."""

    job: ScheduledJob
    runs: list[PlannedRun]
    mark: datetime
    next_fire_at: datetime | None


class Schedules:
    """Schedules that are due. `owned` maps shards to the epochs they were leased at."""

    def __init__(self, database: Database, scheduler_id: UUID) -> None:
        self._database = database
        self._scheduler_id = scheduler_id
        self._fired = ScanPositions()

    async def due_jobs(self, owned: Mapping[int, int], horizon: timedelta, limit: int) -> list[ScheduledJob]:
        """Jobs to fire."""
        with self._fired.look(owned) as look:
            rows = await self._database.fetch(
                "due_jobs",
                **leased(self._scheduler_id, owned),
                horizon=horizon,
                limit=limit,
                begin_at=look.begin_at,
            )
            look.took((row["shard"], row["reached"]) for row in rows)
        return [read_with_timetable(ScheduledJob, row) for row in rows]

    async def fire(self, owned: Mapping[int, int], firings: Sequence[Firing]) -> list[datetime]:
        """Makes the runs of what has not changed since it was read; returns when they are due."""

        async def write(some: Sequence[Firing]) -> list[Any]:
            jobs = [firing.job for firing in some]
            runs = [run for firing in some for run in firing.runs]
            ends = list(accumulate(len(firing.runs) for firing in some))
            return await self._database.fetch(
                "fire",
                **leased(self._scheduler_id, owned),
                namespaces=[job.namespace for job in jobs],
                job_ids=[job.id for job in jobs],
                versions=[job.version for job in jobs],
                marks=[job.fired_through for job in jobs],
                new_marks=[firing.mark for firing in some],
                next_fires=[firing.next_fire_at for firing in some],
                first_runs=[end - len(firing.runs) + 1 for firing, end in zip(some, ends, strict=True)],
                last_runs=ends,
                run_ids=[run.id for run in runs],
                nominal_times=[run.nominal_at for run in runs],
                start_times=[run.run_at for run in runs],
                skipped=[run.skipped for run in runs],
            )

        async def write_with_days(some: Sequence[Firing]) -> list[Any]:
            skipped = [run.id for firing in some for run in firing.runs if run.skipped]
            return await with_days(self._database, skipped, lambda: write(some))

        async def reject(firing: Firing, error: DataRejectedError) -> None:
            _log.error("a schedule could not be fired", job_id=str(firing.job.id), error=str(error))

        rows: list[Any] = []
        try:
            rows = await write_each(sorted(firings, key=lambda firing: firing.job.id), write_with_days, reject)
        finally:
            if len(rows) < sum(len(firing.runs) for firing in firings):
                self._fired.forget()
        return [row["run_at"] for row in rows]

    async def zone_data(self) -> str | None:
        """With which zone data the stored times were computed last."""
        version: str | None = await self._database.fetch_value("zone_data")
        return version

    async def note_zone_data(self, version: str) -> None:
        """All stored times are computed with this zone data."""
        await self._database.fetch("note_zone_data", version=version)

    async def zoned_jobs(self, after: ScheduledJob | None, limit: int) -> list[ScheduledJob]:
        """Schedules in local time, some after the other."""
        namespace, job_id = (after.namespace, after.id) if after else ("", UUID(int=0))
        rows = await self._database.fetch("zoned_jobs", namespace=namespace, job_id=job_id, limit=limit)
        return [read_with_timetable(ScheduledJob, row) for row in rows]

    async def move_next_fires(self, moves: Sequence[tuple[ScheduledJob, datetime]]) -> int:
        """Writes other next fire times, for jobs that are still as they were read; returns how many."""
        rows = await self._database.fetch(
            "move_next_fires",
            namespaces=[job.namespace for job, _ in moves],
            job_ids=[job.id for job, _ in moves],
            versions=[job.version for job, _ in moves],
            before=[job.next_fire_at for job, _ in moves],
            wanted=[wanted for _, wanted in moves],
        )
        return len(rows)
