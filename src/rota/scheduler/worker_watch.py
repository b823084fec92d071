"""The watch over workers: one that falls silent is given up, and its runs are reaped.

A worker is lost when we have seen the same beat for a whole lease, on our own clock. After a database outage, or a
pause of our own, observation starts again from zero, so a whole lease passes before any worker is given up. Giving up a
worker compares the observed beat with the stored one, so a beat that comes first wins. After that it can't claim.

The scheduler's own beat brings the beats of the workers along (lease_keeper.py), so usually the watch asks nothing. It
looks for itself, and more often, when it has heard nothing for a while or a worker is late.

The watch does nothing else and waits for no lock: whatever holds up the reaper, or one worker's row, would look like an
outage and make all the others wait for another lease.

Any scheduler may give up any worker: if two do, they meet at the same row and one finds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rota.clock import uptime
from rota.scheduler.lease_keeper import BeatObserver
from rota.service import Service
from rota.store.reap import LostWorkers, WatchedWorker
from rota.telemetry import get_logger

# A longer gap between looks restarts the observation; must be well above our own interval.
_LONGEST_GAP_SECONDS = 1.0
_CALM_SECONDS = 0.75
_DEAF_SECONDS = 0.6  # more than between two beats of a scheduler with the usual lease
_LATE_SHARE = 0.5  # of its lease without a beat that we saw: a worker beats five times in a lease
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
        self._monotonic = monotonic
        self._observer = BeatObserver(monotonic)
        self._watched: Sequence[WatchedWorker] = ()
        self._heard_at = -math.inf

    @property
    def pause_seconds(self) -> float:
        """Long while beats are heard without asking and every worker beats."""
        return self.interval_seconds if self._must_look else _CALM_SECONDS

    def hear(self, watched: Sequence[WatchedWorker]) -> None:
        """The workers as a beat of the scheduler found them."""
        self._watched, self._heard_at = watched, self._monotonic()
        live = [worker for worker in watched if not worker.gone]
        shortest = min((worker.lease.total_seconds() for worker in live), default=1.0)
        self._observer.look(
            {worker.id: worker.beat for worker in live}, longest_gap=max(shortest / 2, _LONGEST_GAP_SECONDS)
        )
        if len(live) < len(watched) or any(map(self._is_late, live)):
            self.wake()

    async def tick(self) -> int:
        """Checks all beats; returns how many workers were given up."""
        if self._must_look:
            self.hear(await self._workers.watched())
            self._woken.clear()  # this round is about it
        given_up = 0
        for worker in self._watched:
            silent = self._observer.still_for(worker.id) >= worker.lease.total_seconds()
            if silent and not worker.gone and await self._workers.give_up(worker.id, worker.beat, "worker lost"):
                given_up += 1
                _log.warning("a worker is lost: no heartbeat for its whole lease", worker_id=str(worker.id))
        if given_up or any(worker.gone for worker in self._watched):
            self._on_lost()
        return given_up

    @property
    def _must_look(self) -> bool:
        is_deaf = self._monotonic() - self._heard_at > _DEAF_SECONDS
        return is_deaf or any(worker.gone or self._is_late(worker) for worker in self._watched)

    def _is_late(self, worker: WatchedWorker) -> bool:
        return self._observer.still_for(worker.id) > worker.lease.total_seconds() * _LATE_SHARE
