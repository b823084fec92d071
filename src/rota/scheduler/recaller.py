"""Recalled runs: their job was changed, paused or cancelled while a worker held them and had not started them.

The worker released the run; this service lets it go on with the job's current definition, holds it, drops it or cancels
it. The decision applies only if the job has not changed again since it was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.domain.run import judge_recalled
from rota.scheduler.shard_service import ShardService
from rota.store.change.recalled import RecalledRuns

_RUNS_PER_SHARD = 100


class Recaller(ShardService):
    """Decides what happens to recalled runs."""

    interval_seconds = 1.0
    full_round = _RUNS_PER_SHARD

    def __init__(self, *, recalled: RecalledRuns, **shared: Any) -> None:
        super().__init__(**shared)
        self._recalled = recalled

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many recalled runs there were."""
        recalled = await self._recalled.find(owned, _RUNS_PER_SHARD)
        if recalled:
            await self._recalled.decide([(run, judge_recalled(run)) for run in recalled])
        return len(recalled)
