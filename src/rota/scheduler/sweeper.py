"""Housekeeping: creates day partitions ahead, and deletes expired keys and rows of old processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.scheduler.shard_service import ShardService
from rota.store.postgres.database import Database
from rota.store.promote import Promotions
from rota.store.schema.migrate import DAYS_AHEAD
from rota.store.schema.partitions import make_days

_KEYS_PER_ROUND = 5000
SWEEPING_SHARD = 0  # one scheduler is enough


class Sweeper(ShardService):
    """Runs the housekeeping, in the scheduler that owns SWEEPING_SHARD."""

    interval_seconds = 60.0
    full_round = _KEYS_PER_ROUND

    def __init__(self, *, database: Database, promotions: Promotions, **shared: Any) -> None:
        super().__init__(**shared)
        self._database = database
        self._promotions = promotions

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many keys were deleted."""
        if SWEEPING_SHARD not in owned:
            return 0
        await make_days(self._database, DAYS_AHEAD)
        return await self._promotions.sweep(_KEYS_PER_ROUND)
