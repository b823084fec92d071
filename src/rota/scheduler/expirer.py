"""Expiry: runs that waited too long are skipped. Workers check at the start; this finds runs that no worker takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.scheduler.shard_service import ShardService
from rota.store.promote import Promotions

_RUNS_PER_SHARD = 200


class Expirer(ShardService):
    """Skips runs that have expired."""

    interval_seconds = 1.0
    full_round = _RUNS_PER_SHARD

    def __init__(self, *, promotions: Promotions, **shared: Any) -> None:
        super().__init__(**shared)
        self._promotions = promotions

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many runs were skipped."""
        return await self._promotions.expire(owned, _RUNS_PER_SHARD)
