"""Indexes logs that an earlier release has copied to object storage, so that they can be searched, too.

The uploader makes blocks of what it copies. Logs from before the index are found by one walk over them, whose position
moves in the transaction that adds their blocks. Logs that an older scheduler copies beside newer ones are noted by a
trigger. A log can come into two blocks in that way; a search shows its lines once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.blobs import BlobMissingError, Blobs
from rota.scheduler.block_maker import CopiedLog, place_blocks
from rota.scheduler.shard_service import ShardService
from rota.scheduler.sweeper import SWEEPING_SHARD
from rota.store.logs.blocks import LogBlocks, PlacedBlock
from rota.telemetry import get_logger

_LOGS_PER_ROUND = 200
_log = get_logger("log_indexer")


class LogIndexer(ShardService):
    """Indexes some logs per round, in the scheduler that owns SWEEPING_SHARD; rarely looks when there are none."""

    interval_seconds = 60.0
    full_round = 1

    def __init__(self, *, blocks: LogBlocks, blobs: Blobs, **shared: Any) -> None:
        super().__init__(**shared)
        self._blocks = blocks
        self._blobs = blobs
        self._walk_ended = False

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many logs were looked at."""
        if SWEEPING_SHARD not in owned:
            return 0
        if logs := await self._blocks.unindexed(_LOGS_PER_ROUND):
            await self._blocks.add_unindexed(logs, await self._index(logs))
            return len(logs)
        return 0 if self._walk_ended else await self._walk()

    async def _walk(self) -> int:
        walked = await self._blocks.walked()
        if walked is None or walked["ended"]:
            self._walk_ended = True
            return 0
        logs = await self._blocks.walk(walked, _LOGS_PER_ROUND)
        wanted = [log for log in logs if not log["indexed"]]
        await self._blocks.move_walk(walked, logs, await self._index(wanted))
        return len(logs)

    async def _index(self, logs: list[Any]) -> list[PlacedBlock]:
        copied = []
        for log in logs:
            try:
                body = await self._blobs.get_piece(log["blob"], log["first"], log["length"])
            except BlobMissingError as error:
                _log.warning("a log is no longer in object storage and is not indexed", error=str(error))
                continue
            copied.append(
                CopiedLog(
                    log["namespace"], log["run_id"], log["claim"], log["attempt"], log["blob"], log["first"], body
                )
            )
        return await place_blocks(copied, await self._blocks.runs_of(logs))
