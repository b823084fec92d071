"""Removes objects that no run needs: what a crash left behind, and what is older than its retention.

An object is written before the row that names it is committed. So an object without a row is only suspected at first.
It is removed by a later sweep, if it has not changed, if every transaction that was open at the first look has ended,
and if a look after that finds no row: its writer has then committed or given up. Writers take seconds between the
object and the row; objects younger than a day are not looked at.

Results and logs of a day that is archived, or on its way, are kept until the policy of their namespace says otherwise.
What runs share is found by what has it, never by age alone: payloads of jobs and open runs stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID

import msgspec

from rota.archive.day_writer import Pacer
from rota.archive.layout import ArchivedObject
from rota.blobs import BlobError, BlobMissingError, Blobs, ListedObject
from rota.domain.ids import floor_id
from rota.domain.retention import EVERYTHING, RetentionPolicy
from rota.scheduler.shard_service import ShardService
from rota.scheduler.sweeper import SWEEPING_SHARD
from rota.store.archive import Archives, RetentionPolicies
from rota.store.collect import Leftovers
from rota.store.postgres.database import Database
from rota.telemetry import get_logger

_MARGIN = timedelta(days=1)
_SHARE = 0.05
_MOST_SUSPECTS = 100_000
_OF_RUN = re.compile(r"(?:results|logs)/[^/]+/([^/]+)/run_([0-9a-f]{32})-(-?[0-9]+)\.(?:json|log)")
_OF_JOB = re.compile(r"payloads/[^/]+/job_([0-9a-f]{32})-[0-9a-f]+\.json")
_ARCHIVE_DAY = re.compile(r"archive/year=(\d{4})/month=(\d{2})/day=(\d{2}|all)/")
_log = get_logger("collector")


class Collector(ShardService):
    """One slow sweep over object storage per round, in the scheduler that owns SWEEPING_SHARD."""

    interval_seconds = 6 * 3600.0

    def __init__(
        self, *, database: Database, blobs: Blobs, margin: timedelta = _MARGIN, share: float = _SHARE, **shared: Any
    ) -> None:
        super().__init__(**shared)
        self._leftovers = Leftovers(database)
        self._policies = RetentionPolicies(database)
        self._archives = Archives(database)
        self._blobs = blobs
        self._margin = margin
        self._share = share
        self._suspects: dict[str, tuple[datetime, int]] = {}  # when the object changed, and the transactions then
        self._now = database.time

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many objects were removed."""
        if SWEEPING_SHARD not in owned:
            return 0
        removed = 0
        try:
            policies, before = await self._policies.all(), await self._now() - self._margin
            for kind in ("payloads", "results", "logs"):
                for day in await self._blobs.days(kind):
                    removed += await self._sweep(f"{kind}/{day}/", before, policies)
            removed += await self._sweep("archive/", before, policies)
        except BlobError as error:
            _log.warning("object storage can't be swept now", error=str(error))
        if removed:
            _log.info("removed objects that nothing needs", objects=removed)
        return removed

    async def _sweep(self, prefix: str, before: datetime, policies: Mapping[str, RetentionPolicy]) -> int:
        removed, pacer = 0, Pacer(self._share)
        async for page in self._blobs.listed(prefix):
            old = [one for one in page if one.changed_at < before]
            if old:
                bounds = await self._leftovers.bounds()  # before the look: what ended by then, it sees
                doomed = await self._doomed(prefix, old, policies)
                for one in old:
                    if one.key in doomed and (doomed[one.key] or self._is_settled(one, bounds.oldest, bounds.next)):
                        removed += await self._remove(one.key)
            await pacer.rest()
        return removed

    def _is_settled(self, one: ListedObject, oldest: int, next_number: int) -> bool:
        """Whether it was suspected before, and everything that was open then has ended."""
        changed_at, number = self._suspects.get(one.key, (None, 0))
        if changed_at == one.changed_at:
            return oldest >= number
        if len(self._suspects) < _MOST_SUSPECTS:
            self._suspects[one.key] = (one.changed_at, next_number)
        return False

    async def _remove(self, key: str) -> int:
        self._suspects.pop(key, None)
        try:
            await self._blobs.delete(key)
        except BlobMissingError:
            return 0  # another scheduler was faster
        return 1

    async def _doomed(
        self, prefix: str, old: Sequence[ListedObject], policies: Mapping[str, RetentionPolicy]
    ) -> dict[str, bool]:
        """The keys of objects that nothing needs; true: its time is over, whatever has it."""
        kind, keys = prefix.partition("/")[0], [one.key for one in old]
        if kind == "payloads":
            return await self._doomed_payloads(keys, policies)
        if kind == "archive":
            return dict.fromkeys([key for key in keys if not await self._is_archived(key)], False)
        now = await self._now()
        runs = [(key, match[1], UUID(match[2]), int(match[3])) for key in keys if (match := _OF_RUN.fullmatch(key))]
        doomed = {key: True for key, space, _, _ in runs if _is_over(kind, key, policies.get(space, EVERYTHING), now)}
        if runs and kind == "results":
            needed = await self._leftovers.needed_results([row[:3] for row in runs])
        else:
            needed = await self._leftovers.needed_logs(runs) if runs else set()
        doomed |= {key: False for key, *_ in runs if key not in needed and key not in doomed}
        shared = [key for key in keys if "/together/" in key]
        return doomed | (await self._doomed_shared(shared, policies, now) if shared else {})

    async def _doomed_shared(
        self, keys: list[str], policies: Mapping[str, RetentionPolicy], now: datetime
    ) -> dict[str, bool]:
        """Objects with logs of many runs of one day, perhaps of several namespaces."""
        first, before = _range_of_day(keys[0].split("/")[1])
        spaces = set(await self._archives.namespaces_of(first, before))
        for archive in await self._archives.between(first, before):
            spaces |= set(msgspec.json.decode(archive["kept"]))
        if spaces and all(_is_over("logs", keys[0], policies.get(space, EVERYTHING), now) for space in spaces):
            return dict.fromkeys(keys, True)
        needed = await self._leftovers.needed_shared_logs(keys, first, before)
        return {key: False for key in keys if key not in needed}

    async def _doomed_payloads(self, keys: list[str], policies: Mapping[str, RetentionPolicy]) -> dict[str, bool]:
        now = await self._now()
        jobs = [(key, UUID(match[1])) for key in keys if (match := _OF_JOB.fullmatch(key))]
        known = await self._leftovers.payload_objects(jobs) if jobs else {}
        doomed = {key: False for key, _ in jobs if key not in known}
        for key, spaces in known.items():
            owners = [(space, is_used) for space, is_used in spaces if space is not None]
            if owners and all(
                not is_used and _is_over("payloads", key, policies.get(space, EVERYTHING), now)
                for space, is_used in owners
            ):
                doomed[key] = True
        return doomed

    async def _is_archived(self, key: str) -> bool:
        """Whether an archive names this object, or its day is just being written."""
        match = _ARCHIVE_DAY.match(key)
        if match is None:
            return True  # not ours
        day = "01" if match[3] == "all" else match[3]
        for row in await self._leftovers.archives(*_range_of_day(f"{match[1]}-{match[2]}-{day}")):
            objects = msgspec.json.decode(row["objects"] or "[]", type=list[ArchivedObject])
            if row["state"] == "planned" or key == row["index_key"] or key in {one.key for one in objects}:
                return True
        return False


def _range_of_day(day: str) -> tuple[UUID, UUID]:
    first = datetime.combine(date.fromisoformat(day), time(), UTC)
    return floor_id(first), floor_id(first + timedelta(days=1))


def _is_over(kind: str, key: str, policy: RetentionPolicy, now: datetime) -> bool:
    days = policy.object_days(kind)
    day = date.fromisoformat(key.split("/")[1])
    return days is not None and day + timedelta(days=1 + days) <= now.date()
