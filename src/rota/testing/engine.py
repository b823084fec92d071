"""The engine under a test: the real services of the scheduler, ticked by hand, and workers without loops.

The clock stops while there is work, and jumps from one due time to the next. So everything happens in order and on
time, however fast the test is: a schedule that fires every minute fires 1440 times a day, never late.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rota.access.limits.tenant_limits import default_limits
from rota.blobs import Blobs
from rota.clock import DatabaseClock
from rota.domain.ids import parse_run
from rota.domain.run import Claim, Report
from rota.errors import RotaError, SetupError
from rota.gateway.local import LocalGateway
from rota.gateway.protocol import JobGateway, RunSnapshot
from rota.scheduler.scheduler import Scheduler
from rota.sdk.app import App
from rota.service import Service, ServiceGroup
from rota.settings import Settings
from rota.store.lease import count_shards
from rota.store.postgres.database import Database
from rota.store.postgres.statements import load
from rota.task.output import RunHandler, RunStream, current
from rota.testing.databases import SEARCH_PATH
from rota.testing.kit_gateway import RunKitGateway
from rota.testing.kit_worker import AppWorker, RecordedWakeUps, Turns

_CONNECTIONS = 8
LEASE_SECONDS = 24 * 3600.0  # there is no other scheduler
_MOST_RUNS = 100_000
PATIENCE_SECONDS = 60.0


class Moments(NamedTuple):
    """What is due, and when the next runs are."""

    is_due: bool
    next_at: datetime | None
    retry_at: datetime | None


class Engine:
    """Scheduler and workers without loops, on one database."""

    def __init__(
        self, *, database: Database, database_url: str, settings: Settings, shards: int, clock: StandingClock
    ) -> None:
        self.clock = clock
        self.patience_seconds = PATIENCE_SECONDS
        self.most_runs = _MOST_RUNS
        self.workers: list[AppWorker] = []
        self.turns = Turns()
        self.blobs = Blobs.open(settings.blobs)
        self._database = database
        self._database_url = database_url
        self._settings = settings
        self._wake_ups = database.wake = RecordedWakeUps()
        self.gateway = LocalGateway(
            database=database,
            shards=shards,
            payload_limit_bytes=settings.payload_limit_bytes,
            blobs=self.blobs,
            now=clock.now_datetime,
            defaults=default_limits(settings),
        )
        self._scheduler = Scheduler(
            database=database, listen_url=None, lease_seconds=LEASE_SECONDS, blobs=self.blobs, clock=clock
        )
        # It looks for what is due once in an interval of real time, which does not pass here.
        self._scheduler.conductor.interval_seconds = 0.0
        self._busy = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls, database_url: str, moment: datetime) -> AsyncIterator[Engine]:
        """An engine on a database from `Databases`; raises SetupError for another."""
        async with AsyncExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-kit-")))
            database = await Database.connect(
                database_url, size=_CONNECTIONS, name="rota-test", search_path=SEARCH_PATH
            )
            stack.push_async_callback(database.close)
            shards = await count_shards(database)
            engine = cls(
                database=database,
                database_url=database_url,
                settings=Settings(home=home),
                shards=shards,
                clock=StandingClock(moment),
            )
            if not (await engine.fetch("has_clock"))[0][0]:
                raise SetupError(
                    "This database was not made by rota.testing, so its clock can't be moved: use the fixture "
                    "rota_database_url, or `with rota.testing.databases() as some, some.fresh() as url:`."
                )
            await engine.set_clock(moment)
            stack.push_async_callback(engine._close)
            await stack.enter_async_context(ServiceGroup(engine.gateway.services))
            await engine._scheduler.leases.tick()
            yield engine

    @property
    def reports(self) -> list[Report]:
        """The reports of all ended attempts."""
        return [report for worker in self.workers for report in worker.reports]

    async def use(self, app: App) -> None:
        """Serves an application from now on."""
        taken = {name for worker in self.workers for name in worker.app.tasks} & set(app.tasks)
        if taken:
            raise SetupError(f"Two applications have a task called {min(taken)!r}: a test can serve one of them.")
        worker = AppWorker(
            app,
            database=self._database,
            database_url=self._database_url,
            wake_ups=self._wake_ups,
            clock=self.clock,
            blobs=self.blobs,
            settings=self._settings,
            gateways=self._for_run,
            turns=self.turns,
        )
        self.workers.append(worker)
        await worker.open()

    async def status_ahead(self, run_id: str, found: RunSnapshot) -> RunSnapshot:
        """What was found of a run, with the status that it has by a clock that stands still."""
        if found.status != "queued":
            return found
        rows = await self.fetch("status_ahead", run_id=parse_run(run_id))
        return msgspec.structs.replace(found, status=rows[0]["status"]) if rows else found

    async def set_clock(self, moment: datetime) -> None:
        """Sets the clock and does nothing else."""
        await self.fetch("set_clock", moment=moment)
        self.clock.moment = moment

    async def declare(self) -> None:
        """Makes the schedules and workflows that the applications declare."""
        async with self._busy:
            await self._scheduler.reconciler.catch_up()

    async def settle(self) -> Moments:
        """Does all work that is due now; returns what comes next."""
        async with self._busy:
            return await self._settle()

    async def advance(self, target: datetime) -> None:
        """Moves the clock to `target` and does all work that becomes due on the way."""
        async with self._busy:
            before, steps = self._count, 0
            while (next_at := (await self._settle()).next_at) and next_at <= target:
                steps += 1
                self._check_bound(max(steps, self._count - before))  # unserved schedules fire too
                await self.set_clock(next_at)
            if self.clock.moment < target:
                await self.set_clock(target)

    async def fetch(self, name: str, /, **parameters: Any) -> list[Any]:
        """The rows of one of the kit's statements."""
        statement = load(name, "rota.testing")
        async with self._database.raw() as connection:
            rows: list[Any] = await connection.fetch(statement.text, *statement.bind(parameters))
            return rows

    @property
    def _count(self) -> int:
        return sum(len(worker.reports) for worker in self.workers)

    @property
    def _is_busy(self) -> bool:
        return any(worker.is_busy for worker in self.workers)

    @property
    def _services(self) -> list[Service]:
        """The services that move runs. Leases don't expire, no worker is lost, and nothing needs sweeping."""
        scheduler = self._scheduler
        apart = (
            scheduler.leases,
            scheduler.worker_watch,
            scheduler.reaper,
            scheduler.sweeper,
            scheduler.rezoner,
            scheduler.log_keeper,
        )
        return [service for service in scheduler.services if service not in apart]

    def _for_run(self, claim: Claim) -> JobGateway:
        return RunKitGateway(self.gateway.for_run(claim), self.turns.pass_on, self.status_ahead)

    async def _close(self) -> None:
        for worker in reversed(self.workers):
            await worker.close()

    async def _settle(self) -> Moments:
        before, in_vain = self._count, 0
        with captured_output():
            while True:
                done = await self._round()
                while self._is_busy:
                    await self._until_something_happens()
                    self._check_bound(self._count - before)
                    # A run under way may wait for one it submitted.
                    done += await self._round() if self._is_busy else 0
                moments = await self._moments()
                # One service may have left to another, without counting it, what that had its turn for already.
                in_vain = 0 if done else in_vain + 1
                if in_vain > 1 or not moments.is_due:
                    return moments

    async def _round(self) -> int:
        done = 0
        for service in self._services:
            done += await service.catch_up()
        # Later wake-ups may miss this round.
        self._wake_ups.some.clear()
        due: list[tuple[Claim, AppWorker]] = []
        for worker in self.workers:
            await worker.stop_cancelled()
            pools = {(row["namespace"], row["pool"]) for row in await self.fetch("ready_pools", tasks=worker.tasks)}
            if pools:
                await worker.serve(pools)
                due += [(claim, worker) for claim in await worker.claim_due()]
        for claim, worker in sorted(due, key=lambda one: _turn_of(one[0])):
            await worker.start(claim)
        return done + len(due)

    async def _until_something_happens(self) -> None:
        try:
            await asyncio.wait_for(self._wake_ups.some.wait(), self.patience_seconds)
        except TimeoutError:
            tasks = ", ".join(sorted({task for worker in self.workers for task in worker.running}))
            raise StuckError(
                f"Nothing has happened for {self.patience_seconds:g} s, and {tasks} has not ended. A task can't wait "
                "for time to pass or for a run that is due later: the clock stops while a run is under way. If the "
                "task really takes this long, raise kit.limit(patience_seconds=…)."
            ) from None

    def _check_bound(self, count: int) -> None:
        if count > self.most_runs:
            ran = Counter(report.claim.task for report in self.reports)
            tasks = ", ".join(task for task, _ in ran.most_common(3)) or "tasks that are not served here"
            raise EndlessError(
                f"More than {self.most_runs:,} runs in one call, mostly of {tasks}: does a task submit itself, or is "
                "the time too long for its schedules? (kit.limit(most_runs=…))"
            )

    async def _moments(self) -> Moments:
        tasks = [name for worker in self.workers for name in worker.tasks]
        (row,) = await self.fetch("next_moments", tasks=tasks)
        return Moments(row["is_due"], row["next_at"], row["retry_at"])


def _turn_of(claim: Claim) -> tuple[Any, ...]:
    # Ids of jobs grow in the order of submission; numbers of claims come as the database finds the rows.
    return claim.rank, claim.job_id, claim.run_id


class _Both(RunStream):
    def write(self, text: str) -> int:
        if current.get() is not None:
            self.original.write(text)
        return super().write(text)


@contextmanager
def captured_output() -> Iterator[None]:
    """Meanwhile the output of a run goes to its log."""
    root, handler = logging.getLogger(), RunHandler()
    handler.addFilter(lambda _record: current.get() is not None)
    level, streams = root.level, (sys.stdout, sys.stderr)
    both: tuple[Any, Any] = _Both(sys.stdout, "stdout"), _Both(sys.stderr, "stderr")
    root.addHandler(handler)
    root.setLevel(min(level or logging.INFO, logging.INFO))
    sys.stdout, sys.stderr = both
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        root.setLevel(level)
        root.removeHandler(handler)


class StandingClock(DatabaseClock):
    """The clock of this process: the time that the database's clock was set to."""

    def __init__(self, moment: datetime) -> None:
        super().__init__()
        self.moment = moment

    @property
    def is_set(self) -> bool:
        """Always true."""
        return True

    def observe(self, *, sent: float, received: float, database_time: datetime) -> float:  # noqa: ARG002 - follows no other clock
        """Changes nothing."""
        return 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.moment.timestamp()

    def now_datetime(self) -> datetime:
        """The time as an aware datetime."""
        return self.moment.astimezone(UTC)


class StuckError(RotaError):
    """A run does not end, and nothing else is happening."""


class EndlessError(RotaError):
    """Too many runs: a task probably submits itself."""
