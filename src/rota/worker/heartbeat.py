"""Keeping the lease: the heartbeat, the cut-off when it goes unanswered, and periodic upkeep.

Cut off. A worker that can't beat for CUT_OFF of its lease stops all of its runs, so that nothing is left of them when
the lease ends and they start elsewhere. If something can't be stopped by then (a function in a thread), the process
exits. Once the beat works again the worker reports what it stopped; no attempt is charged.

Declared lost. A rejected beat means that the lease ended and other workers have the runs. The worker stops everything,
counts its late reports as fenced, and joins again under a new id.

In doubt. A database that was restored, or a replica that took over, may know less than the worker. The worker then
reconciles at once, and stops runs that are not on record, because other workers will get them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rota.domain.fleet import WorkerProfile
from rota.domain.run import Progress
from rota.errors import DatabaseUnavailableError
from rota.service import AGAIN_SECONDS, Service
from rota.task.context import Context
from rota.telemetry import get_logger
from rota.worker.claimer import Claimer
from rota.worker.lease import CUT_OFF, EXIT
from rota.worker.slots import Slots

_BEATS_PER_LEASE = 5
_LONGEST_BEAT_SECONDS = 5.0  # the beat also carries the worker's activity
_RECONCILE_EVERY_BEATS = 5
_NOTES_PAUSE_SECONDS = 0.1
_IDLE_WATCH_SECONDS = 1.0
_log = get_logger("worker")


class Heartbeat(Service):
    """Joins and beats, and does nothing else, so that no slow work can cost the lease."""

    jitter = 0

    def __init__(
        self,
        slots: Slots,
        claimer: Claimer,
        *,
        profile: WorkerProfile,
        ailing: Callable[[], str | None],
        on_lease: Callable[[float], None],
    ) -> None:
        super().__init__()
        self._slots = slots
        self._lease = slots.lease
        self._broker = slots.broker
        self._claimer = claimer
        self._profile = profile
        self._ailing = ailing
        self._on_lease = on_lease

    @property
    def pause_seconds(self) -> float:
        """Several beats per lease; soon again while not joined."""
        joined = self._lease.worker_id is not None
        return min(self._lease.seconds / _BEATS_PER_LEASE, _LONGEST_BEAT_SECONDS) if joined else AGAIN_SECONDS

    async def tick(self) -> int:
        """Beats once; returns 1 if that kept the lease."""
        lease = self._lease
        if lease.worker_id is None:
            if self._slots.draining:
                return 0
            await self._join()
        sent = self._slots.monotonic()
        moment = await self._broker.beat(
            busy=self._slots.occupied,
            fenced=self._slots.reporter.fenced,
            draining=self._slots.draining,
            ailing=self._ailing(),
        )
        if moment is None:
            _log.warning(
                "declared lost by the scheduler; stopping all runs and joining again", worker_id=str(lease.worker_id)
            )
            lease.worker_id = None
            self._slots.disown_all()
            self.wake()
            return 0
        may_claim_again = lease.cut_off or not self._slots.clock.is_set
        self._slots.clock.observe(sent=sent, received=self._slots.monotonic(), database_time=moment)
        lease.beaten_at = sent
        self._on_lease(sent + EXIT * lease.seconds)
        if lease.cut_off:
            _log.info("the lease is kept again")
            lease.cut_off = False
            self._slots.executor.spare()
        if may_claim_again:
            self._claimer.wake()
        self._slots.start_ready()
        return 1

    async def _join(self) -> None:
        sent = self._slots.monotonic()
        self._lease.worker_id = await self._broker.join(self._profile)
        self._lease.beaten_at = sent
        self._claimer.wake()
        pools, slots = list(self._profile.pools), self._profile.slots
        _log.info("joined", worker_id=str(self._lease.worker_id), pools=pools, slots=slots)


class LeaseWatch(Service):
    """Stops all runs before the lease ends, and restarts a worker that makes no progress.

    With nothing to stop it looks less often; the first run that starts wakes it.
    """

    interval_seconds = 0.1
    jitter = 0

    def __init__(self, slots: Slots, claimer: Claimer, *, restart: Callable[[str], None]) -> None:
        super().__init__()
        self._slots = slots
        self._lease = slots.lease
        self._claimer = claimer
        self._restart = restart

    @property
    def pause_seconds(self) -> float:
        """Short while there is something to stop."""
        return _IDLE_WATCH_SECONDS if self._slots.is_idle else self.interval_seconds

    async def tick(self) -> int:
        if self._lease.silence >= CUT_OFF and not self._lease.cut_off:
            _log.warning("no heartbeat for most of the lease; stopping all runs", running=len(self._slots.running))
            self._lease.cut_off = True
            self._slots.stop_all()
        if self._claimer.is_stalled:
            self._restart("the claim loop makes no progress")
        return 0


class Upkeep(Service):
    """Records starts and progress, and releases hoarded claims, once per beat; checkpoints are recorded at once.

    While nothing runs it only reconciles; the first run that starts wakes it.
    """

    interval_seconds: float
    jitter = 0

    def __init__(self, slots: Slots, claimer: Claimer) -> None:
        super().__init__()
        interval = slots.lease.seconds / _BEATS_PER_LEASE
        self.interval_seconds = interval - _NOTES_PAUSE_SECONDS
        self._reconcile_seconds = interval * _RECONCILE_EVERY_BEATS
        self._slots = slots
        self._claimer = claimer
        self._reconciled_at = slots.monotonic()
        self._doubtful = False  # whether the records may differ from what we hold
        self._begins = False  # whether it was woken only to make its usual rounds again
        self._loop = asyncio.get_running_loop()

    @property
    def pause_seconds(self) -> float:
        """Longer while nothing runs."""
        return self._reconcile_seconds if self._slots.is_idle else self.interval_seconds

    def begin(self) -> None:
        """The first run has started: its start is recorded if it lasts until the next round."""
        if not self._woken.is_set():
            self._begins = True
            super().wake()

    def wake(self) -> None:
        self._begins = False  # there is something to do now
        super().wake()

    def has_changed(self, _context: Context) -> None:
        """A run has something to record. Can be called from any thread."""
        self._loop.call_soon_threadsafe(self.wake)

    def doubt(self) -> None:
        """The records may be older than what we know: reconciles now."""
        self._doubtful = True
        self.wake()

    async def tick(self) -> int:
        """One round; returns how many runs had something to record."""
        begins, self._begins = self._begins, False
        if begins:
            return 0
        recorded = await self._record_progress()
        self._slots.release_hoarded()
        is_time = self._slots.monotonic() >= self._reconciled_at + self._reconcile_seconds and not self._slots.draining
        if self._doubtful or is_time:
            self._reconciled_at, self._doubtful = self._slots.monotonic(), False
            await self._claimer.reconcile()
        await asyncio.sleep(_NOTES_PAUSE_SECONDS)
        return recorded

    async def _record_progress(self) -> int:
        told, notes = [], []
        for attempt in self._slots.running.values():
            said = attempt.context.take_said()
            if said or not (attempt.noted or attempt.context.quiet):
                told.append(attempt)
                notes.append(Progress(attempt.claim, attempt.started, *(said or (None, None, None))))
        if not notes:
            return 0
        try:
            await self._slots.broker.update(notes)
        except DatabaseUnavailableError as error:
            _log.debug("progress not written", error=str(error))
            for attempt in told:
                attempt.context.keep_said()
            return 0
        for attempt in told:
            attempt.noted = True
        return len(told)
