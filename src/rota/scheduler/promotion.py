"""Promotion: runs that are due within the lookahead move from upcoming to live, where workers claim them.

Workers claim ahead of time and start on the dot, so promotion only has to come before the due moment: looking twice
per lookahead is enough, and nothing needs to tell it about new runs (one that is due sooner is submitted straight to
live).
"""

from __future__ import annotations

from rota.scheduler.firing import MISSED_AFTER
from rota.scheduler.leases import LeaseKeeper
from rota.scheduler.service import Service
from rota.store.listening import READY
from rota.store.notifying import Notifier
from rota.store.schedules import Schedules
from rota.store.submissions import LOOKAHEAD

RUNS_PER_SHARD = 200


class Promoter(Service):
    """Moves due runs to live."""

    interval_seconds = LOOKAHEAD.total_seconds() / 2.5
    full_round = RUNS_PER_SHARD

    def __init__(self, *, schedules: Schedules, leases: LeaseKeeper, notifier: Notifier) -> None:
        super().__init__()
        self._schedules = schedules
        self._leases = leases
        self._notifier = notifier

    async def tick(self) -> int:
        """One statement over all shards; returns how many runs moved."""
        owned = self._leases.owned
        if not owned:
            return 0
        counts = await self._schedules.promote(owned, MISSED_AFTER, RUNS_PER_SHARD)
        for pool in counts:
            self._notifier.hint(READY, pool)
        return sum(counts.values())
