"""The watch over workers: one that falls silent is given up, and its runs are reaped.

A worker is lost when we have seen the same beat for a whole lease, on our own clock. After a database outage, or a
pause of our own, observation starts again from zero, so a whole lease passes before any worker is given up. Giving up a
worker compares the observed beat with the stored one, so a beat that comes first wins. After that it can't claim.

The watch does nothing else and waits for no lock: whatever holds up the reaper, or one worker's row, would look like an
outage and make all the others wait for another lease.

Any scheduler may give up any worker: if two do, they meet at the same row and one finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.clock import uptime
from rota.scheduler.lease_keeper import BeatObserver
from rota.service import Service
from rota.store.reap import LostWorkers
from rota.telemetry import get_logger

# A longer gap between looks restarts the observation; must be well above our own interval.
_LONGEST_GAP_SECONDS = 1.0
_log = get_logger("reaping")


class WorkerWatch(Service):
    """Gives up silent workers; calls `on_lost` while lost workers may have left claims."""

    interval_seconds = 0.25

    def __init__(
        self,
        *,
        workers: LostWorkers,
        on_lost: Callable[[], None] = lambda: None,
        monotonic: Callable[[], float] = uptime,
    ) -> None:
        super().__init__()
        self._workers = workers
        self._on_lost = on_lost
        self._observer = BeatObserver(monotonic)

    async def tick(self) -> int:
        """Checks all beats; returns how many workers were given up."""
        live, some_gone = await self._workers.watched()
        shortest = min((lease.total_seconds() for _, _, lease in live), default=1.0)
        self._observer.look(
            {worker_id: beat for worker_id, beat, _ in live}, longest_gap=max(shortest / 2, _LONGEST_GAP_SECONDS)
        )
        given_up = 0
        for worker_id, beat, lease in live:
            silent = self._observer.still_for(worker_id) >= lease.total_seconds()
            if silent and await self._workers.give_up(worker_id, beat, "worker lost"):
                given_up += 1
                _log.warning("a worker is lost: no heartbeat for its whole lease", worker_id=str(worker_id))
        if some_gone or given_up:
            self._on_lost()
        return given_up
