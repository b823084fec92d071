"""A worker: claims runs, starts each one on time, and reports.

Authority. A worker runs only what it holds claims for. It keeps one lease by beating (heartbeat.py); its claims
(slots.py) are valid as long as the lease. Everything written about a run goes through the broker under the claim's
number, so a worker can't change a run that was given to another, whatever it believes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from rota.blobs import Blobs
from rota.broker.protocol import Broker, SignalKind
from rota.clock import DatabaseClock, uptime
from rota.domain.fleet import WorkerProfile
from rota.domain.run import Claim, Outcome, Report
from rota.gateway.protocol import JobGateway
from rota.service import AGAIN_SECONDS, Service, ServiceGroup
from rota.telemetry import get_logger
from rota.tracing import Tracing
from rota.worker.claimer import Claimer
from rota.worker.executor import GRACE_SECONDS, LOG_LIMIT_BYTES, Executor
from rota.worker.health import WorkerHealth
from rota.worker.heartbeat import Heartbeat, LeaseWatch, Upkeep
from rota.worker.lease import CUT_OFF, EXIT, Lease
from rota.worker.run_log import LogWriter
from rota.worker.runners import Runner
from rota.worker.slots import Slots
from rota.worker.watchdog import Watchdog

# The claimer makes a round every second, but a statement may take 30 s: stalled only after more than two statements'
# time.
_STALLED_SECONDS = 75.0
_MOST_ABANDONED = 16
EXIT_CODE_CUT_OFF = 70
_log = get_logger("worker")


class SignalReader(Service):
    """Passes on the broker's signals."""

    interval_seconds = AGAIN_SECONDS
    full_round = 0
    wait_seconds = 10.0

    def __init__(self, slots: Slots, claimer: Claimer, upkeep: Upkeep) -> None:
        super().__init__()
        self._slots = slots
        self._claimer = claimer
        self._upkeep = upkeep

    async def tick(self) -> int:
        """Waits for signals once; returns how many came."""
        signals = await self._slots.broker.signals(self.wait_seconds)
        for signal in signals:
            if signal.kind is SignalKind.doubt:
                self._upkeep.doubt()
            if signal.claim is None:
                self._claimer.wake()
            else:
                self._slots.obey(signal)
        return len(signals)


class Worker:
    """Wires the services of one worker process. `run()` ends after `drain()`."""

    def __init__(
        self,
        *,
        broker: Broker,
        runners: Mapping[str, Runner],
        profile: WorkerProfile,
        drain_seconds: float = 30.0,
        grace_seconds: float = GRACE_SECONDS,
        stalled_seconds: float = _STALLED_SECONDS,
        log_limit_bytes: int = LOG_LIMIT_BYTES,
        most_abandoned: int = _MOST_ABANDONED,
        blobs: Blobs | None = None,
        secrets: Mapping[str, str] | None = None,
        hidden: Iterable[str] = (),
        on_lease: Callable[[float], None] = lambda _until: None,
        on_failure: Callable[[Report], None] | None = None,
        gateways: Callable[[Claim], JobGateway] | None = None,
        tracing: Tracing | None = None,
        beside: Sequence[Service] = (),
        clock: DatabaseClock | None = None,
        monotonic: Callable[[], float] = uptime,
        leave_process: Callable[[int], Any] = os._exit,
    ) -> None:
        """`beside`: other services that run as long as the worker does."""
        clock = clock or DatabaseClock()
        self._broker = broker
        self._drain_seconds = drain_seconds
        self._most_abandoned = most_abandoned
        self._on_failure = on_failure
        self._drained = asyncio.Event()
        self._restarting: asyncio.Task[None] | None = None
        self._silent_since: float | None = None  # used only by `_must_leave`, in the watchdog's thread
        self._claimer: Claimer
        self._upkeep: Upkeep
        self.restart_wanted = False
        self.lease = Lease(broker.lease_seconds, monotonic)
        logs = LogWriter(broker)
        self.slots = Slots(
            profile.slots,
            broker=broker,
            lease=self.lease,
            clock=clock,
            logs=logs,
            make_executor=partial(
                Executor,
                runners=runners,
                lease=self.lease,
                clock=clock,
                logs=logs,
                on_change=lambda context: self._upkeep.has_changed(context),  # noqa: PLW0108 - made below
                gateways=gateways,
                tracing=tracing,
                blobs=blobs,
                secrets=secrets,
                hidden=hidden,
                grace_seconds=grace_seconds,
                log_limit_bytes=log_limit_bytes,
            ),
            on_busy=self._watch_closely,
            on_room=lambda: self._claimer.wake(),  # noqa: PLW0108 - made below
            on_ended=self._ended,
            in_turns=len(profile.namespaces) > 1,
        )
        self._claimer = Claimer(self.slots, stalled_seconds=stalled_seconds)
        self._upkeep = Upkeep(self.slots, self._claimer)
        self.heartbeat = Heartbeat(
            self.slots, self._claimer, profile=profile, ailing=lambda: self.health().detail, on_lease=on_lease
        )
        self._watchdog = Watchdog(
            must_leave=self._must_leave,
            leave=lambda: leave_process(EXIT_CODE_CUT_OFF),
            is_idle=lambda: self.slots.is_idle,
            monotonic=monotonic,
        )
        self._lease_watch = LeaseWatch(self.slots, self._claimer, restart=self._restart)
        self._group = ServiceGroup(
            (
                *beside,
                *broker.services,
                self._watchdog,
                self.heartbeat,
                self._lease_watch,
                self._claimer,
                SignalReader(self.slots, self._claimer, self._upkeep),
                self._upkeep,
                self.slots.reporter,
                logs,
            )
        )

    @property
    def services(self) -> tuple[Service, ...]:
        return self._group.services

    @property
    def id(self) -> UUID | None:
        """The id under which it claims; None while it has not joined."""
        return self.lease.worker_id

    @property
    def has_abandoned_runs(self) -> bool:
        """Whether runs that were reported as stopped may still be running."""
        return self.slots.executor.abandoned > 0

    async def run(self) -> None:
        async with self._group:
            await self._drained.wait()

    def health(self) -> WorkerHealth:
        """The worker's state. Can be called from any thread."""
        if blocked := self._watchdog.blocked_for:
            return WorkerHealth(False, "blocked", f"the event loop has been blocked for {blocked:.1f} s")
        if stalled := self._claimer.stalled_for():
            return WorkerHealth(False, "stalled", f"the claim loop has made no progress for {stalled:.0f} s")
        if self.lease.cut_off:
            return WorkerHealth(True, "cut off", "the database is out of reach")
        if abandoned := self.slots.executor.abandoned:
            runs = "1 run" if abandoned == 1 else f"{abandoned} runs"
            return WorkerHealth(True, "ailing", f"{runs} did not stop and may still be running")
        return WorkerHealth(True, "draining" if self.slots.draining else "live", None)

    async def drain(self) -> None:
        """Stops claiming, releases runs that have not started, waits for the others, and leaves."""
        if self.slots.draining:
            return
        self.slots.draining = True
        _log.info("draining", running=len(self.slots.running))
        try:
            await self._claimer.release_waiting()
            await self._stop_runs()
            await self._leave_in_good_order()
        finally:
            self._drained.set()  # the process ends in any case: one that claims nothing and stays helps no one

    async def _stop_runs(self) -> None:
        try:
            await asyncio.wait_for(self._until_stopped(), self._drain_seconds)
        except TimeoutError:
            running = self.slots.running
            _log.warning("stopping runs that did not end in time", running=len(running))
            for attempt in list(running.values()):
                self.slots.executor.stop(attempt, Outcome.interrupted, within=self.lease.seconds)

    async def _leave_in_good_order(self) -> None:
        """Runs that can't be stopped or reported in time are left to the reaper."""
        try:
            await asyncio.wait_for(self._until_stopped(), self.lease.seconds * 2)
            await asyncio.wait_for(self.slots.reporter.wait_idle(), self.lease.seconds)
            await asyncio.wait_for(self._claimer.reconcile(), self.lease.seconds)
            await asyncio.wait_for(self.heartbeat.tick(), self.lease.seconds)  # with the last activity
            await asyncio.wait_for(self._broker.leave(), self.lease.seconds)
        except Exception as error:  # noqa: BLE001 - whatever it is, the process ends
            _log.error(
                "could not leave in good order; the reaper will take over",
                running=len(self.slots.running),
                error=f"{type(error).__name__}: {error}",
            )

    async def _until_stopped(self) -> None:
        while tasks := [attempt.task for attempt in self.slots.running.values() if attempt.task]:
            await asyncio.wait(tasks)

    def _watch_closely(self) -> None:
        """Something runs from now on."""
        self._watchdog.look_closely()
        self._lease_watch.wake()
        self._upkeep.begin()

    def _ended(self, report: Report) -> None:
        if self._on_failure and report.outcome is not Outcome.success:
            self._on_failure(report)
        if self.slots.executor.abandoned >= self._most_abandoned:
            self._restart("too many runs did not stop when asked")

    def _restart(self, why: str) -> None:
        """Drains this worker, to be started again."""
        if self.slots.draining or self.restart_wanted:
            return
        _log.error("the worker restarts itself", why=why)
        self.restart_wanted = True

        async def drain() -> None:
            await self._group.stop(self._claimer)  # it may hold the lock that draining needs
            await self.drain()

        self._restarting = asyncio.create_task(drain(), name="restarting")

    def _must_leave(self) -> bool:
        """Whether to end the process: the worker is cut off and some run did not stop in the time it was given.

        A process that was paused gets that time anew when it wakes.
        """
        now = self.lease.monotonic()
        if self.lease.silence < CUT_OFF:
            self._silent_since = None
            return False
        self._silent_since = self._silent_since or now
        late = now - self._silent_since >= (EXIT - CUT_OFF) * self.lease.seconds
        if not late or not (self.slots.running or self.slots.executor.abandoned):
            return False
        _log.error("runs did not stop in time; leaving the process", running=len(self.slots.running))
        return True
