"""Promotion: runs that are due within the lookahead move from upcoming to live, where workers claim them.

Workers claim ahead of time and start on time, so promotion only has to happen before a run is due. Looking twice per
lookahead is enough: one that is due sooner is submitted straight to live. A new run that is due before the next outlook
(outlook.py) ends the promoter's sleep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rota.domain.run import LOOKAHEAD
from rota.scheduler.shard_service import ShardService
from rota.store.promote import Promotions

_RUNS_PER_SHARD = 200


class Promoter(ShardService):
    """Moves due runs to live."""

    interval_seconds = LOOKAHEAD.total_seconds() / 2.5
    full_round = _RUNS_PER_SHARD

    def __init__(self, *, promotions: Promotions, **shared: Any) -> None:
        super().__init__(**shared)
        self._promotions = promotions

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many runs moved."""
        return await self._promotions.promote(owned, _RUNS_PER_SHARD)

    def expect(self, runs: Sequence[tuple[int, datetime]]) -> None:
        """Looks now for runs that were just made, as (shard, when they start)."""
        self._promotions.expect(runs)
        self.wake()
