"""Admission: runs with policies wait at gates, and go on when all of their gates let them through.

Plain runs never come here, and workers don't know about it: a run is claimed only after it was admitted. The rules are
in domain/gates.py; store/admit has the transaction, and says why no run is forgotten and no limit exceeded, however
many schedulers run. A round looks at new arrivals, at departures, and at gates whose time has come. It is woken by a
hint, and by a timer when the next run is due.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from rota.scheduler.lease_keeper import LeaseKeeper
from rota.scheduler.shard_service import ShardService
from rota.store.admit import Gates
from rota.telemetry import get_logger

_RUNS_PER_SHARD = 12
# A departure that commits late, behind our read position, is found by the unconditional round every 2 s.
_ROUND_SECONDS = 2.0
_log = get_logger("admission")


class Admitter(ShardService):
    """Lets runs through their gates."""

    interval_seconds = 0.5

    def __init__(self, *, gates: Gates, leases: LeaseKeeper) -> None:
        super().__init__(leases=leases)
        self._gates = gates
        self._round_at = -math.inf
        self._next_due = math.inf
        self._hinted = False

    @property
    def pause_seconds(self) -> float:
        """Until the next run reaches its gates, or the next regular look."""
        return max(0.0, min(super().pause_seconds, self._next_due))

    def wake(self) -> None:
        """A run left or arrived: the next round does not first ask whether something is due."""
        self._hinted = True
        super().wake()

    async def tick(self) -> int:
        self._next_due = math.inf  # a look that fails must not make us spin
        return await super().tick()

    async def serve(self, owned: Mapping[int, int]) -> int:
        """One round, if there is something to do; returns how many runs were admitted."""
        hinted, self._hinted = self._hinted, False
        if not hinted:
            is_due, self._next_due = await self._gates.next_due_in(owned)
            if not is_due and time.monotonic() < self._round_at + _ROUND_SECONDS:
                return 0
        self._round_at = time.monotonic()
        done = await self._gates.admit(owned, _RUNS_PER_SHARD)
        for event in done.events:
            _log.warning(event.kind, namespace=event.namespace, subject=event.subject, detail=event.detail)
        if done.more:
            self.wake()
        elif done.looked_at:
            super().wake()  # look again at once: more may have come meanwhile
        return done.admitted
