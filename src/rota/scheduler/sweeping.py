"""Sweeping: day partitions made ahead, expired keys and rows of processes long gone taken away."""

from __future__ import annotations

from rota.scheduler.leases import LeaseKeeper
from rota.scheduler.service import Service
from rota.store.schedules import Schedules

DAYS_AHEAD = 7
KEYS_PER_ROUND = 5000
SWEEPING_SHARD = 0  # its owner sweeps: one scheduler is enough


class Sweeper(Service):
    """Keeps the small tables small and the days ahead made."""

    interval_seconds = 60.0
    full_round = KEYS_PER_ROUND

    def __init__(self, *, schedules: Schedules, leases: LeaseKeeper) -> None:
        super().__init__()
        self._schedules = schedules
        self._leases = leases

    async def tick(self) -> int:
        """One round of housekeeping; returns how many keys were taken away."""
        if SWEEPING_SHARD not in self._leases.owned:
            return 0
        await self._schedules.make_days(DAYS_AHEAD)
        return await self._schedules.sweep(KEYS_PER_ROUND)
