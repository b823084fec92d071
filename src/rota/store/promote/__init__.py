"""Promotion: upcoming runs go live when they are due, or end because they were missed, expired or can't be promoted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.job import Timetable
from rota.domain.misfire import MISSED_AFTER
from rota.domain.run import EXPIRED, LOOKAHEAD
from rota.errors import DataRejectedError
from rota.store.lease import leased
from rota.store.postgres.batches import columns, write_each
from rota.store.postgres.database import Database
from rota.store.postgres.scan_positions import ScanPositions
from rota.store.read.timetables import read_with_timetable
from rota.store.schema.partitions import with_days
from rota.telemetry import get_logger

_log = get_logger("schedules")


class MissedRun(msgspec.Struct, frozen=True):
    """A schedule's run that was not promoted in time."""

    namespace: str
    id: UUID
    job_id: UUID
    version: int  # of the job
    nominal_at: datetime
    timetable: Timetable
    fired_through: datetime
    next_fire_at: datetime | None
    database_time: datetime


class Promotions:
    """Runs whose time has come. `owned` maps shards to the epochs they were leased at."""

    def __init__(self, database: Database, scheduler_id: UUID) -> None:
        self._database = database
        self._scheduler_id = scheduler_id
        self._promoted = ScanPositions()
        self._stuck: set[UUID] = set()
        self._unexpired: set[UUID] = set()

    async def promote(self, owned: Mapping[int, int], limit: int) -> int:
        """Moves due runs to live, or to their gates; returns how many. One that is refused is buried alone."""
        wanted: dict[str, Any] = {
            **leased(self._scheduler_id, owned),
            "lookahead": LOOKAHEAD,
            "limit": limit + len(self._stuck),
            "missed_after": MISSED_AFTER,
        }
        try:
            with self._promoted.look(owned) as look:
                rows = await self._database.fetch("promote", **wanted, begin_at=look.begin_at)
                look.took((row["shard"], row["reached"]) for row in rows)
                look.rows = sum(row["runs"] for row in rows)
        except DataRejectedError:
            found = await self._database.fetch("due_runs", **wanted, begin_at=look.begin_at)
            due = [(row["namespace"], row["id"]) for row in found if row["id"] not in self._stuck]
            rows = await write_each(due, self._promote_runs, self._bury)
        return self._wake(rows)

    def expect(self, runs: Iterable[tuple[int, datetime]]) -> None:
        """Runs were made, as (shard, when they start), some of them perhaps for moments that promotion has passed."""
        for shard, run_at in runs:
            self._promoted.go_back(shard, run_at.timestamp())

    async def promote_runs(self, runs: Sequence[tuple[str, UUID]]) -> int:
        """Moves these runs to live, or to their gates, late as they are; returns how many."""
        return self._wake(await write_each(sorted(runs, key=lambda run: run[1]), self._promote_runs, self._bury))

    async def missed_runs(self, owned: Mapping[int, int], limit: int) -> list[MissedRun]:
        """Runs of schedules that are too late to be promoted without a thought."""
        rows = await self._database.fetch(
            "missed_runs",
            **leased(self._scheduler_id, owned),
            missed_after=MISSED_AFTER,
            limit=limit,
        )
        return [read_with_timetable(MissedRun, row) for row in rows]

    async def skip(self, skips: Sequence[tuple[str, UUID, str]]) -> list[tuple[UUID, DataRejectedError]]:
        """Records runs as skipped: (namespace, run id, reason) of each. Returns those that PostgreSQL refused."""
        rejected: list[tuple[UUID, DataRejectedError]] = []

        async def write(some: Sequence[tuple[str, UUID, str]]) -> list[Any]:
            return await with_days(
                self._database,
                [run_id for _, run_id, _ in some],
                lambda: self._database.fetch("skip_runs", **columns(some, "namespaces run_ids reasons")),
            )

        async def reject(skip: tuple[str, UUID, str], error: DataRejectedError) -> None:
            rejected.append((skip[1], error))

        await write_each(sorted(skips, key=lambda skip: skip[1]), write, reject)
        return rejected

    async def expire(self, owned: Mapping[int, int], limit: int) -> int:
        """Skips runs that were not started in time; returns how many."""
        late: dict[str, Any] = {
            **leased(self._scheduler_id, owned),
            "limit": limit,
        }
        try:
            return len(await self._database.fetch("expire_runs", **late, reason=EXPIRED, only=None))
        except DataRejectedError:
            rows = await self._database.fetch("expiring_runs", **late)

        async def skip(some: Sequence[UUID]) -> list[Any]:
            return await with_days(
                self._database,
                some,
                lambda: self._database.fetch("expire_runs", **late, reason=EXPIRED, only=list(some)),
            )

        async def leave(run_id: UUID, error: DataRejectedError) -> None:
            if run_id not in self._unexpired:
                _log.error("a run has expired and can't be skipped", run_id=str(run_id), error=str(error))
            self._unexpired.add(run_id)

        return len(await write_each(sorted(row["id"] for row in rows), skip, leave))

    async def sweep(self, limit: int) -> int:
        """Takes away expired keys and rows of workers and schedulers long gone."""
        swept: int = await self._database.fetch_value("sweep", limit=limit)
        return swept

    def _wake(self, rows: Sequence[Any]) -> int:
        self._database.wake(pools={row["pool"] for row in rows}, gates=any(row["gated"] for row in rows))
        return sum(row["runs"] for row in rows)

    async def _promote_runs(self, runs: Sequence[tuple[str, UUID]]) -> list[Any]:
        return await self._database.fetch("promote_runs", **columns(runs, "namespaces run_ids"), lookahead=LOOKAHEAD)

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
            self._stuck.add(run_id)  # a promotion takes it along as soon as its data is mended
