"""Copies run logs from the database to object storage, where they stay.

Logs are followed in the database for _RECENT_DAYS. Once its attempt has ended, a log is copied to object storage: a few
logs get an object each, named after the run; many go into one object. The database records where each one is, together
with the blocks by which searches find it (domain/log_index.py). A day's chunks are dropped when all of its logs have
been copied.

The log of an attempt whose worker died has no end; it gets one a minute after the attempt was declared lost, or when
its day is over. A crash between the copy and the record leaves an unused object behind, under the same day as the
others.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from rota.blobs import BlobError, Blobs
from rota.domain.ids import day_of, floor_id
from rota.domain.log_index import own_key, shared_key
from rota.scheduler.block_maker import CopiedLog, owner_of, place_blocks
from rota.scheduler.shard_service import ShardService
from rota.scheduler.sweeper import SWEEPING_SHARD
from rota.store.logs import KeptLog, Logs
from rota.store.logs.blocks import LogBlocks
from rota.telemetry import get_logger

_LOGS_PER_ROUND = 500
_BYTES_PER_ROUND = 8 * 1024 * 1024
_FEW = 20
_RECENT_DAYS = 2
_TIDY_SECONDS = 600.0
_LOST_SECONDS = 60.0
_log = get_logger("keeping")
_Runs = Mapping[tuple[str, UUID], Any]


class LogUploader(ShardService):
    """Copies ended logs to object storage, and drops days that are fully copied."""

    interval_seconds = 5.0
    full_round = _LOGS_PER_ROUND

    def __init__(
        self,
        *,
        logs: Logs,
        blocks: LogBlocks,
        blobs: Blobs,
        on_export: Callable[[], None] | None = None,
        **shared: Any,
    ) -> None:
        """`on_export`: logs are to be sent elsewhere; called when there are some."""
        super().__init__(**shared)
        self._logs = logs
        self._blocks = blocks
        self._blobs = blobs
        self._on_export = on_export
        self._tidied_at = -_TIDY_SECONDS
        self._lost_at = -_LOST_SECONDS
        self._failing = False

    async def serve(self, owned: Mapping[int, int]) -> int:
        """One round; returns how many logs were copied."""
        if SWEEPING_SHARD not in owned:
            return 0
        if time.monotonic() >= self._lost_at + _LOST_SECONDS:
            self._lost_at = time.monotonic()
            await self._logs.end_lost(floor_id(datetime.now(UTC) - timedelta(days=_RECENT_DAYS)))
        if time.monotonic() >= self._tidied_at + _TIDY_SECONDS:
            self._tidied_at = time.monotonic()
            await self._logs.find_endless()
            await self._logs.drop_days(_RECENT_DAYS)
        try:
            kept = await self._keep(await self._logs.ended(_LOGS_PER_ROUND, _BYTES_PER_ROUND))
        except BlobError as error:
            if not self._failing:
                _log.warning("logs can't be copied to object storage; they stay in the database", error=str(error))
            self._failing = True
            return 0
        self._failing = False
        return kept

    async def _keep(self, rows: list[Any]) -> int:
        by_day: dict[str, list[Any]] = defaultdict(list)
        for row in rows:
            by_day[day_of(row["run_id"])].append(row)
        for day, some in by_day.items():
            runs = await self._blocks.runs_of(some)
            kept, copied = await (self._keep_each if len(some) <= _FEW else self._keep_together)(day, some, runs)
            blocks = await place_blocks(copied, runs)
            await self._logs.note_kept(kept, blocks, export=self._on_export is not None)
        if rows and self._on_export:
            self._on_export()
        return len(rows)

    async def _keep_each(self, _day: str, rows: list[Any], _runs: _Runs) -> tuple[list[KeptLog], list[CopiedLog]]:
        kept, copied = [], []
        for row in rows:
            key = own_key(row["namespace"], row["run_id"], row["claim"])
            body = (row["body"] or "").encode()
            if body:
                await self._blobs.put(key, body)
            kept.append(_place(row, key, 0, len(body)))
            copied.append(_copied(row, key, 0, body))
        return kept, copied

    async def _keep_together(self, day: str, rows: list[Any], runs: _Runs) -> tuple[list[KeptLog], list[CopiedLog]]:
        """Logs of one owner lie together, in the order of their runs: they share blocks."""
        key = shared_key(day, uuid4().hex)
        whole = bytearray()
        kept, copied = [], []
        for row in sorted(rows, key=lambda row: (row["namespace"], owner_of(row, runs), row["run_id"], row["claim"])):
            body = (row["body"] or "").encode()
            kept.append(_place(row, key, len(whole), len(body)))
            copied.append(_copied(row, key, len(whole), body))
            whole += body
        await self._blobs.put(key, bytes(whole))
        return kept, copied


def _copied(row: Any, key: str, first: int, body: bytes) -> CopiedLog:
    return CopiedLog(row["namespace"], row["run_id"], row["claim"], row["attempt"] or 1, key, first, body)


def _place(row: Any, key: str, first: int, length: int) -> KeptLog:
    return KeptLog(
        row["namespace"], row["run_id"], row["claim"], row["attempt"] or 1, row["position"] or 0, key, first, length
    )
