"""Sweeping: day partitions made ahead, expired keys and rows of processes long gone taken away."""

from __future__ import annotations

from collections.abc import Mapping

from rota.scheduler.shard_service import ShardService
from rota.store.schema.migrate import DAYS_AHEAD

KEYS_PER_ROUND = 5000
SWEEPING_SHARD = 0  # its owner sweeps: one scheduler is enough


class Sweeper(ShardService):
    """Keeps the small tables small and the days ahead made."""

    interval_seconds = 60.0
    full_round = KEYS_PER_ROUND

    async def serve(self, owned: Mapping[int, int]) -> int:
        """One round of housekeeping; returns how many keys were taken away."""
        if SWEEPING_SHARD not in owned:
            return 0
        await self._schedules.make_days(DAYS_AHEAD)
        return await self._schedules.sweep(KEYS_PER_ROUND)
