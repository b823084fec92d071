"""A worker without loops: it claims due runs when called, and runs and reports them like a real worker."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from rota.blobs import Blobs
from rota.broker.postgres import PostgresBroker
from rota.clock import DatabaseClock
from rota.domain.fleet import WorkerProfile
from rota.domain.run import Claim, Outcome, Report
from rota.gateway.protocol import JobGateway
from rota.sdk.app import App
from rota.sdk.declared_schedules import describe_app
from rota.service import ServiceGroup
from rota.settings import Settings
from rota.store.claim import Claims
from rota.store.postgres.database import Database
from rota.store.postgres.wakeups import WakeUps
from rota.store.report.task_transactions import TaskTransactions
from rota.worker.executor import Attempt, Executor
from rota.worker.lease import Lease
from rota.worker.reporter import Reporter
from rota.worker.run_log import LogWriter
from rota.worker.runners.registry import Runners

SLOTS = 100
_ALL = 1_000_000  # runs; more than a test has
LEASE_SECONDS = 3600.0
_STOP_SECONDS = 1.0
_TURN_SECONDS = 1.0  # one that takes longer may wait for another in a way that can't be seen


class RecordedWakeUps(WakeUps):
    """Remembers that there was a wake-up; the engine then checks everything."""

    def __init__(self) -> None:
        self.some = asyncio.Event()
        self.signals = 0  # how often workers were asked something

    def __call__(self, **wanted: Any) -> None:
        """There may be work."""
        if any(wanted.values()):
            self.some.set()
        if wanted.get("workers") or wanted.get("every_worker"):
            self.signals += 1


class Turns:
    """Runs take turns, so that what they do comes in the same order each time: the next one starts when the one before
    has ended, waits for another run, or takes long. Knows the order in which claims were started."""

    def __init__(self) -> None:
        self._started: dict[int, int] = {}
        self._passed_on = asyncio.Event()

    def __len__(self) -> int:
        return len(self._started)

    def get(self, claim: int | None, default: int) -> int:
        """Which turn this claim had."""
        return default if claim is None else self._started.get(claim, default)

    def pass_on(self) -> None:
        """A run waits for another one."""
        self._passed_on.set()

    async def take(self, claim: int, start: Callable[[], asyncio.Task[None] | None]) -> None:
        """Starts a run; returns when it is the next one's turn."""
        self._started[claim] = len(self._started)
        self._passed_on.clear()
        task = start()
        if task is None:
            return
        waits = asyncio.ensure_future(self._passed_on.wait())
        try:
            await asyncio.wait({task, waits}, timeout=_TURN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waits.cancel()


class AppWorker:
    """Serves one application in every pool where its runs wait."""

    def __init__(
        self,
        app: App,
        *,
        database: Database,
        database_url: str,
        wake_ups: RecordedWakeUps,
        clock: DatabaseClock,
        blobs: Blobs,
        settings: Settings,
        gateways: Callable[[Claim], JobGateway],
        turns: Turns,
    ) -> None:
        self.app = app
        self._turns = turns
        self.reports: list[Report] = []  # of all its runs
        self._wake_ups = wake_ups
        self._stack = AsyncExitStack()
        self._transactions = TaskTransactions(
            database_url, size=settings.transactions, pooled=database.pooled, version=database.version
        )
        self._runners = Runners(settings, app, self._transactions)
        self._claims = Claims(database)
        self._broker = PostgresBroker(
            database=database,
            listen_url=None,
            lease_seconds=LEASE_SECONDS,
            lookahead=timedelta(0),
            namespace_share=1.0,
        )
        self._logs = LogWriter(self._broker)
        self._reporter = Reporter(self._broker, self._logs, self._answered)
        self._executor = Executor(
            runners=self._runners.by_task,
            lease=_endless(),
            clock=clock,
            logs=self._logs,
            on_end=self._ended,
            gateways=gateways,
            blobs=blobs,
            grace_seconds=settings.grace_seconds,
        )
        self._ids: list[UUID] = []  # its worker ids; the last is in use
        self._under_way: set[int] = set()
        self._asked: dict[int, bool] = {}  # claims that are to be cancelled, or given back if not started
        self._signals_seen = 0
        self._served: set[tuple[str, str]] = set()

    @property
    def tasks(self) -> list[str]:
        """The tasks it can run."""
        return list(self._runners.by_task)

    @property
    def running(self) -> list[str]:
        """The tasks of unfinished runs."""
        return [attempt.claim.task for attempt in self._executor.running.values()]

    @property
    def is_busy(self) -> bool:
        """Whether a run has not ended or is not recorded yet."""
        return bool(self._under_way)

    async def open(self) -> None:
        """Opens the application's resources and registers the worker."""
        await self._stack.enter_async_context(self.app.living())
        self._stack.push_async_callback(self._transactions.close)
        self._stack.push_async_callback(self._runners.close)
        await self._stack.enter_async_context(ServiceGroup([self._reporter]))
        self._stack.push_async_callback(self._stop)
        await self.serve({(self.app.caller.namespace, "default")})

    async def close(self) -> None:
        """Stops running runs."""
        await self._stack.aclose()

    async def serve(self, more: set[tuple[str, str]]) -> None:
        """Also serves these (namespace, pool) pairs."""
        if more <= self._served:
            return
        self._served |= more
        namespaces = tuple(sorted({namespace for namespace, _ in self._served}))
        pools = tuple(sorted({pool for _, pool in self._served}))
        application = describe_app(self.app, [self.app.caller.namespace]) if self.app.declarations.are_any else None
        profile = WorkerProfile(
            socket.gethostname(), os.getpid(), namespaces, pools, tuple(self.tasks), SLOTS, application=application
        )
        self._ids.append(await self._broker.join(profile))

    async def claim_due(self) -> list[Claim]:
        """Claims all due runs: of a part of them, the database would choose which."""
        claims = await self._broker.claim(_ALL)
        self._under_way |= {claim.number for claim in claims}
        return claims

    async def start(self, claim: Claim) -> None:
        """Starts a claimed run; returns when it is the next one's turn."""
        if self._signals_seen != self._wake_ups.signals:  # a run that had its turn before may have cancelled this one
            await self._read_signals()
        await self._turns.take(claim.number, partial(self._start, claim))

    def _start(self, claim: Claim) -> asyncio.Task[None] | None:
        self._executor.start(claim)
        attempt = self._executor.running[claim.number]
        if claim.number in self._asked:
            cancel = self._asked[claim.number]
            self._executor.stop(attempt, Outcome.cancelled if cancel else Outcome.interrupted)
        return attempt.task

    async def stop_cancelled(self) -> None:
        """Stops cancelled runs."""
        if not self._executor.running:
            return
        await self._read_signals()
        for number, cancel in self._asked.items():
            if cancel and (attempt := self._executor.running.get(number)):
                self._executor.stop(attempt, Outcome.cancelled)

    async def _read_signals(self) -> None:
        self._signals_seen = self._wake_ups.signals
        self._asked = {}
        for worker_id in self._ids:
            asked, _ = await self._claims.signals(worker_id)
            self._asked |= dict(asked)

    def _ended(self, _attempt: Attempt, report: Report) -> None:
        self.reports.append(report)
        self._reporter.add(report)

    def _answered(self, reports: list[Report]) -> None:
        self._under_way -= {report.claim.number for report in reports}
        self._wake_ups.some.set()

    async def _stop(self) -> None:
        attempts = list(self._executor.running.values())
        for attempt in attempts:
            self._executor.stop(attempt, Outcome.interrupted, within=_STOP_SECONDS)
        if tasks := [attempt.task for attempt in attempts if attempt.task]:
            await asyncio.wait(tasks, timeout=_STOP_SECONDS)


def _endless() -> Lease:
    """There is no reaper, so the lease never ends."""
    lease = Lease(math.inf, time.monotonic)
    lease.beaten_at = 0.0
    return lease
