"""Reaping: the runs of workers that are gone start elsewhere.

What a gone worker held is settled run by run, each fenced by its claim number, so a report that comes first wins. A run
that another transaction holds (a worker that was paused inside the transaction of a task) is left for the next round:
the others don't wait for it.

Any scheduler may reap any run: if two do, they meet at the same rows and one finds nothing.
"""

from __future__ import annotations

from rota.broker.attempt_metrics import AttemptMetrics
from rota.clock import DatabaseClock
from rota.metrics.catalogue import Metrics
from rota.service import Service
from rota.store.reap import LostWorkers
from rota.store.report import Reports
from rota.telemetry import get_logger

_CLAIMS_PER_ROUND = 1000
_log = get_logger("reaping")


class Reaper(Service):
    """Settles the runs of lost workers, when the watch says that there may be some (worker_watch.py)."""

    interval_seconds = None
    full_round = _CLAIMS_PER_ROUND

    def __init__(
        self, *, workers: LostWorkers, reports: Reports, clock: DatabaseClock, metrics: Metrics | None = None
    ) -> None:
        super().__init__()
        self._workers = workers
        self._reports = reports
        self._clock = clock
        self._attempts = AttemptMetrics(metrics or Metrics())

    async def tick(self) -> int:
        """Settles lost claims; returns how many runs were reaped."""
        lost = await self._workers.lost_claims(_CLAIMS_PER_ROUND, self._clock.now())
        if not lost:
            return 0
        recorded = await self._reports.record(lost)
        for report in lost:
            if error := recorded.rejected.get(report.claim.number):
                _log.error("a lost run could not be settled", run_id=str(report.claim.run_id), error=str(error))
        self._attempts.settled(lost, recorded.dispositions, {*recorded.fenced, *recorded.rejected})
        _log.warning("reaped runs of lost workers", runs=recorded.written)
        return recorded.written
