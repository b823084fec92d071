"""A worker: claims runs, starts each on the dot, reports.

Authority. What a worker may run is what it holds claims for. It keeps one lease by beating; the claims live and die
with it. All writing about a run goes through the broker under the claim's number, so whatever this process believes, a
run that was given to another can't be changed from here.

Cut off. A worker that can't beat for CUT_OFF of its lease stops everything it runs, so that nothing of its runs is
left when the lease ends and they start elsewhere; what can't be stopped by then (a function in a thread) takes the
process down with it. When the beat works again, it says what it stopped; nothing of that is charged.

Given up. A beat that is not accepted means that the lease ended and others have the runs: everything is stopped, its
late reports are counted as fenced, and the worker joins again under a new id.

Room. A worker claims what it has slots for, and a little ahead: as much as it gets through in PREFETCH_SECONDS by the
measured length of runs, nothing for long ones. What is due and finds no slot within HOARD_SECONDS is given back. A run
that has ended counts until its report is answered, so that a worker never gets further ahead of what is recorded than
that: short runs start while the reports of others are under way, long ones wait for a slot that is wholly free.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import os
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from rota.broker.protocol import Broker, ClaimKey, Note, Profile, Report, Signal, SignalKind
from rota.clock import DatabaseClock
from rota.domain.run import Claim, Outcome
from rota.domain.text import clean_text
from rota.errors import DatabaseUnavailableError
from rota.telemetry import get_logger
from rota.worker.context import Context, Final
from rota.worker.reporter import Reporter
from rota.worker.runners import Runner
from rota.worker.wheel import Wheel

BEATS_PER_LEASE = 5
RECONCILE_EVERY_BEATS = 5
WATCH_SECONDS = 0.1
CUT_OFF = 0.6  # of the lease: stop everything
EXIT = 0.9  # of the lease: leave the process if something still runs
PREFETCH_SECONDS = 0.1
MOST_PREFETCHED = 2000
HOARD_SECONDS = 1.0
AGAIN_SECONDS = 0.2
RESULT_LIMIT_BYTES = 64 * 1024
ERROR_LIMIT = 10_000
EXIT_CODE_CUT_OFF = 70
_log = get_logger("worker")


class _Running:
    """A run in a slot."""

    __slots__ = ("began", "begun", "claim", "context", "noted", "started", "stop_as", "task")

    def __init__(self, claim: Claim, started: float, began: float) -> None:
        self.claim = claim
        self.context = Context(claim)
        self.started = started
        self.began = began
        self.begun = False
        self.noted = False
        self.stop_as: Outcome | None = None
        self.task: asyncio.Task[None] | None = None

    def stop(self, outcome: Outcome, *, within: float = math.inf) -> None:
        """Asks the task to stop; the first reason stands."""
        if self.stop_as is None:
            self.stop_as = outcome
            self.context.ask_to_stop(within)
            # A task cancelled before its first step never enters its body and could not report: it looks by itself.
            if self.task and self.begun:
                self.task.cancel()


async def _keep_going(loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A fault in one loop must not take down the runs of the whole worker: it is logged, and the loop goes on."""
    while True:
        try:
            await loop()
        except Exception:  # noqa: BLE001 - logged whole
            _log.exception("a loop of the worker failed and goes on", loop=loop.__qualname__)
            await asyncio.sleep(AGAIN_SECONDS)


class Worker:
    """One worker process's loop. `run()` ends after `drain()`."""

    def __init__(
        self,
        *,
        broker: Broker,
        runners: Mapping[str, Runner],
        profile: Profile,
        drain_seconds: float = 30.0,
        clock: DatabaseClock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        leave_process: Callable[[int], Any] = os._exit,
    ) -> None:
        self._broker = broker
        self._runners = runners
        self._profile = profile
        self._drain_seconds = drain_seconds
        self._clock = clock or DatabaseClock()
        self._monotonic = monotonic
        self._leave_process = leave_process
        self._wheel = Wheel(self._clock, self._due)
        self._reporter = Reporter(broker, self._answered)
        self._ready: list[tuple[float, int, float, Claim]] = []
        self._running: dict[ClaimKey, _Running] = {}
        self._reporting: set[ClaimKey] = set()
        self._occupied = 0  # runs that have started and whose report is not answered
        self._refilling = False
        self._wanted = asyncio.Event()
        self._claiming = asyncio.Lock()
        self._drained = asyncio.Event()
        self._draining = False
        self._cut_off = False
        self._beaten_at = float("-inf")
        self._mean_seconds: float | None = None
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
        )
        tasks = [asyncio.create_task(_keep_going(loop), name=loop.__qualname__) for loop in loops]
        drained = asyncio.create_task(self._drained.wait(), name="drained")
        await drained
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def drain(self) -> None:
        """Claims nothing more, hands back what has not started, waits for the rest, and leaves."""
        if self._draining:
            return
        self._draining = True
        _log.info("draining", running=len(self._running))
        async with self._claiming:
            self._release(self._take_all_waiting())
        try:
            await asyncio.wait_for(self._until_stopped(), self._drain_seconds)
        except TimeoutError:
            _log.warning("stopping runs that did not end in time", running=len(self._running))
            for running in list(self._running.values()):
                running.stop(Outcome.interrupted, within=self._broker.lease_seconds)
        await self._leave_in_good_order()
        self._drained.set()

    async def _leave_in_good_order(self) -> None:
        """What can't be stopped or reported within a lease is left to the reaper."""
        try:
            await asyncio.wait_for(self._until_stopped(), self._broker.lease_seconds * 2)
            await asyncio.wait_for(self._reporter.wait_idle(), self._broker.lease_seconds)
            await asyncio.wait_for(self._reconcile(), self._broker.lease_seconds)
            await asyncio.wait_for(self._broker.leave(), self._broker.lease_seconds)
        except (TimeoutError, DatabaseUnavailableError):
            _log.error("left without a last word; the reaper will take over", running=len(self._running))

    async def _until_stopped(self) -> None:
        while tasks := [running.task for running in self._running.values() if running.task]:
            await asyncio.wait(tasks)

    # Claiming

    async def _claim_loop(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
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
            self._wheel.add(claims)

    def _room(self) -> int:
        held = self._occupied + len(self._ready) + len(self._wheel)
        return self._profile.slots + self._prefetch() - held

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
            held = frozenset(
                {(claim.run_id, claim.number) for _, _, _, claim in self._ready}
                | self._wheel.keys()
                | self._running.keys()
                | self._reporting
            )
            try:
                await self._broker.reconcile(held)
            except DatabaseUnavailableError as error:
                _log.debug("could not reconcile", error=str(error))

    # Starting

    def _due(self, claims: list[Claim]) -> None:
        now = self._monotonic()
        for claim in claims:
            heapq.heappush(self._ready, (claim.rank, claim.number, now, claim))
        self._start_ready()

    def _start_ready(self) -> None:
        slots, running, ready = self._profile.slots, self._running, self._ready
        most = slots + self._prefetch()
        # A process that was paused may wake up here, before anything else has noticed that its lease is over.
        while ready and len(running) < slots and self._occupied < most and self._silence() < CUT_OFF:
            self._start(heapq.heappop(ready)[3])

    def _start(self, claim: Claim) -> None:
        running = _Running(claim, self._clock.now(), self._monotonic())
        self._running[claim.run_id, claim.number] = running
        self._occupied += 1
        running.task = asyncio.get_running_loop().create_task(self._execute(running))

    async def _execute(self, running: _Running) -> None:
        claim = running.claim
        result = error = trace = None
        outcome = Outcome.success
        running.begun = True
        try:
            if running.stop_as:
                raise asyncio.CancelledError  # noqa: TRY301 - asked to stop before the first step
            payload = _decode_payload(claim)
            value = await self._runners[claim.task].run(claim.task, payload, running.context)
            if running.stop_as and running.context.noticed:
                raise asyncio.CancelledError  # noqa: TRY301 - it saw the request and stopped
            result = _encode_result(value)
        except GeneratorExit:
            raise
        except BaseException as problem:  # noqa: BLE001 - whatever a task raises, SystemExit included, is its outcome
            outcome = running.stop_as or (Outcome.final if isinstance(problem, Final) else Outcome.failed)
            error, trace = _describe(problem)
            if running.stop_as and isinstance(problem, asyncio.CancelledError):
                error, trace = _STOP_WORDS[outcome], None
        self._note_length(self._monotonic() - running.began)
        report = Report(claim, outcome, running.started, self._clock.now(), result, error, trace)
        del self._running[report.key]
        self._report(report)
        if self._ready and not self._refilling:
            self._refilling = True
            asyncio.get_running_loop().call_soon(self._refill)

    def _refill(self) -> None:
        """Once for all the runs that ended in this turn of the loop."""
        self._refilling = False
        self._start_ready()

    def _report(self, report: Report) -> None:
        self._reporting.add(report.key)
        self._reporter.add(report)

    def _answered(self, reports: list[Report]) -> None:
        for report in reports:
            self._reporting.discard(report.key)
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
            await asyncio.sleep(self._broker.lease_seconds / BEATS_PER_LEASE)
            await self._beat()

    async def _upkeep_loop(self) -> None:
        """In the rhythm of the beats: what has started is written down, what is hoarded given back."""
        rounds = 0
        while True:
            await asyncio.sleep(self._broker.lease_seconds / BEATS_PER_LEASE)
            await self._write_notes()
            self._give_back_hoarded()
            rounds += 1
            if rounds % RECONCILE_EVERY_BEATS == 0 and not self._draining:
                await self._reconcile()

    async def _beat(self) -> None:
        sent = self._monotonic()
        try:
            moment = await self._broker.beat(busy=self._occupied, fenced=self._reporter.fenced, draining=self._draining)
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
            silent = self._silence()
            if silent < CUT_OFF:
                continue
            if not self._cut_off:
                _log.warning("no heartbeat for most of the lease; stopping all runs", running=len(self._running))
                self._cut_off = True
                self._stop_everything()
            elif silent > EXIT and self._running:
                _log.error("runs did not stop in time; leaving the process", running=len(self._running))
                self._leave_process(EXIT_CODE_CUT_OFF)

    def _silence(self) -> float:
        """For how much of the lease no beat was answered."""
        return (self._monotonic() - self._beaten_at) / self._broker.lease_seconds

    def _stop_everything(self) -> None:
        self._release(self._take_all_waiting())
        for running in list(self._running.values()):
            running.stop(Outcome.cut_off, within=self._broker.lease_seconds * (EXIT - CUT_OFF) / 2)

    def _give_back_hoarded(self) -> None:
        """Due, but no slot came free: somebody else may have one."""
        since = self._monotonic() - HOARD_SECONDS
        overdue = [entry for entry in self._ready if entry[2] < since]
        if overdue:
            self._ready = [entry for entry in self._ready if entry[2] >= since]
            heapq.heapify(self._ready)
            self._release([claim for _, _, _, claim in overdue])

    async def _write_notes(self) -> None:
        told = []
        notes = []
        for running in self._running.values():
            progress = running.context.take_progress()
            if progress or not running.noted:
                told.append(running)
                notes.append(Note(running.claim, running.started, *(progress or (None, None))))
        if not notes:
            return
        try:
            await self._broker.update(notes)
        except DatabaseUnavailableError as error:
            _log.debug("progress not written", error=str(error))
            for running in told:
                running.context.keep_progress()
            return
        for running in told:
            running.noted = True

    # Being told

    async def _signal_loop(self) -> None:
        async for signal in self._broker.signals():
            self._told(signal)

    def _told(self, signal: Signal) -> None:
        if signal.key is None:
            self._wanted.set()
            return
        waiting = self._take_waiting(signal.key)
        if waiting:
            outcome = Outcome.cancelled if signal.kind is SignalKind.cancel else Outcome.released
            self._report(Report(waiting, outcome, None, self._clock.now()))
        elif signal.kind is SignalKind.cancel and signal.key in self._running:
            self._running[signal.key].stop(Outcome.cancelled)

    def _take_waiting(self, key: ClaimKey) -> Claim | None:
        if claim := self._wheel.remove(key):
            return claim
        for entry in self._ready:
            if (entry[3].run_id, entry[3].number) == key:
                self._ready.remove(entry)
                heapq.heapify(self._ready)
                return entry[3]
        return None

    def _take_all_waiting(self) -> list[Claim]:
        waiting = [*self._wheel.clear(), *(claim for _, _, _, claim in self._ready)]
        self._ready.clear()
        return waiting


_STOP_WORDS = {
    Outcome.cancelled: "cancelled on request",
    Outcome.interrupted: "stopped: the worker shut down",
    Outcome.cut_off: "stopped: the worker lost the database",
}


def _decode_payload(claim: Claim) -> Any:
    if claim.payload is None:
        if claim.payload_id is not None:
            raise LookupError("the run's payload is gone from the database")
        return None
    return msgspec.json.decode(claim.payload)


def _encode_result(value: Any) -> str | None:
    if value is None:
        return None
    encoded = msgspec.json.encode(value)
    if len(encoded) > RESULT_LIMIT_BYTES:
        raise Final(f"the result is too large: {len(encoded)} bytes, at most {RESULT_LIMIT_BYTES} are kept")
    return encoded.decode()


def _is_ours(file: str) -> bool:
    return Path(file).is_relative_to(Path(__file__).parent)


def _describe(problem: BaseException) -> tuple[str, str]:
    try:
        words = str(problem) or "no message"
        frames = problem.__traceback__
        while frames and frames.tb_next and _is_ours(frames.tb_frame.f_code.co_filename):
            frames = frames.tb_next  # how the worker came to call it is nobody's concern
        trace = "".join(traceback.format_exception(type(problem), problem, frames))
    except Exception:  # noqa: BLE001 - an error that can't even be told is told as that
        words, trace = "an error whose text can't be had", ""
    error = words if isinstance(problem, Final) else f"{type(problem).__name__}: {words}"
    return clean_text(error)[:ERROR_LIMIT], clean_text(trace)[-ERROR_LIMIT:]
