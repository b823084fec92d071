"""What schedulers do to jobs and waiting runs: fire, promote, skip what was missed, readmit what was recalled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.job import Timetable
from rota.errors import DataRejectedError
from rota.store.postgres.batches import columns, with_days, write_each
from rota.store.postgres.database import Database, MissingDayError
from rota.store.postgres.scan_positions import ScanPositions
from rota.store.submit import LOOKAHEAD
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


class Promoted(msgspec.Struct, frozen=True):
    """How many runs were promoted, to which pools, and whether some came to their gates."""

    runs: int
    pools: set[str]
    gated: bool


class MissedRun(msgspec.Struct, frozen=True):
    """A schedule's run that nobody promoted in time."""

    namespace: str
    id: UUID
    job_id: UUID
    nominal_at: datetime
    timetable: Timetable
    database_time: datetime


class RecalledRun(msgspec.Struct, frozen=True):
    """A run that its worker gave back because its job changed, with what the job says now."""

    namespace: str
    id: UUID
    job_id: UUID
    cause: str
    attempt: int
    nominal_at: datetime
    run_at: datetime
    version: int
    state: str
    timetable: Timetable
    database_time: datetime


class Schedules:
    """The scheduler's statements. `owned` maps shards to the epochs they were leased at."""

    def __init__(self, database: Database, scheduler_id: UUID) -> None:
        self._database = database
        self._scheduler_id = scheduler_id
        self._fired = ScanPositions()
        self._promoted = ScanPositions()

    async def due_jobs(self, owned: Mapping[int, int], horizon: timedelta, limit: int) -> list[ScheduledJob]:
        """Jobs to fire."""
        with self._fired.look(owned) as look:
            rows = await self._database.fetch(
                "due_jobs",
                scheduler_id=self._scheduler_id,
                shards=list(owned),
                epochs=list(owned.values()),
                horizon=horizon,
                limit=limit,
                begin_at=look.begin_at,
            )
            look.took((row["shard"], row["reached"]) for row in rows)
        return [_scheduled_job(row) for row in rows]

    async def fire(self, owned: Mapping[int, int], firings: Sequence[Firing]) -> list[datetime]:
        """Makes the runs of what has not changed since it was read; returns when they are due."""

        async def write(some: Sequence[Firing]) -> list[Any]:
            jobs = [firing.job for firing in some]
            runs = [run for firing in some for run in firing.runs]
            ends = list(accumulate(len(firing.runs) for firing in some))
            return await self._database.fetch(
                "fire",
                scheduler_id=self._scheduler_id,
                shards=list(owned),
                epochs=list(owned.values()),
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

    async def promote(self, owned: Mapping[int, int], missed_after: timedelta, limit: int) -> Promoted:
        """Moves due runs to live, or to their gates. One that is refused is buried alone."""
        wanted: dict[str, Any] = {
            "scheduler_id": self._scheduler_id,
            "shards": list(owned),
            "epochs": list(owned.values()),
            "lookahead": LOOKAHEAD,
            "limit": limit,
            "missed_after": missed_after,
        }
        try:
            with self._promoted.look(owned) as look:
                rows = await self._database.fetch("promote", **wanted, begin_at=look.begin_at)
                look.took((row["shard"], row["reached"]) for row in rows)
                look.rows = sum(row["runs"] for row in rows)
        except DataRejectedError:
            due = await self._database.fetch("due_runs", **wanted, begin_at=look.begin_at)
            rows = await write_each([(row["namespace"], row["id"]) for row in due], self._promote_runs, self._bury)
        return _promoted(rows)

    async def expire(self, owned: Mapping[int, int], limit: int, reason: str) -> int:
        """Skips runs that were not started in time; returns how many."""
        late: dict[str, Any] = {
            "scheduler_id": self._scheduler_id,
            "shards": list(owned),
            "epochs": list(owned.values()),
            "limit": limit,
        }
        try:
            return len(await self._database.fetch("expire_runs", **late, reason=reason))
        except MissingDayError:
            rows = await self._database.fetch("expiring_runs", **late)
            await self._database.fetch("make_days_of", run_ids=[row["id"] for row in rows])
            return len(await self._database.fetch("expire_runs", **late, reason=reason))

    async def missed_runs(self, owned: Mapping[int, int], missed_after: timedelta, limit: int) -> list[MissedRun]:
        """Runs of schedules that are too late to be promoted without a thought."""
        rows = await self._database.fetch(
            "missed_runs",
            scheduler_id=self._scheduler_id,
            shards=list(owned),
            epochs=list(owned.values()),
            missed_after=missed_after,
            limit=limit,
        )
        return [
            MissedRun(
                row["namespace"], row["id"], row["job_id"], row["nominal_at"], timetable_of(row), row["database_time"]
            )
            for row in rows
        ]

    async def skip(self, skips: Sequence[tuple[str, UUID, str]]) -> int:
        """Records runs as skipped: (namespace, run id, reason) of each."""

        async def write(some: Sequence[tuple[str, UUID, str]]) -> list[Any]:
            return await with_days(
                self._database,
                [run_id for _, run_id, _ in some],
                lambda: self._database.fetch("skip_runs", **columns(some, "namespaces", "run_ids", "reasons")),
            )

        async def reject(skip: tuple[str, UUID, str], error: DataRejectedError) -> None:
            _log.error("a missed run could not be recorded", run_id=str(skip[1]), error=str(error))

        return len(await write_each(sorted(skips, key=lambda skip: skip[1]), write, reject))

    async def promote_runs(self, runs: Sequence[tuple[str, UUID]]) -> Promoted:
        """Moves these runs to live, or to their gates, late as they are."""
        return _promoted(await write_each(sorted(runs, key=lambda run: run[1]), self._promote_runs, self._bury))

    async def recalled_runs(self, owned: Mapping[int, int], limit: int) -> list[RecalledRun]:
        """Runs that wait for a decision because their job changed while a worker held them."""
        rows = await self._database.fetch(
            "recalled_runs",
            scheduler_id=self._scheduler_id,
            shards=list(owned),
            epochs=list(owned.values()),
            limit=limit,
        )
        return [
            RecalledRun(
                row["namespace"],
                row["id"],
                row["job_id"],
                row["cause"],
                row["attempt"],
                row["nominal_at"],
                row["run_at"],
                row["version"],
                row["state"],
                timetable_of(row),
                row["database_time"],
            )
            for row in rows
        ]

    async def readmit(self, decisions: Sequence[tuple[RecalledRun, str]]) -> set[str]:
        """Carries out decisions whose job did not change meanwhile; returns the pools that have new work."""

        async def write(some: Sequence[tuple[RecalledRun, str]]) -> list[Any]:
            return await with_days(
                self._database,
                [run.id for run, _ in some],
                lambda: self._database.fetch(
                    "decide_recalled",
                    namespaces=[run.namespace for run, _ in some],
                    run_ids=[run.id for run, _ in some],
                    fates=[fate for _, fate in some],
                    versions=[run.version for run, _ in some],
                    lookahead=LOOKAHEAD,
                ),
            )

        async def reject(decision: tuple[RecalledRun, str], error: DataRejectedError) -> None:
            _log.error("a recalled run could not be readmitted", run_id=str(decision[0].id), error=str(error))

        rows = await write_each(sorted(decisions, key=lambda decision: decision[0].id), write, reject)
        return {row["pool"] for row in rows if row["fate"] == "go"}

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
        return [_scheduled_job(row) for row in rows]

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

    async def make_days(self, ahead: int) -> int:
        """Makes the day partitions of history for the days to come."""
        made: int = await self._database.fetch_value("make_days", ahead=ahead)
        return made

    async def sweep(self, limit: int) -> int:
        """Takes away expired keys and rows of workers and schedulers long gone."""
        swept: int = await self._database.fetch_value("sweep", limit=limit)
        return swept

    async def _promote_runs(self, runs: Sequence[tuple[str, UUID]]) -> list[Any]:
        return await self._database.fetch("promote_runs", **columns(runs, "namespaces", "run_ids"))

    async def _bury(self, run: tuple[str, UUID], error: DataRejectedError) -> None:
        namespace, run_id = run
        _log.error("a run can't be promoted and is buried", run_id=str(run_id), error=str(error))
        try:
            await with_days(
                self._database,
                [run_id],
                lambda: self._database.fetch(
                    "bury_upcoming", namespace=namespace, run_id=run_id, error=f"could not be promoted: {error}"
                ),
            )
        except DataRejectedError as again:
            _log.error("a run can be neither promoted nor buried", run_id=str(run_id), error=str(again))


def _scheduled_job(row: Any) -> ScheduledJob:
    return ScheduledJob(
        row["namespace"],
        row["id"],
        row["version"],
        timetable_of(row),
        row["next_fire_at"],
        row["fired_through"],
        row["database_time"],
    )


def _promoted(rows: Sequence[Any]) -> Promoted:
    return Promoted(sum(row["runs"] for row in rows), {row["pool"] for row in rows}, any(row["gated"] for row in rows))


def timetable_of(row: Any) -> Timetable:
    """The timetable in a row of jobs."""
    return Timetable(
        row["schedule_type"],
        row["cron_expression"],
        row["every_seconds"],
        row["timezone"],
        row["anchor_at"],
        row["start_at"],
        row["end_at"],
        row["jitter_seconds"],
        row["dst"],
        row["misfire"],
    )
