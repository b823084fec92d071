"""Makes the indexes of lists on days that are older than these indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.scheduler.shard_service import ShardService
from rota.scheduler.sweeper import SWEEPING_SHARD
from rota.store.schema.list_indexes import ListIndexes


class Indexer(ShardService):
    """Makes one index per round, in the scheduler that owns SWEEPING_SHARD: the machine is for other work."""

    interval_seconds = 30.0

    def __init__(self, *, indexes: ListIndexes, **shared: Any) -> None:
        super().__init__(**shared)
        self._indexes = indexes

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many indexes were made."""
        return int(SWEEPING_SHARD in owned and await self._indexes.make_next() is not None)
