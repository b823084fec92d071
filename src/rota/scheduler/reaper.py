"""Reaping: a worker that died loses its claims, and its runs start elsewhere.

A worker is lost when we have seen the same beat for a whole lease, on our own monotonic clock. After a database outage
observation starts again from zero, so the reaper waits a whole lease before it reaps. Giving up a worker compares the
observed beat with the stored one, so a beat that comes first wins. After that the worker can't claim. Its claims are
settled run by run, each fenced by its claim number, so a report that comes first wins.

Any scheduler may reap any worker: if two do, they meet at the same rows and one finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from rota.clock import DatabaseClock, uptime
from rota.scheduler.lease_keeper import BeatObserver
from rota.service import Service
from rota.store.reap import LostWorkers
from rota.store.report import Reports
from rota.telemetry import get_logger

_CLAIMS_PER_ROUND = 1000
# A longer gap between looks restarts the observation; must be well above our own interval.
_LONGEST_GAP_SECONDS = 1.0
_log = get_logger("reaping")


class Reaper(Service):
    """Gives up silent workers, and settles their runs."""

    interval_seconds = 0.25
    full_round = _CLAIMS_PER_ROUND

    def __init__(
        self,
        *,
        workers: LostWorkers,
        reports: Reports,
        clock: DatabaseClock,
        monotonic: Callable[[], float] = uptime,
    ) -> None:
        super().__init__()
        self._workers = workers
        self._reports = reports
        self._clock = clock
        self._observer = BeatObserver(monotonic)

    async def tick(self) -> int:
        """Checks all beats, then lost claims; returns how many runs were reaped."""
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
        """Gives up silent workers; returns whether lost workers may have left claims."""
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
