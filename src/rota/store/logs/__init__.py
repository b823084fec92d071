"""Logs: what runs wrote. Chunks while they are fresh, pieces of objects for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from rota.domain.run import LogChunk
from rota.errors import DataRejectedError
from rota.store.logs.blocks import PlacedBlock, add_blocks
from rota.store.logs.exports import queue_exports
from rota.store.postgres.batches import columns, write_each
from rota.store.postgres.database import Database, Statements
from rota.store.schema.partitions import with_days
from rota.telemetry import get_logger

_log = get_logger("logs")


class KeptLog(NamedTuple):
    """Where the log of an attempt is in object storage."""

    namespace: str
    run_id: UUID
    claim: int
    attempt: int
    position: int
    blob: str
    first: int
    length: int


class Logs:
    """Writes and reads logs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, chunks: Sequence[LogChunk]) -> None:
        """Adds chunks; safe to repeat."""

        async def write(some: Sequence[LogChunk]) -> list[Any]:
            rows = [
                (
                    it.claim.namespace,
                    it.claim.run_id,
                    it.claim.number,
                    it.number,
                    it.claim.attempt + 1,
                    it.last,
                    it.body,
                )
                for it in some
            ]
            return await with_days(
                self._database,
                [chunk.claim.run_id for chunk in some],
                lambda: self._database.fetch(
                    "add_log_chunks",
                    **columns(rows, "namespaces run_ids claims numbers attempts last bodies"),
                ),
            )

        async def reject(chunk: LogChunk, error: DataRejectedError) -> None:
            _log.warning("lines of a log were refused", run_id=str(chunk.claim.run_id), error=str(error))

        await write_each(chunks, write, reject)

    async def of_run(self, namespace: str, run_id: UUID, *, after: int = 0, limit: int) -> list[Any]:
        """Fresh chunks of a run behind a position, in order."""
        return await self._database.fetch(
            "log_chunks_of_run", namespace=namespace, run_id=run_id, after=after, limit=limit
        )

    async def tail(self, wanted: Sequence[tuple[str, UUID, int]], limit: int) -> list[Any]:
        """What runs wrote after a position each: (namespace, run id, position); and whether they have ended."""
        if not wanted:
            return []
        ids = [run_id for _, run_id, _ in wanted]
        return await self._database.fetch(
            "tail_logs",
            **columns(wanted, "namespaces run_ids positions"),
            first=min(ids),
            last=max(ids),
            limit=limit,
        )

    async def recent(self, namespace: str, first: UUID, before: UUID, seconds: float, limit: int) -> list[UUID]:
        """Runs that workers have, or that ended in the last seconds (planned from `first` on, or with a log), from the
        last one below `before` down."""
        rows = await self._database.fetch(
            "recent_logs", namespace=namespace, first=first, before=before, seconds=seconds, limit=limit
        )
        return [row["id"] for row in rows]

    async def last_positions(self, namespace: str, run_ids: Sequence[UUID]) -> dict[UUID, int]:
        """The positions of the last chunks of these runs, of those that have one."""
        if not run_ids:
            return {}
        rows = await self._database.fetch(
            "last_log_positions", namespace=namespace, run_ids=run_ids, first=min(run_ids), last=max(run_ids)
        )
        return {row["run_id"]: row["position"] for row in rows}

    async def kept(self, namespace: str, run_id: UUID) -> list[Any]:
        """Where the logs of its attempts are in object storage, in order."""
        return await self._database.fetch("kept_logs_of_run", namespace=namespace, run_id=run_id)

    async def ended(self, limit: int, size: int) -> list[Any]:
        """Logs that ended and are not in object storage yet: at most `limit`, and about `size` bytes."""
        return await self._database.fetch("logs_to_upload", limit=limit, size=size)

    async def find_endless(self) -> None:
        """Marks logs of past days as ended if their runs no longer run."""
        await self._database.fetch("end_abandoned_logs")

    async def drop_days(self, recent_days: int) -> int:
        """Drops partitions of old logs that are in object storage; returns how many."""
        dropped: int = await self._database.fetch_value("drop_log_days", recent_days=recent_days)
        return dropped

    async def note_kept(self, kept: Sequence[KeptLog], blocks: Sequence[PlacedBlock], *, export: bool) -> None:
        """Records that these logs are in object storage and in these blocks; `export`: they are to be sent on."""

        async def record(statements: Statements) -> None:
            # No row: another uploader was first, and its blocks have them.
            recorded = await statements.fetch(
                "record_uploads",
                **columns(kept, "namespaces run_ids claims attempts positions blobs firsts lengths"),
            )
            if recorded:
                await add_blocks(statements, blocks)
            if export:
                await queue_exports(statements, [(log.namespace, log.run_id, log.claim) for log in kept if log.length])

        await with_days(self._database, [log.run_id for log in kept], lambda: self._database.transact(record))

    async def end_lost(self, first: UUID) -> None:
        """Marks logs of attempts that were lost with their workers as ended; of runs from this one on."""
        await self._database.fetch("end_lost_logs", first=first)
