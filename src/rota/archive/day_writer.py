"""Writes a day of history to object storage, page by page, in bounded memory and at a gentle pace.

Pages are read in the order of an index. Of the database, of this process and of object storage it uses a small share:
after each step it rests for a multiple of the time that the step took.
"""

from __future__ import annotations

import asyncio
import io
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Mapping
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import msgspec

from rota.archive import layout
from rota.archive.layout import GROUP_BYTES, GROUP_ROWS, IDS_ROWS, ArchivedObject, DayIndex, RowGroup, key_of
from rota.blobs import Blobs
from rota.domain.ids import FIRST_ID
from rota.store.archive import Archives, ArchiveTask, Page

_FILE_BYTES = 16 * 1024 * 1024
_FILE_GROUPS = 20
_LARGE = ("payload", "large_payload", "result", "traceback", "error", "checkpoint")


class WrittenDay(msgspec.Struct, frozen=True):
    """What was written; without an index: nothing was to be kept."""

    index_key: str | None
    index_hash: str | None
    objects: list[ArchivedObject]
    runs: int
    attempts: int
    left_out: int
    read_attempts: int

    @property
    def size(self) -> int:
        return sum(one.size for one in self.objects)


class Pacer:
    """Rests after each step, so that work takes no more than a share of the time."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._began = time.monotonic()

    async def rest(self) -> None:
        took = time.monotonic() - self._began
        await asyncio.sleep(took * (1 / self._share - 1))
        self._began = time.monotonic()


class DayWriter:
    """Writes one archive."""

    def __init__(self, archives: Archives, blobs: Blobs, task: ArchiveTask, *, share: float) -> None:
        self._archives = archives
        self._blobs = blobs
        self._task = task
        self._pacer = Pacer(share)
        self._directory = layout.directory_of(task.period, task.number, uuid4().hex[:12])
        self._index = DayIndex([], [])
        self._starts: list[tuple[str, bytes, bytes]] = []  # the first rows of the groups of jobs, which come first
        self._runs = self._left_out = 0

    async def write(self) -> WrittenDay:
        """Writes all of it; returns what was written. What a try that failed has written is unused."""
        if any(self._task.kept.values()):
            layout.arrow()
        await self._write_jobs()
        await self._write_once()
        attempts, read_attempts = await self._write_pages("attempts", self._archives.attempts_of)
        await self._write_pages("logs", self._archives.logs_of)
        if not self._index.objects:
            return WrittenDay(None, None, [], 0, 0, self._left_out, read_attempts)
        body = msgspec.msgpack.encode(self._index)
        key = f"{self._directory}/index.msgpack"
        await self._blobs.put(key, body)
        digest = sha256(body).hexdigest()
        return WrittenDay(key, digest, self._index.objects, self._runs, attempts, self._left_out, read_attempts)

    async def _write_jobs(self) -> None:
        sink = _Sink("jobs", self._index, self._store)
        async for rows in self._pages(self._archives.jobs_of):
            self._runs += len(rows)
            for row in rows:
                if sink.is_full_with(row, GROUP_ROWS):
                    await sink.flush_group()
                sink.add(row, key_of(row["namespace"], row["job_id"], row["id"]))
        await sink.close()
        self._starts = [group.first for group in self._index.groups]

    async def _write_once(self) -> None:
        """The runs that ran once, and in the same pass the ids of the others."""
        sink, ids = _Sink("once", self._index, self._store), _Sink("ids", self._index, self._store)
        async for rows in self._pages(self._archives.runs_of):
            for row in rows:
                if row["job_id"] == row["id"]:
                    self._runs += 1
                    if sink.is_full_with(row, GROUP_ROWS):
                        await sink.flush_group()
                    sink.add(row, key_of(row["namespace"], row["id"]))
                    continue
                place = bisect_right(self._starts, key_of(row["namespace"], row["job_id"], row["id"])) - 1
                if ids.is_full_with(row, IDS_ROWS):
                    await ids.flush_group()
                entry = {"namespace": row["namespace"], "id": row["id"], "group": place}
                ids.add(entry, key_of(row["namespace"], row["id"]))
        await sink.close()
        await ids.close()

    async def _write_pages(self, kind: str, page: Page) -> tuple[int, int]:
        """Rows run by run; returns how many were written, and how many were read."""
        sink, written, before = _Sink(kind, self._index, self._store), 0, self._left_out
        async for rows in self._pages(page):
            written += len(rows)
            for row in rows:
                if sink.is_full_with(row, GROUP_ROWS):
                    await sink.flush_group()
                sink.add(row, key_of(row["namespace"], row["run_id"]))
        await sink.close()
        left_out, self._left_out = self._left_out - before, before
        return written, written + left_out

    async def _pages(self, page: Page) -> AsyncIterator[list[Any]]:
        """The rows that are to be kept, a page at a time."""
        after: Any = None
        while rows := await page(self._task, after):
            after = rows[-1]
            kept = [row for row in rows if row["status"] is None or row["status"] in self._kept(row["namespace"])]
            # The walk over all runs meets those of jobs for the second time.
            again = page == self._archives.runs_of
            self._left_out += _count(rows, once=again) - _count(kept, once=again)
            yield kept
            await self._pacer.rest()

    def _kept(self, namespace: str) -> list[str]:
        # A namespace that had no run when the day was planned has a late one: written again, with its policy.
        return self._task.kept.get(namespace, [])

    async def _store(self, kind: str, number: int, body: bytes) -> str:
        key = f"{self._directory}/{kind}-{number:04}.parquet"
        await self._blobs.put(key, body)
        await self._pacer.rest()
        return key


class _Sink:
    """Gathers rows into row groups, and row groups into files."""

    def __init__(self, kind: str, index: DayIndex, store: Callable[[str, int, bytes], Any]) -> None:
        self._kind = kind
        self._index = index
        self._store = store
        self._rows: list[Mapping[str, Any]] = []
        self._first: tuple[str, bytes, bytes] | None = None
        self._last: tuple[str, bytes, bytes] | None = None
        self._bytes = 0
        self._groups: list[RowGroup] = []
        self._buffer = io.BytesIO()
        self._writer: Any = None
        self._files = 0

    def is_full_with(self, row: Any, most: int) -> bool:
        """Whether another row would make the group too large."""
        return len(self._rows) >= most or (bool(self._rows) and self._bytes + _weight(row) > GROUP_BYTES)

    def add(self, row: Any, key: tuple[str, bytes, bytes]) -> None:
        self._first = self._first or key
        self._last = key
        self._bytes += _weight(row)
        self._rows.append(row)

    async def flush_group(self) -> None:
        """Writes the row group, and the file when it is large enough."""
        await asyncio.to_thread(self._write_group)
        if self._buffer.tell() >= _FILE_BYTES or len(self._groups) >= _FILE_GROUPS:
            await self._flush_file()

    async def close(self) -> None:
        if self._rows:
            await self.flush_group()
        if self._groups:
            await self._flush_file()

    def _write_group(self) -> None:
        if self._writer is None:
            self._writer = layout.arrow().parquet.ParquetWriter(
                self._buffer, layout.schema_of(self._kind), compression="zstd", compression_level=3
            )
        self._writer.write_table(layout.make_table(self._kind, self._rows), row_group_size=len(self._rows))
        assert self._first is not None  # noqa: S101 - there are rows
        assert self._last is not None  # noqa: S101
        ids = [_id_of(row).bytes for row in self._rows]
        owners = layout.owner_filter(row["owner"] for row in self._rows) if self._kind in ("jobs", "once") else b""
        self._groups.append(
            RowGroup(
                kind=self._kind,
                object=-1,
                number=len(self._groups),
                rows=len(self._rows),
                start=0,
                length=0,
                first=self._first,
                last=self._last,
                lowest=min(ids),
                highest=max(ids),
                owners=owners,
            )
        )
        self._rows, self._first, self._last, self._bytes = [], None, None, 0

    async def _flush_file(self) -> None:
        self._writer.close()
        body = self._buffer.getvalue()
        self._files += 1
        key = await self._store(self._kind, self._files, body)
        description = layout.describe_file(body)
        self._index.objects.append(
            ArchivedObject(
                key=key,
                size=len(body),
                hash=sha256(body).hexdigest(),
                rows=description.num_rows,
                footer=layout.footer_of(body),
            )
        )
        for group in self._groups:
            group.object = len(self._index.objects) - 1
            group.start, group.length = layout.span_of(description, group.number)
        self._index.groups += self._groups
        self._groups, self._writer, self._buffer = [], None, io.BytesIO()


def _id_of(row: Mapping[str, Any]) -> UUID:
    found: UUID = row.get("id") or row.get("run_id") or FIRST_ID
    return found


def _count(rows: list[Any], *, once: bool) -> int:
    return sum(1 for row in rows if row["job_id"] == row["id"]) if once else len(rows)


def _weight(row: Any) -> int:
    return sum(len(row.get(name) or "") for name in _LARGE)
