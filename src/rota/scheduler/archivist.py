"""Moves days of history whose retention is over to object storage.

    planned -> written -> verified -> detached -> dropped -> restoring -> restored -> written …

Each state is recorded in the database before the next step begins, so that a scheduler that dies in the middle of a
step is followed by one that makes the step again. Until `detached` the database has the runs and answers for them; from
then on the archive does, in one transaction. Nothing is detached that was not read back from object storage, and
nothing that a row came to since it was written.

It runs in the scheduler that owns SWEEPING_SHARD. Two at once do the same work twice and record it once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import msgspec

from rota.archive.day_check import ArchiveDamagedError, check_archive
from rota.archive.day_restore import restore_day
from rota.archive.day_writer import DayWriter
from rota.blobs import BlobError, Blobs
from rota.domain.ids import floor_id
from rota.domain.retention import EVERYTHING, RetentionPolicy, days_of, is_over
from rota.errors import LockTimeoutError, SetupError
from rota.scheduler.shard_service import ShardService
from rota.scheduler.sweeper import SWEEPING_SHARD
from rota.store.archive import Archives, ArchiveTask, RetentionPolicies
from rota.store.archive.payloads import UnusedPayloads
from rota.store.postgres.database import Database
from rota.telemetry import get_logger

# Of the time: the engine comes first, and ten million runs are through in a few hours.
SHARE = 0.1
_AGAIN_SECONDS = 30.0
_BUSY = "busy"
_LATE = "late"
_log = get_logger("archivist")


class Archivist(ShardService):
    """Takes archives a step further, oldest first."""

    interval_seconds = 60.0
    full_round = 1

    def __init__(self, *, database: Database, blobs: Blobs, share: float = SHARE, **shared: Any) -> None:
        super().__init__(**shared)
        self._archives = Archives(database)
        self._policies = RetentionPolicies(database)
        self._payloads = UnusedPayloads(database)
        self._blobs = blobs
        self._share = share
        self._waiting: dict[str, float] = {}  # periods that can't go on, and when to try again
        self._now = database.time

    async def serve(self, owned: Mapping[int, int]) -> int:
        """One step of the oldest archive that can go on: a day is dropped before the next is written. Returns 1, or 0
        when none can go on now."""
        if SWEEPING_SHARD not in owned:
            return 0
        planned = await self._plan()
        for task in await self._archives.open():
            if time.monotonic() >= self._waiting.get(task.period, 0.0) and await self._guarded_step(task):
                return 1
        return int(planned > 0)

    async def _guarded_step(self, task: ArchiveTask) -> int:
        """One archive that can't go on does not stop the others."""
        try:
            reason = await self._step(task)
        except (BlobError, SetupError, ArchiveDamagedError, LockTimeoutError) as error:
            reason = str(error)
        if reason is None:
            self._waiting.pop(task.period, None)
            return 1
        self._waiting[task.period] = time.monotonic() + _AGAIN_SECONDS
        if reason != task.error:
            _log.warning("a day can't be archived now; it stays where it is", period=task.period, reason=reason)
            await self._archives.note_error(task, reason)
        return 0

    async def _step(self, task: ArchiveTask) -> str | None:
        """Takes it to the next state; None, or why it can't go on now."""
        match task.state:
            case "planned":
                return await self._write(task)
            case "written":
                return await self._verify(task)
            case "verified":
                return await self._detach(task)
            case "detached":
                await self._payloads.remove(task, self._archives, self._blobs)
                return None if await self._archives.drop(task) else _BUSY
            case "restoring":
                return None if await restore_day(self._archives, self._payloads, self._blobs, task) else _BUSY
            case _:  # restored, and its time is over
                if await self._archives.is_late(task):
                    await self._plan_again(task)
                else:
                    await self._archives.move(task, "written")
                return None

    async def _plan(self) -> int:
        """Plans what is over; returns how many."""
        policies = await self._policies.all()
        if all(policy.history_days is None for policy in policies.values()):
            return 0
        now, planned = await self._now(), 0
        for period in await self._archives.past_periods():
            first, before = range_of(period)
            namespaces = await self._archives.namespaces_of(first, before)
            if not is_over(period, [policies.get(namespace, EVERYTHING) for namespace in namespaces], now):
                continue
            if await self._archives.held_by(first, before) is None:
                planned += await self._archives.plan(period, first, before, _kept(namespaces, policies))
        return planned

    async def _plan_again(self, task: ArchiveTask) -> None:
        namespaces = await self._archives.namespaces_of(task.first_id, task.before_id)
        await self._archives.plan_again(task, _kept(namespaces, await self._policies.all()))

    async def _write(self, task: ArchiveTask) -> str | None:
        if not await self._archives.watch(task):
            return "its partition is gone"
        written = await DayWriter(self._archives, self._blobs, task, share=self._share).write()
        await self._archives.note_written(
            task,
            index_key=written.index_key,
            index_hash=written.index_hash,
            objects=msgspec.json.encode(written.objects).decode(),
            runs=written.runs,
            attempts=written.read_attempts,
            left_out=written.left_out,
            bytes=written.size,
        )
        return None

    async def _verify(self, task: ArchiveTask) -> str | None:
        try:
            await check_archive(self._blobs, task, share=self._share)
        except ArchiveDamagedError as error:
            await self._plan_again(task)
            return f"{error}; it is written again"
        expected = (task.runs or 0) + (task.left_out or 0), task.attempts
        if await self._archives.count(task) != expected:
            await self._plan_again(task)
            return "rows came while it was written; it is written again"
        await self._archives.move(task, "verified")
        return None

    async def _detach(self, task: ArchiveTask) -> str | None:
        reason = await self._archives.detach(task)
        if reason != _LATE:
            return reason
        await self._plan_again(task)
        return None


def range_of(period: str) -> tuple[UUID, UUID]:
    """The ids of a partition, from the first to below the second."""
    first, before = days_of(period)
    return floor_id(_midnight(first)), floor_id(_midnight(before))


def _kept(namespaces: list[str], policies: Mapping[str, RetentionPolicy]) -> dict[str, list[str]]:
    return {namespace: policies.get(namespace, EVERYTHING).archived_outcomes for namespace in namespaces}


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
