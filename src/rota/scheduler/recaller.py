"""Recalling: runs whose job was changed, paused or cancelled while a worker held them and had not started them.

The worker gave the run back; this service looks at what the job says now and lets the run go on with the
present definition, holds it, drops it or cancels it. The decision is carried out only if the job has not changed again
since it was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from rota.scheduler.shard_service import ShardService
from rota.store.change.recalled import RecalledRun, RecalledRuns

RUNS_PER_SHARD = 100
_INSTANT = timedelta(microseconds=1)


class Recaller(ShardService):
    """Decides what becomes of recalled runs."""

    interval_seconds = 1.0
    full_round = RUNS_PER_SHARD

    def __init__(self, *, recalled: RecalledRuns, **shared: Any) -> None:
        super().__init__(**shared)
        self._recalled = recalled

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Looks at every recalled run of our shards; returns how many."""
        recalled = await self._recalled.find(owned, RUNS_PER_SHARD)
        if recalled:
            self.tell_pools(await self._recalled.decide([(run, fate_of(run)) for run in recalled]))
            self.tell_gates()
        return len(recalled)


def fate_of(run: RecalledRun) -> str:
    """'go', 'hold', 'drop' or 'cancel', by what its job says now."""
    if run.state == "cancelled":
        return "cancel"
    future = run.cause == "schedule" and run.attempt == 0 and run.run_at > run.database_time
    if run.state == "paused":
        return "drop" if future else "hold"
    if future and run.timetable.schedule(run.job_id).next_after(run.nominal_at - _INSTANT) != run.nominal_at:
        return "drop"
    return "go"
