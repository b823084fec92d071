"""What a worker holds: claims that wait, runs in slots, and reports that are not answered yet.

Room. A worker claims runs for its free slots, and prefetches as many as it can run in _PREFETCH_SECONDS at their mean
duration (none if they take longer). Runs that are due and get no slot within _HOARD_SECONDS are released. A run counts
until its report is answered, so a worker never gets far ahead of what is recorded: short runs start while other reports
are in flight, long ones wait for a slot whose report has been answered.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from rota.broker.protocol import Broker, Signal, SignalKind
from rota.clock import DatabaseClock
from rota.domain.run import EXPIRED, Claim, Outcome, Report
from rota.telemetry import get_logger
from rota.worker.claim_queue import ClaimQueue
from rota.worker.executor import Attempt, Executor
from rota.worker.lease import CUT_OFF, EXIT, Lease
from rota.worker.reporter import Reporter
from rota.worker.run_log import LogWriter

_PREFETCH_SECONDS = 0.1
_MOST_PREFETCHED = 2000
_HOARD_SECONDS = 1.0
_BUSY_SECONDS = 1.0
_log = get_logger("worker")


class Slots:
    """Starts due runs while a slot is free, and reports how they ended."""

    def __init__(
        self,
        count: int,
        *,
        broker: Broker,
        lease: Lease,
        clock: DatabaseClock,
        logs: LogWriter,
        make_executor: Callable[..., Executor],
        on_busy: Callable[[], None],
        on_room: Callable[[], None],
        on_ended: Callable[[Report], None],
        in_turns: bool = False,
    ) -> None:
        self.broker = broker
        self.lease = lease
        self.clock = clock
        self.monotonic = lease.monotonic
        self._count = count
        self._on_busy = on_busy
        self._on_room = on_room
        self._on_ended = on_ended
        self._queue = ClaimQueue(clock, self.start_ready, lease.monotonic, in_turns=in_turns)
        self._refilling = False
        self._mean_seconds: float | None = None
        self._loop = asyncio.get_running_loop()
        self.reporter = Reporter(broker, logs, self._answered)
        self.executor = make_executor(on_end=self._ended)
        self.running = self.executor.running
        self.reporting: set[int] = set()
        self.occupied = 0  # runs that have started and whose report is not answered
        self.draining = False
        self._busy_until = -math.inf  # one run after another is no reason to go to rest in between

    @property
    def is_idle(self) -> bool:
        """Whether nothing has run for a while, not even a run that did not stop when asked. Can be called from any
        thread."""
        return not self.running and not self.executor.abandoned and self.monotonic() >= self._busy_until

    @property
    def count(self) -> int:
        """How many runs it can run at a time."""
        return self._count

    @property
    def held(self) -> frozenset[int]:
        """The numbers of all claims."""
        return frozenset(self._queue.numbers() | self.running.keys() | self.reporting)

    def room(self) -> int:
        """How many more to claim now; prefetched runs are claimed in large portions, when half are used up."""
        prefetch = self.prefetch()
        room = self._count + prefetch - self.occupied - len(self._queue)
        return room if room > prefetch // 2 else 0

    def prefetch(self) -> int:
        """How many runs to hold beyond the slots."""
        if self._mean_seconds is None or self._mean_seconds > _PREFETCH_SECONDS or self._is_held_up():
            return 0
        ahead = self._count * _PREFETCH_SECONDS / max(self._mean_seconds, 1e-4)
        return int(min(ahead, _MOST_PREFETCHED))

    def take(self, claims: list[Claim]) -> None:
        if self.lease.cut_off:
            self._release(claims)
        elif claims:
            self._queue.add(claims)

    def start_ready(self) -> None:
        """Starts due runs while there are free slots."""
        count, running, queue = self._count, self.running, self._queue
        most = count + self.prefetch()
        # A paused process can wake up here, before anything has noticed that its lease is over.
        while queue.has_due and len(running) < count and self.occupied < most and self.lease.may_begin():
            claim = queue.next()
            if claim.expires is not None and self.clock.now() > claim.expires:
                self._report(Report(claim, Outcome.expired, None, self.clock.now(), error=EXPIRED))
                continue
            self.occupied += 1
            self.executor.start(claim)
            if len(running) == 1:
                self._note_busy()

    def release_waiting(self) -> None:
        """Releases runs that have not started."""
        self._release(self._queue.clear())

    def release_hoarded(self) -> None:
        """Releases due runs that found no slot: another worker may have one."""
        self._release(self._queue.take_overdue(_HOARD_SECONDS))

    def stop_all(self) -> None:
        """Stops all runs because the lease is nearly over."""
        self.release_waiting()
        for attempt in list(self.running.values()):
            self.executor.stop(attempt, Outcome.cut_off, within=self.lease.seconds * (EXIT - CUT_OFF) / 2)

    def disown_all(self) -> None:
        """Stops all runs because the lease is over: other workers have them."""
        self.stop_all()
        for attempt in list(self.running.values()):
            self.executor.disown(attempt)

    def obey(self, signal: Signal) -> None:
        """Carries out the broker's request about one claim."""
        if signal.claim is None:
            return
        if waiting := self._queue.remove(signal.claim):
            outcome = Outcome.cancelled if signal.kind is SignalKind.cancel else Outcome.released
            self._report(Report(waiting, outcome, None, self.clock.now()))
        elif signal.kind is SignalKind.cancel and signal.claim in self.running:
            self.executor.stop(self.running[signal.claim], Outcome.cancelled)
        elif signal.kind is SignalKind.lost and signal.claim in self.running:
            _log.warning("stopping a run that is not on record", claim=signal.claim)
            self.executor.disown(self.running[signal.claim])

    def _note_busy(self) -> None:
        now = self.monotonic()
        was_idle, self._busy_until = now >= self._busy_until, now + _BUSY_SECONDS
        if was_idle:
            self._on_busy()

    def _is_held_up(self) -> bool:
        """Whether the oldest run takes longer than short runs do."""
        oldest = next(iter(self.running.values()), None)
        return oldest is not None and self.monotonic() - oldest.began > _PREFETCH_SECONDS

    def _ended(self, attempt: Attempt, report: Report) -> None:
        seconds, mean = self.monotonic() - attempt.began, self._mean_seconds
        self._mean_seconds = seconds if mean is None else mean + 0.05 * (seconds - mean)
        if report.started is None:
            self.occupied -= 1  # it did not begin after all; for others this waits for the answer to their report
        self._report(report)
        if self._queue.has_due and not self._refilling:
            self._refilling = True
            self._loop.call_soon(self._refill)
        self._on_ended(report)

    def _refill(self) -> None:
        """Runs once for all runs that ended in this turn of the event loop."""
        self._refilling = False
        self.start_ready()

    def _report(self, report: Report) -> None:
        self.reporting.add(report.claim.number)
        self.reporter.add(report)

    def _answered(self, reports: list[Report]) -> None:
        for report in reports:
            self.reporting.discard(report.claim.number)
            if report.started is not None:
                self.occupied -= 1
        self.start_ready()
        self._on_room()

    def _release(self, claims: list[Claim]) -> None:
        for claim in claims:
            self._report(Report(claim, Outcome.released, None, self.clock.now()))
