"""Expiry: what waited too long to be started is skipped, not run late.

Workers look at the moment of the start; this service finds what no worker takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.scheduler.shard_service import ShardService
from rota.store.promote import Promotions

_RUNS_PER_SHARD = 200


class Expirer(ShardService):
    """Skips runs whose time to be started is over."""

    interval_seconds = 1.0
    full_round = _RUNS_PER_SHARD

    def __init__(self, *, promotions: Promotions, **shared: Any) -> None:
        super().__init__(**shared)
        self._promotions = promotions

    async def serve(self, owned: Mapping[int, int]) -> int:
        """One statement over all shards; returns how many runs were skipped."""
        return await self._promotions.expire(owned, _RUNS_PER_SHARD)
