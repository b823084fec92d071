"""Reaping: a worker that died loses its claims, and its runs start elsewhere.

A worker is given up when its beat has stood still for a whole lease before our own eyes, on our own monotonic clock.
After an outage of the database no worker has beaten, and none was seen beating: observation starts anew, so the
reaper waits one whole lease before it reaps. Giving up is a comparison with the beat that was watched; a beat that
comes first wins. After it the worker can't claim, and what it holds is settled run by run, each fenced by its claim
number: a report of the worker that comes first wins.

Any scheduler may reap any worker; two that do meet at the same rows and one finds nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID

from rota.clock import DatabaseClock
from rota.scheduler.lease_keeper import BeatObserver
from rota.service import Service
from rota.store.reap import LostWorkers
from rota.store.report import Reports
from rota.telemetry import get_logger

_CLAIMS_PER_ROUND = 1000
# Looking less often than this counts as having been away; it must be well above the interval of our own looks.
_LONGEST_GAP_SECONDS = 1.0
_log = get_logger("reaping")


class Reaper(Service):
    """Gives up workers that are silent, and settles what they held."""

    interval_seconds = 0.25
    full_round = _CLAIMS_PER_ROUND

    def __init__(
        self,
        *,
        workers: LostWorkers,
        reports: Reports,
        clock: DatabaseClock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._workers = workers
        self._reports = reports
        self._clock = clock
        self._observer = BeatObserver(monotonic)

    async def tick(self) -> int:
        """One look at all beats, one at what is left behind; returns how many runs were reaped."""
        some_gone = await self._give_up_silent()
        lost = await self._workers.lost_claims(_CLAIMS_PER_ROUND, self._clock.now()) if some_gone else []
        if not lost:
            return 0
        recorded = await self._reports.record(lost)
        for report in lost:
            if error := recorded.rejected.get(report.claim.number):
                _log.error("a lost run could not be settled", run_id=str(report.claim.run_id), error=str(error))
        _log.warning("reaped runs of lost workers", runs=recorded.written)
        return recorded.written

    async def _give_up_silent(self) -> bool:
        """Returns whether a worker that is gone may have left something behind."""
        live, some_gone = await self._workers.watched()
        shortest = min((lease.total_seconds() for _, _, lease in live), default=1.0)
        self._observer.look(
            {worker_id: beat for worker_id, beat, _ in live}, longest_gap=max(shortest / 2, _LONGEST_GAP_SECONDS)
        )
        for worker_id, beat, lease in live:
            if self._observer.still_for(worker_id) >= lease.total_seconds():
                some_gone |= await self._give_up(worker_id, beat)
        return some_gone

    async def _give_up(self, worker_id: UUID, beat: int) -> bool:
        given_up = await self._workers.give_up(worker_id, beat, "worker lost")
        if given_up:
            _log.warning("a worker is lost: no heartbeat for its whole lease", worker_id=str(worker_id))
        return given_up
