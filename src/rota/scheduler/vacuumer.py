"""Vacuums the hot tables, however rarely the server's autovacuum looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.scheduler.shard_service import ShardService
from rota.store.vacuum import HotTables

_CALM_SECONDS = 4.5
_VACUUMING_SHARD = 0  # one scheduler is enough


class Vacuumer(ShardService):
    """Vacuums in the scheduler that owns _VACUUMING_SHARD."""

    interval_seconds = 2.0

    @property
    def pause_seconds(self) -> float:
        """Longer while hardly any rows die."""
        return self.interval_seconds if self._tables.are_busy else _CALM_SECONDS

    def __init__(self, *, tables: HotTables, **shared: Any) -> None:
        super().__init__(**shared)
        self._tables = tables

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many tables were vacuumed."""
        return await self._tables.vacuum() if _VACUUMING_SHARD in owned else 0
