"""Firing: the schedules of recurring jobs become runs, and follow changes of the time zone data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.firing import LATE_AFTER, Firing, ScheduledJob, plan_firing
from rota.errors import DataRejectedError
from rota.store.lease import leased
from rota.store.postgres.batches import write_each
from rota.store.postgres.database import Database, Statements
from rota.store.postgres.scan_positions import ScanPositions
from rota.store.read.timetables import read_with_timetable
from rota.store.schema.partitions import with_days
from rota.telemetry import get_logger

_log = get_logger("schedules")


class Fired(msgspec.Struct):
    """What a firing came to: the runs that were made, as (shard, when they start), and what PostgreSQL refused.
    `made` and `missed` count runs by namespace."""

    runs: list[tuple[int, datetime]] = msgspec.field(default_factory=list)
    rejected: list[tuple[Firing, DataRejectedError]] = msgspec.field(default_factory=list)
    made: Counter[str] = msgspec.field(default_factory=Counter)
    missed: Counter[str] = msgspec.field(default_factory=Counter)


class Schedules:
    """Schedules that are due. `owned` maps shards to the epochs they were leased at."""

    def __init__(self, database: Database, scheduler_id: UUID) -> None:
        self._database = database
        self._scheduler_id = scheduler_id
        self._fired = ScanPositions()

    async def due_jobs(
        self, owned: Mapping[int, int], horizon: timedelta, limit: int, late_limit: int
    ) -> Iterator[ScheduledJob]:
        """Jobs to fire: per shard at most `limit` that are on time, then `late_limit` late ones, each oldest first."""
        with self._fired.look(owned) as look:
            rows = await self._database.fetch(
                "due_jobs",
                **leased(self._scheduler_id, owned),
                horizon=horizon,
                late_after=LATE_AFTER,
                limit=limit,
                late_limit=late_limit,
                begin_at=look.begin_at,
            )
            late = Counter(row["shard"] for row in rows if row["late"])
            # Where there may be more late ones, the position stays with them.
            look.took((row["shard"], row["reached"]) for row in rows if row["late"] or late[row["shard"]] < late_limit)
        rows.sort(key=lambda row: (row["late"], row["next_fire_at"]))
        return (read_with_timetable(ScheduledJob, row) for row in rows)

    def look_anew(self) -> None:
        """Not all that was found was fired: the next look begins at the very beginning."""
        self._fired.forget()

    async def fire(self, owned: Mapping[int, int], firings: Sequence[Firing]) -> Fired:
        """Makes the runs of what has not changed since it was read."""
        done = Fired()

        async def write(some: Sequence[Firing]) -> list[Any]:
            return await self._database.fetch("fire", **leased(self._scheduler_id, owned), **_columns(some))

        async def write_with_days(some: Sequence[Firing]) -> list[Any]:
            skipped = [run.id for firing in some for run in firing.runs if run.skipped]
            return await with_days(self._database, skipped, lambda: write(some))

        async def reject(firing: Firing, error: DataRejectedError) -> None:
            done.rejected.append((firing, error))

        rows: list[Any] = []
        try:
            rows = await write_each(sorted(firings, key=lambda firing: firing.job.id), write_with_days, reject)
        finally:
            if len(rows) < sum(len(firing.runs) for firing in firings):
                self.look_anew()
        done.made = Counter(row["namespace"] for row in rows if not row["skipped"])
        done.missed = Counter(row["namespace"] for row in rows if row["skipped"])
        done.runs = [(row["shard"], row["run_at"]) for row in rows if not row["skipped"]]
        return done

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


async def fire_due(statements: Statements, row: dict[str, Any], skipped: list[UUID]) -> datetime:
    """Makes the runs of a scheduled job's times that have come, before a change in the same transaction moves its mark.

    Takes the row as locked; returns the job's mark. The ids of runs that were recorded as skipped are added to
    `skipped`: where their days are missing, the caller makes them and begins again.
    """
    mark: datetime = row["fired_through"]
    if row["state"] != "scheduled" or row["next_fire_at"] > row["database_time"]:
        return mark
    try:
        firing = plan_firing(read_with_timetable(ScheduledJob, row), timedelta())
    except Exception as error:  # noqa: BLE001 - changing or pausing it is how its owner mends it
        _log.error("a schedule can't be read: its due times make no runs", job_id=str(row["id"]), error=repr(error))
        return mark
    skipped += [run.id for run in firing.runs if run.skipped]
    await statements.fetch("fire", scheduler_id=None, shards=[], epochs=[], **_columns([firing]))
    return firing.mark


def _columns(firings: Sequence[Firing]) -> dict[str, Any]:
    """Firings as the statement takes them; each names its part of the arrays of runs."""
    jobs = [firing.job for firing in firings]
    runs = [run for firing in firings for run in firing.runs]
    ends = list(accumulate(len(firing.runs) for firing in firings))
    return {
        "namespaces": [job.namespace for job in jobs],
        "job_ids": [job.id for job in jobs],
        "versions": [job.version for job in jobs],
        "marks": [job.fired_through for job in jobs],
        "new_marks": [firing.mark for firing in firings],
        "next_fires": [firing.next_fire_at for firing in firings],
        "first_runs": [end - len(firing.runs) + 1 for firing, end in zip(firings, ends, strict=True)],
        "last_runs": ends,
        "run_ids": [run.id for run in runs],
        "nominal_times": [run.nominal_at for run in runs],
        "start_times": [run.run_at for run in runs],
        "skipped": [run.skipped for run in runs],
        "late_after": LATE_AFTER,
    }
