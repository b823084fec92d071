"""Finds runs in archived days, with few bytes read.

Rows are compared with the namespace and the filters after they are read: what the index says only saves reading. A
list reads days from the latest to the oldest until its page is full, its time is up or it has read as much as it may.
Then it says that it is partial, and where to go on.

A row group that could not be read makes the whole answer fail: a gap would look like an empty day.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from rota.archive import layout
from rota.archive.layout import COLUMNS, LARGE_COLUMNS, RUN_COLUMNS, ArchivedObject, DayIndex, RowGroup
from rota.blobs import BlobError, Blobs
from rota.domain.ids import FIRST_ID, LAST_ID
from rota.errors import BadInputError
from rota.store.archive import Archives
from rota.store.read.runs import RunFilter

_MOST_INDEXES = 64
_MOST_BYTES = 64 * 1024 * 1024  # that one list reads
_MOST_SECONDS = 5.0
_OUTCOMES = frozenset({"success", "failed", "cancelled", "skipped"})
_LISTED = tuple(name for name in RUN_COLUMNS if name not in LARGE_COLUMNS)


class FoundRuns(NamedTuple):
    """Runs of archived days, latest first. `reached`: where a partial answer ends; None: it is whole."""

    rows: list[dict[str, Any]]
    reached: UUID | None
    is_read: bool  # whether an archive was read at all


class _Budget:
    """What one look may cost."""

    def __init__(self) -> None:
        self.bytes = 0
        self._deadline = time.monotonic() + _MOST_SECONDS

    @property
    def is_spent(self) -> bool:
        return self.bytes >= _MOST_BYTES or time.monotonic() >= self._deadline


class ArchiveLookup:
    """Reads archived days."""

    def __init__(self, archives: Archives, blobs: Blobs) -> None:
        self._archives = archives
        self._blobs = blobs
        self._indexes: OrderedDict[str, DayIndex] = OrderedDict()

    async def get(self, namespace: str, run_id: UUID) -> dict[str, Any] | None:
        """An archived run, as a row of history; None if there is none."""
        for archive in await self._archives.between(run_id, _after(run_id)):
            row = await self._get_from(archive, namespace, run_id) if archive["index_key"] else None
            if row is not None:
                return _as_row(row)
        return None

    async def attempts(self, namespace: str, run_id: UUID) -> list[Any]:
        """The attempts of an archived run that did not succeed, in order."""
        rows = await self._of_run("attempts", namespace, run_id)
        return sorted(rows, key=lambda row: (row["finished_at"], row["number"]))

    async def logs(self, namespace: str, run_id: UUID) -> list[Any]:
        """Where the logs of its attempts are, in order."""
        return sorted(await self._of_run("logs", namespace, run_id), key=lambda row: row["position"])

    async def find(self, namespace: str, wanted: RunFilter, limit: int) -> FoundRuns:
        """Archived runs that match, latest first."""
        if wanted.statuses is not None and not _OUTCOMES & {*wanted.statuses}:
            return FoundRuns([], None, is_read=False)
        return await self._search(namespace, wanted, limit, job_id=None)

    async def list_of_job(self, namespace: str, job_id: UUID, before: UUID, limit: int) -> FoundRuns:
        """Archived runs of a job, latest first."""
        return await self._search(namespace, RunFilter(before=before), limit, job_id=job_id)

    async def _search(self, namespace: str, wanted: RunFilter, limit: int, *, job_id: UUID | None) -> FoundRuns:
        rows: list[dict[str, Any]] = []
        archives = [one for one in await self._archives.between(wanted.first, wanted.before) if one["index_key"]]
        budget = _Budget()
        for at, archive in enumerate(archives):
            # Archives of one day (runs that ended after it was dropped) are read together, for their order.
            if len(rows) >= limit and (at == 0 or archive["first_id"] != archives[at - 1]["first_id"]):
                break
            if budget.is_spent:
                return FoundRuns(rows, archives[at - 1]["first_id"] if at else wanted.before, is_read=True)
            found, reached = await self._search_in(archive, namespace, wanted, limit, job_id, budget)
            rows += found
            if reached is not None:
                if reached >= wanted.before:
                    raise BadInputError(
                        f"the archived day {archive['period']} has too many runs for this list: ask for the runs of an "
                        "owner or of a job, or for a shorter time",
                        field="startTime",
                    )
                kept = [row for row in rows if row["id"] >= reached]
                return FoundRuns(_latest(kept, limit), reached, is_read=True)
        return FoundRuns(_latest(rows, limit), None, is_read=bool(archives))

    async def _search_in(
        self, archive: Any, namespace: str, wanted: RunFilter, limit: int, job_id: UUID | None, budget: _Budget
    ) -> tuple[list[dict[str, Any]], UUID | None]:
        """Runs of one archive that match, and where it ends if it could not be read whole."""
        index = await self._index(archive)
        if job_id is not None and archive["first_id"] <= job_id < archive["before_id"]:
            own = await self._get_from(archive, namespace, job_id)
            once = (
                [_as_row(own)] if own is not None and own["job_id"] == job_id and _fits(own, namespace, wanted) else []
            )
        else:
            once = []
        first, before = wanted.first.bytes, wanted.before.bytes
        found: list[dict[str, Any]] = once
        groups = [
            group
            for group in index.groups
            if group.kind in ("jobs", "once")
            and group.first[0] <= namespace <= group.last[0]
            and group.lowest < before
            and group.highest >= first
            and (wanted.owner is None or layout.may_have_owner(group, wanted.owner))
            and (job_id is None or _may_have_job(group, namespace, job_id))
        ]
        # Groups of jobs reach over the whole day and are read first; those of single runs then in the order of time.
        groups.sort(key=lambda group: (group.kind == "jobs", group.highest), reverse=True)
        unread: list[RowGroup] = []
        for at, group in enumerate(groups):
            if group.kind == "once" and len(_latest(found, limit)) >= limit:
                lowest = _latest(found, limit)[-1]["id"].bytes
                if group.highest < lowest:
                    break
            if budget.is_spent:
                unread = groups[at:]
                break
            budget.bytes += group.length
            found += [
                _as_row(row)
                for row in await self._read(index, group, _LISTED)
                if _fits(row, namespace, wanted) and (job_id is None or row["job_id"] == job_id)
            ]
        return found, UUID(bytes=min(max(group.highest for group in unread), before)) if unread else None

    async def _get_from(self, archive: Any, namespace: str, run_id: UUID) -> dict[str, Any] | None:
        index = await self._index(archive)
        key = layout.key_of(namespace, run_id)
        for group in index.groups:
            if group.kind in ("once", "ids") and group.first <= key <= group.last:
                place = group
                if group.kind == "ids":
                    entry = _one(await self._read(index, group, COLUMNS["ids"]), namespace, run_id)
                    if entry is None:
                        continue
                    place = index.groups[entry["group"]]
                row = _one(await self._read(index, place, RUN_COLUMNS), namespace, run_id)
                if row is not None:
                    return row
        return None

    async def _of_run(self, kind: str, namespace: str, run_id: UUID) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for archive in await self._archives.between(run_id, _after(run_id)):
            index = await self._index(archive) if archive["index_key"] else DayIndex([], [])
            key = layout.key_of(namespace, run_id)
            for group in index.groups:
                if group.kind == kind and group.first <= key <= group.last:
                    rows = await self._read(index, group, COLUMNS[kind])
                    found += [row for row in rows if row["namespace"] == namespace and row["run_id"] == run_id]
        return found

    async def _index(self, archive: Any) -> DayIndex:
        key: str = archive["index_key"]
        if (index := self._indexes.get(key)) is None:
            body = await self._blobs.get(key)
            if sha256(body).hexdigest() != archive["index_hash"]:
                raise BlobError(f"{key} is not as it was written: restore it from a backup of object storage")
            index = msgspec.msgpack.decode(body, type=DayIndex)
            self._indexes[key] = index
            if len(self._indexes) > _MOST_INDEXES:
                self._indexes.popitem(last=False)
        self._indexes.move_to_end(key)
        return index

    async def _read(self, index: DayIndex, group: RowGroup, names: Iterable[str]) -> list[dict[str, Any]]:
        layout.arrow()
        one: ArchivedObject = index.objects[group.object]
        body, footer = await asyncio.gather(
            self._blobs.get_piece(one.key, group.start, group.length),
            self._blobs.get_piece(one.key, one.footer, one.size - one.footer),
        )

        def decode() -> list[dict[str, Any]]:
            try:
                return layout.rows_of(layout.read_group(group, one.size, body, footer, names))
            except (OSError, ValueError) as error:  # Arrow's errors are of these kinds
                raise BlobError(f"{one.key} can't be read: {error}") from error

        return await asyncio.to_thread(decode)


def _after(run_id: UUID) -> UUID:
    return UUID(int=run_id.int + 1) if run_id < LAST_ID else LAST_ID


def _may_have_job(group: RowGroup, namespace: str, job_id: UUID) -> bool:
    lowest, highest = (namespace, job_id.bytes, FIRST_ID.bytes), (namespace, job_id.bytes, LAST_ID.bytes)
    return group.kind == "jobs" and group.first <= highest and group.last >= lowest


def _one(rows: Sequence[dict[str, Any]], namespace: str, run_id: UUID) -> dict[str, Any] | None:
    return next((row for row in rows if row["namespace"] == namespace and row["id"] == run_id), None)


def _fits(row: dict[str, Any], namespace: str, wanted: RunFilter) -> bool:
    return (
        row["namespace"] == namespace
        and wanted.first <= row["id"] < wanted.before
        and wanted.owner in (None, row["owner"])
        and (wanted.statuses is None or row["status"] in wanted.statuses)
        and wanted.name in (None, row["name"])
        and wanted.task in (None, row["task"])
        and (wanted.tag is None or wanted.tag in row["tags"])
    )


def _latest(rows: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"], reverse=True)[:limit]


def _as_row(row: dict[str, Any]) -> dict[str, Any]:
    """As history shows it, and that it is archived."""
    nothing = dict.fromkeys(LARGE_COLUMNS)
    return {**nothing, **row, "place": "finished", "gate": None, "gate_key": None, "archived": True}
