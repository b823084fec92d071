"""Admission: runs with policies wait at gates, and go on when all of theirs let them through.

Plain runs never come here, and workers know nothing of it: a run is claimed only after it was admitted. The rules are
in domain/gates.py; store/admit has the transaction, and says why no run is forgotten and no limit exceeded, however
many schedulers run. A round looks at three things: runs that came to their gates and were not looked at yet, notes of
runs that left their place, and gates whose moment has come. It is woken by a hint, and by its own clock when the next
run is due.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

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

    def __init__(
        self,
        *,
        gates: Gates,
        leases: LeaseKeeper,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(leases=leases)
        self._gates = gates
        self._monotonic = monotonic
        self._round_at = -math.inf
        self._next_due = math.inf
        self._hinted = False

    @property
    def pause_seconds(self) -> float:
        """Until the next run comes to its gates, or until it is time to look anyway."""
        return max(0.0, min(self.interval_seconds, self._next_due))

    def wake(self) -> None:
        """A run left, or came: the next round does not first ask whether something is due."""
        self._hinted = True
        super().wake()

    async def tick(self) -> int:
        """One round; returns how many runs were admitted."""
        self._next_due = math.inf  # until a look says otherwise: one that fails must not make us spin
        return await super().tick()

    async def serve(self, owned: Mapping[int, int]) -> int:
        """One round, if there is something to do; returns how many runs were admitted, and wakes itself for more."""
        hinted, self._hinted = self._hinted, False
        if not hinted:
            due = await self._gates.next_due_in(owned)
            self._next_due = math.inf if due is None else due
            if self._next_due > 0 and self._monotonic() < self._round_at + _ROUND_SECONDS:
                return 0
        self._round_at = self._monotonic()
        done = await self._gates.admit(owned, _RUNS_PER_SHARD)
        for event in done.events:
            _log.warning(event.kind, namespace=event.namespace, subject=event.subject, detail=event.detail)
        if done.more:
            self.wake()
        elif done.looked_at:
            super().wake()  # look again at once: more may have come meanwhile
        return done.admitted
