"""A worker: claims runs, starts each on the dot, reports.

Authority. What a worker may run is what it holds claims for. It keeps one lease by beating; the claims live and die
with it. All writing about a run goes through the broker under the claim's number, so whatever this process believes, a
run that was given to another can't be changed from here.

Cut off. A worker that can't beat for CUT_OFF of its lease stops everything it runs, so that nothing of its runs is
left when the lease ends and they start elsewhere; what can't be stopped by then (a function in a thread) takes the
process down with it. When the beat works again, it says what it stopped; nothing of that is charged.

Given up. A beat that is not accepted means that the lease ended and others have the runs: everything is stopped, its
late reports are counted as fenced, and the worker joins again under a new id.

In doubt. When the broker's records may be older than what we know, because a database was restored or another took
over, what we hold is compared with them at once. What they do not know is stopped: others have it, or will.

Room. A worker claims what it has slots for, and a little ahead: as much as it gets through in PREFETCH_SECONDS by the
measured length of runs, nothing for long ones. What is due and finds no slot within HOARD_SECONDS is given back. A run
that has ended counts until its report is answered, so that a worker never gets further ahead of what is recorded than
that: short runs start while the reports of others are under way, long ones wait for a slot that is wholly free.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from rota.blobs import Blobs
from rota.broker.protocol import Broker, Profile, Progress, Report, Signal, SignalKind
from rota.clock import DatabaseClock
from rota.domain.run import EXPIRED, Claim, Outcome
from rota.errors import DatabaseUnavailableError
from rota.gateway.protocol import JobGateway
from rota.task.context import Context
from rota.telemetry import get_logger
from rota.worker.claim_queue import ClaimQueue
from rota.worker.executor import GRACE_SECONDS, LOG_LIMIT_BYTES, Attempt, Executor
from rota.worker.health import WorkerHealth
from rota.worker.loops import AGAIN_SECONDS, keep_going
from rota.worker.reporter import Reporter
from rota.worker.run_log import LogWriter
from rota.worker.runners import Runner
from rota.worker.watchdog import Watchdog

BEATS_PER_LEASE = 5
LONGEST_BEAT_SECONDS = 5.0  # it also tells what was done
RECONCILE_EVERY_BEATS = 5
WATCH_SECONDS = 0.1
NOTES_PAUSE_SECONDS = 0.1
CUT_OFF = 0.6  # of the lease: stop everything
EXIT = 0.9  # of the lease: leave the process if something still runs
PREFETCH_SECONDS = 0.1
MOST_PREFETCHED = 2000
HOARD_SECONDS = 1.0
# The claim loop turns every second. A statement may take half a minute; this is longer than two of them.
STALLED_SECONDS = 75.0
MOST_GIVEN_UP = 16
EXIT_CODE_CUT_OFF = 70
FAILED = (Outcome.failed, Outcome.final, Outcome.timed_out)
_log = get_logger("worker")


class Worker:
    """One worker process's loop. `run()` ends after `drain()`."""

    def __init__(
        self,
        *,
        broker: Broker,
        runners: Mapping[str, Runner],
        profile: Profile,
        drain_seconds: float = 30.0,
        grace_seconds: float = GRACE_SECONDS,
        stalled_seconds: float = STALLED_SECONDS,
        log_limit_bytes: int = LOG_LIMIT_BYTES,
        most_given_up: int = MOST_GIVEN_UP,
        blobs: Blobs | None = None,
        secrets: Mapping[str, str] | None = None,
        hidden: Iterable[str] = (),
        on_lease: Callable[[float], None] = lambda _until: None,
        on_failure: Callable[[Report], None] | None = None,
        gateways: Callable[[Claim], JobGateway] | None = None,
        clock: DatabaseClock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        leave_process: Callable[[int], Any] = os._exit,
    ) -> None:
        self._broker = broker
        self._profile = profile
        self._drain_seconds = drain_seconds
        self._clock = clock or DatabaseClock()
        self._monotonic = monotonic
        self._leave_process = leave_process
        self._on_lease = on_lease
        self._on_failure = on_failure
        self._line = ClaimQueue(self._clock, self._start_ready, monotonic)
        self._logs = LogWriter(broker)
        self._reporter = Reporter(broker, self._logs, self._answered)
        self._executor = Executor(
            runners=runners,
            clock=self._clock,
            monotonic=monotonic,
            logs=self._logs,
            on_end=self._ended,
            on_change=self._has_changed,
            gateways=gateways,
            blobs=blobs,
            secrets=secrets,
            hidden=hidden,
            grace_seconds=grace_seconds,
            log_limit_bytes=log_limit_bytes,
        )
        self._running = self._executor.running
        self._reporting: set[int] = set()
        self._occupied = 0  # runs that have started and whose report is not answered
        self._refilling = False
        self._wanted = asyncio.Event()
        self._claiming = asyncio.Lock()
        self._drained = asyncio.Event()
        self._draining = False
        self._cut_off = False
        self._silent_since: float | None = None  # the watchdog's own
        self._beaten_at = float("-inf")
        self._mean_seconds: float | None = None
        self._stalled_seconds = stalled_seconds
        self._claim_turned_at = monotonic()
        self._most_given_up = most_given_up
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._doubtful = False  # whether the records and what we hold may differ
        self._tasks: list[asyncio.Task[None]] = []
        self._restarting: asyncio.Task[None] | None = None
        self._watchdog = Watchdog(
            must_leave=self._must_leave, leave=lambda: leave_process(EXIT_CODE_CUT_OFF), monotonic=monotonic
        )
        self.restart_wanted = False
        self.id: UUID | None = None

    async def run(self) -> None:
        """Works until it has drained."""
        await self._join()
        loops = (
            self._claim_loop,
            self._beat_loop,
            self._upkeep_loop,
            self._watch_loop,
            self._signal_loop,
            self._reporter.run,
            self._logs.run,
            self._watchdog.run,
        )
        self._claim_turned_at = self._monotonic()
        self._tasks = [asyncio.create_task(keep_going(loop), name=loop.__qualname__) for loop in loops]
        await self._drained.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def has_strays(self) -> bool:
        """Whether something of a run goes on that nobody waits for any more; nor must the process."""
        return self._executor.given_up > 0

    def health(self) -> WorkerHealth:
        """How it is doing. May be called from another thread."""
        blocked = self._watchdog.blocked_for
        if blocked:
            return WorkerHealth(
                well=False, status="blocked", detail=f"the event loop has been blocked for {blocked:.1f} s"
            )
        if stalled := self._stalled_for():
            return WorkerHealth(
                well=False, status="stalled", detail=f"the claim loop has made no progress for {stalled:.0f} s"
            )
        if self._cut_off:
            return WorkerHealth(well=True, status="cut off", detail="the database is out of reach")
        if given_up := self._executor.given_up:
            runs = "1 run" if given_up == 1 else f"{given_up} runs"
            return WorkerHealth(well=True, status="ailing", detail=f"{runs} did not stop and may still be running")
        return WorkerHealth(well=True, status="draining" if self._draining else "live", detail=None)

    async def drain(self) -> None:
        """Claims nothing more, hands back what has not started, waits for the rest, and leaves."""
        if self._draining:
            return
        self._draining = True
        _log.info("draining", running=len(self._running))
        async with self._claiming:
            self._release(self._line.clear())
        try:
            await asyncio.wait_for(self._until_stopped(), self._drain_seconds)
        except TimeoutError:
            _log.warning("stopping runs that did not end in time", running=len(self._running))
            for attempt in list(self._running.values()):
                self._executor.stop(attempt, Outcome.interrupted, within=self._broker.lease_seconds)
        await self._leave_in_good_order()
        self._drained.set()

    async def _leave_in_good_order(self) -> None:
        """What can't be stopped or reported within a lease is left to the reaper."""
        try:
            await asyncio.wait_for(self._until_stopped(), self._broker.lease_seconds * 2)
            await asyncio.wait_for(self._reporter.wait_idle(), self._broker.lease_seconds)
            await asyncio.wait_for(self._reconcile(), self._broker.lease_seconds)
            await asyncio.wait_for(self._beat(), self._broker.lease_seconds)  # it tells what was done last
            await asyncio.wait_for(self._broker.leave(), self._broker.lease_seconds)
        except (TimeoutError, DatabaseUnavailableError):
            _log.error("left without a last word; the reaper will take over", running=len(self._running))

    async def _until_stopped(self) -> None:
        while tasks := [attempt.task for attempt in self._running.values() if attempt.task]:
            await asyncio.wait(tasks)

    # Claiming

    async def _claim_loop(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            self._claim_turned_at = self._monotonic()
            room, prefetch = self._room(), self._prefetch()
            # What is claimed ahead is claimed in large portions: half of it must be used up before more is asked for.
            if room <= prefetch // 2 or self._cut_off or self._draining or not self._clock.is_set:
                continue
            try:
                async with self._claiming:
                    me = self.id
                    claims = [] if self._draining else await self._broker.claim(room)
                    if self.id != me:
                        claims = []  # they were somebody's who was given up meanwhile: others have them
                    self._take(claims)
            except DatabaseUnavailableError as error:
                _log.info("claim not answered", error=str(error))
                await asyncio.sleep(AGAIN_SECONDS)
                await self._reconcile()
                self._wanted.set()
                continue
            if len(claims) >= room:
                self._wanted.set()

    def _take(self, claims: list[Claim]) -> None:
        if self._cut_off:
            self._release(claims)
        elif claims:
            self._line.add(claims)

    def _room(self) -> int:
        return self._profile.slots + self._prefetch() - self._occupied - len(self._line)

    def _prefetch(self) -> int:
        if self._mean_seconds is None or self._mean_seconds > PREFETCH_SECONDS or self._is_held_up():
            return 0
        ahead = self._profile.slots * PREFETCH_SECONDS / max(self._mean_seconds, 1e-4)
        return int(min(ahead, MOST_PREFETCHED))

    def _is_held_up(self) -> bool:
        """Whether a run has been in its slot for longer than runs usually take: the first is the oldest."""
        oldest = next(iter(self._running.values()), None)
        return oldest is not None and self._monotonic() - oldest.began > PREFETCH_SECONDS

    async def _reconcile(self) -> None:
        """Rows claimed in our name that we do not hold: the answer to a claim was lost."""
        async with self._claiming:
            held = frozenset(self._line.numbers() | self._running.keys() | self._reporting)
            try:
                await self._broker.reconcile(held)
            except DatabaseUnavailableError as error:
                _log.debug("could not reconcile", error=str(error))

    # Starting

    def _start_ready(self) -> None:
        slots, running, line = self._profile.slots, self._running, self._line
        most = slots + self._prefetch()
        # A process that was paused may wake up here, before anything else has noticed that its lease is over.
        while line.has_due and len(running) < slots and self._occupied < most and self._silence() < CUT_OFF:
            claim = line.next()
            if claim.expires is not None and self._clock.now() > claim.expires:
                self._report(Report(claim, Outcome.expired, None, self._clock.now(), error=EXPIRED))
                continue
            self._occupied += 1
            self._executor.start(claim)

    def _ended(self, attempt: Attempt, report: Report) -> None:
        self._note_length(self._monotonic() - attempt.began)
        self._report(report)
        if self._on_failure and report.outcome in FAILED:
            self._on_failure(report)
        if self._executor.given_up >= self._most_given_up:
            self._restart("too many runs did not stop when they were asked to")
        if self._line.has_due and not self._refilling:
            self._refilling = True
            self._loop.call_soon(self._refill)

    def _refill(self) -> None:
        """Once for all the runs that ended in this turn of the loop."""
        self._refilling = False
        self._start_ready()

    def _report(self, report: Report) -> None:
        self._reporting.add(report.claim.number)
        self._reporter.add(report)

    def _answered(self, reports: list[Report]) -> None:
        for report in reports:
            self._reporting.discard(report.claim.number)
            if report.started is not None:
                self._occupied -= 1
        self._start_ready()
        self._wanted.set()

    def _release(self, claims: list[Claim]) -> None:
        for claim in claims:
            self._report(Report(claim, Outcome.released, None, self._clock.now()))

    def _note_length(self, seconds: float) -> None:
        mean = self._mean_seconds
        self._mean_seconds = seconds if mean is None else mean + 0.05 * (seconds - mean)

    # Keeping the lease

    async def _join(self) -> None:
        while not self._draining:
            sent = self._monotonic()
            try:
                self.id = await self._broker.join(self._profile)
            except DatabaseUnavailableError as error:
                _log.info("could not join yet", error=str(error))
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            self._beaten_at = sent
            await self._beat()
            self._wanted.set()
            _log.info("joined", worker_id=str(self.id), pools=list(self._profile.pools), slots=self._profile.slots)
            return

    async def _beat_loop(self) -> None:
        """Nothing but beats: whatever else takes long must not cost the lease."""
        while True:
            await asyncio.sleep(min(self._broker.lease_seconds / BEATS_PER_LEASE, LONGEST_BEAT_SECONDS))
            await self._beat()

    async def _upkeep_loop(self) -> None:
        """In the rhythm of the beats: what has started is written down, what is hoarded given back. A checkpoint does
        not wait that long."""
        interval = self._broker.lease_seconds / BEATS_PER_LEASE
        reconciled_at = self._monotonic()
        while True:
            self._changed.clear()
            await self._write_notes()
            self._give_back_hoarded()
            again_at = reconciled_at + RECONCILE_EVERY_BEATS * interval
            if self._doubtful or (self._monotonic() >= again_at and not self._draining):
                reconciled_at, self._doubtful = self._monotonic(), False
                await self._reconcile()
            await asyncio.sleep(NOTES_PAUSE_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(interval - NOTES_PAUSE_SECONDS):
                    await self._changed.wait()

    def _has_changed(self, _context: Context) -> None:
        """May be called from any thread."""
        self._loop.call_soon_threadsafe(self._changed.set)

    async def _beat(self) -> None:
        sent = self._monotonic()
        try:
            moment = await self._broker.beat(
                busy=self._occupied,
                fenced=self._reporter.fenced,
                draining=self._draining,
                ailing=self.health().detail,
            )
        except DatabaseUnavailableError as error:
            _log.info("beat not answered", error=str(error))
            return
        received = self._monotonic()
        if moment is None:
            await self._start_over()
            return
        if not self._clock.is_set or self._cut_off:
            self._wanted.set()
        self._clock.observe(sent=sent, received=received, database_time=moment)
        self._beaten_at = sent
        self._on_lease(sent + EXIT * self._broker.lease_seconds)
        if self._cut_off:
            _log.info("the lease is kept again")
            self._cut_off = False
        self._start_ready()

    async def _start_over(self) -> None:
        """We were given up: stop everything, and come back as somebody new."""
        _log.warning("given up by the scheduler; stopping all runs and joining again", worker_id=str(self.id))
        self._stop_everything()
        if not self._draining:
            await self._join()

    async def _watch_loop(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if self._silence() >= CUT_OFF and not self._cut_off:
                _log.warning("no heartbeat for most of the lease; stopping all runs", running=len(self._running))
                self._cut_off = True
                self._stop_everything()
            if self._stalled_for() > self._stalled_seconds:
                self._restart("the claim loop makes no progress")

    def _must_leave(self) -> bool:
        """For the watchdog: the lease is nearly over, and something of a run is still there after there was time to
        stop it. A process that was paused gets that time when it wakes up."""
        now = self._monotonic()
        if self._silence() < CUT_OFF:
            self._silent_since = None
            return False
        self._silent_since = self._silent_since or now
        late = now - self._silent_since >= (EXIT - CUT_OFF) * self._broker.lease_seconds
        if not late or not (self._running or self._executor.given_up):
            return False
        _log.error("runs did not stop in time; leaving the process", running=len(self._running))
        return True

    def _stalled_for(self) -> float:
        """For how long the claim loop has not turned; 0 when it has no reason to, or has turned of late."""
        silent = self._monotonic() - self._claim_turned_at
        return 0.0 if self._draining or self._cut_off or silent < self._stalled_seconds / 2 else silent

    def _restart(self, why: str) -> None:
        """Ends this worker in good order, to be started anew."""
        if self._draining or self.restart_wanted:
            return
        _log.error("the worker restarts itself", why=why)
        self.restart_wanted = True
        for task in self._tasks:
            if task.get_name() == self._claim_loop.__qualname__:
                task.cancel()  # it may hold what draining needs
        self._restarting = asyncio.create_task(self.drain(), name="restarting")

    def _silence(self) -> float:
        """For how much of the lease no beat was answered."""
        return (self._monotonic() - self._beaten_at) / self._broker.lease_seconds

    def _stop_everything(self) -> None:
        self._release(self._line.clear())
        for attempt in list(self._running.values()):
            self._executor.stop(attempt, Outcome.cut_off, within=self._broker.lease_seconds * (EXIT - CUT_OFF) / 2)

    def _give_back_hoarded(self) -> None:
        """Due, but no slot came free: somebody else may have one."""
        self._release(self._line.take_overdue(HOARD_SECONDS))

    async def _write_notes(self) -> None:
        told = []
        notes = []
        for attempt in self._running.values():
            said = attempt.context.take_said()
            if said or not (attempt.noted or attempt.context.quiet):
                told.append(attempt)
                notes.append(Progress(attempt.claim, attempt.started, *(said or (None, None, None))))
        if not notes:
            return
        try:
            await self._broker.update(notes)
        except DatabaseUnavailableError as error:
            _log.debug("progress not written", error=str(error))
            for attempt in told:
                attempt.context.keep_said()
            return
        for attempt in told:
            attempt.noted = True

    # Being told

    async def _signal_loop(self) -> None:
        async for signal in self._broker.signals():
            self._told(signal)

    def _told(self, signal: Signal) -> None:
        if signal.kind is SignalKind.doubt:
            self._doubtful = True
            self._changed.set()
        if signal.claim is None:
            self._wanted.set()
            return
        waiting = self._line.remove(signal.claim)
        if waiting:
            outcome = Outcome.cancelled if signal.kind is SignalKind.cancel else Outcome.released
            self._report(Report(waiting, outcome, None, self._clock.now()))
        elif signal.kind is SignalKind.cancel and signal.claim in self._running:
            self._executor.stop(self._running[signal.claim], Outcome.cancelled)
        elif signal.kind is SignalKind.lost and signal.claim in self._running:
            _log.warning("a run that is not on record is stopped", claim=signal.claim)
            self._executor.stop(self._running[signal.claim], Outcome.cut_off)
