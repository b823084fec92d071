"""Schedulers and workers inside a test's own process, on the real database."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from uuid import UUID

from rota.broker.postgres import PostgresBroker
from rota.domain.fleet import WorkerProfile
from rota.domain.run import Claim, Outcome, Report
from rota.scheduler.scheduler import Scheduler
from rota.service import ServiceGroup
from rota.store.claim import Claims
from rota.store.reap import LostWorkers
from rota.store.report import Reports
from rota.worker.runners.examples import EXAMPLES
from rota.worker.runners.function import FunctionRunner
from rota.worker.worker import Worker
from support import GUARD_SECONDS, eventually, job


class Engine:
    """Everything but the processes. Services of the scheduler can be ticked by hand."""

    def __init__(self, database: Any, database_url: str, api: Any) -> None:
        self.database = database
        self.url = database_url
        self.api = api
        self.claims = Claims(database)
        self.reports = Reports(database)
        self.lost_workers = LostWorkers(database)

    @property
    def blobs(self) -> Any:
        return self.api.services.blobs

    def scheduler(self, *, lease_seconds: float = 3.0) -> Scheduler:
        return Scheduler(
            database=self.database,
            listen_url=self.url,
            lease_seconds=lease_seconds,
            blobs=self.blobs,
        )

    async def leading(self) -> Scheduler:
        """A scheduler that owns all shards and does nothing unless ticked."""
        # Nothing renews its leases, however long a busy machine takes for the test.
        scheduler = self.scheduler(lease_seconds=10 * GUARD_SECONDS)
        await scheduler.leases.tick()
        return scheduler

    def broker(self, *, lease_seconds: float = 5.0, database: Any = None) -> PostgresBroker:
        database = database or self.database
        return PostgresBroker(database=database, listen_url=self.url, lease_seconds=lease_seconds)

    def worker(
        self,
        tasks: dict[str, Callable[..., Any]] | None = None,
        *,
        slots: int = 10,
        broker: Any = None,
        pools: tuple[str, ...] = ("default",),
        namespaces: tuple[str, ...] = ("default",),
        runners: dict[str, Any] | None = None,
        **options: Any,
    ) -> Worker:
        functions = FunctionRunner({**EXAMPLES, **(tasks or {})}, threads=4)
        known = dict.fromkeys(functions.tasks, functions) | (runners or {})
        profile = WorkerProfile("test", os.getpid(), namespaces, pools, tuple(known), slots)
        return Worker(
            broker=broker or self.broker(),
            runners=known,
            profile=profile,
            **{"drain_seconds": 5.0, "leave_process": _refuse_to_leave} | options,
        )

    @asynccontextmanager
    async def running(self, *parts: Any):
        """Runs schedulers and workers in the background; workers drain at the end."""
        async with AsyncExitStack() as stack:
            for part in parts:
                await stack.enter_async_context(_in_background(part))
            yield

    async def submit(self, **fields: Any) -> str:
        """Submits a one-shot; returns its run id (hex)."""
        answer = await self.api.post("/v1/jobs", json=job(**fields))
        assert answer.status_code == 201, answer.text
        return answer.json()["runId"]

    async def recurring(self, **fields: Any) -> str:
        """Submits a recurring job; returns its id."""
        answer = await self.api.post("/v1/jobs", json=job(**fields))
        assert answer.status_code == 201, answer.text
        return answer.json()["jobId"]

    async def run(self, run_id: str) -> dict[str, Any]:
        return (await self.api.get(f"/v1/runs/{run_id}")).json()

    async def until(self, run_id: str, *statuses: str, within: float = 30) -> dict[str, Any]:
        async def there() -> Any:
            run = await self.run(run_id)
            return run if run["status"] in statuses else None

        return await eventually(there, within=within)

    async def join(
        self,
        broker: Any,
        *tasks: str,
        slots: int = 10,
        pools: tuple[str, ...] = ("default",),
        application: Any = None,
    ) -> UUID:
        """Registers a worker that exists only as its broker: claims and reports are made by hand."""
        known = tasks or ("rota.echo",)
        return await broker.join(
            WorkerProfile("test", os.getpid(), ("default",), pools, known, slots, application=application)
        )


def plain(identifier: str) -> UUID:
    """The uuid behind job_… or run_…"""
    return UUID(identifier[4:])


def report(claim: Claim, outcome: Outcome = Outcome.success, **fields: Any) -> Report:
    """How an attempt ended, made by hand."""
    now = time.time()
    started = None if outcome is Outcome.released else now
    return Report(claim, outcome, started, now, **fields)


def _refuse_to_leave(code: int) -> None:
    raise AssertionError(f"the worker wanted to leave the process with {code}")


@asynccontextmanager
async def _in_background(part: Any):
    if not isinstance(part, Worker):
        async with ServiceGroup(part.services):
            yield
        return
    task = asyncio.create_task(part.run())
    try:
        yield
    finally:
        await part.drain()
        await asyncio.gather(task, return_exceptions=True)
