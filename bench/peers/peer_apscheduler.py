"""APScheduler 4 (a pre-release) on PostgreSQL."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from apscheduler import AsyncScheduler, TaskDefaults
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.eventbrokers.psycopg import PsycopgEventBroker
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from sqlalchemy.ext.asyncio import create_async_engine

from bench.peers import tallies
from bench.peers.peer import SERVER_URL, Due, Peer, Variant, at_once, main, own_worker, setting

IN_FLIGHT = 10
CONCURRENCY = 20


async def noop() -> None:
    """The task that is counted."""
    tallies.count()


async def started(index: int, due: float) -> None:
    """The task that has a due time."""
    tallies.started(index, due)


async def fired(index: int) -> None:
    """The task of a schedule."""
    tallies.fired(index)


class ApschedulerPeer(Peer):
    """Its documented set-up for several processes: SQLAlchemy data store and an event broker on PostgreSQL.

    AsyncpgEventBroker does not work with anyio 4.16, so events go through psycopg and jobs through asyncpg.
    """

    title = "APScheduler 4"
    packages = ("apscheduler", "sqlalchemy", "asyncpg", "psycopg")
    server = "postgres"
    keeps = "nothing (no result expiration time)"
    settings = (
        f"SQLAlchemyDataStore with asyncpg, PsycopgEventBroker, {CONCURRENCY} concurrent jobs, no max_running_jobs, "
        "uvloop; 10 submissions in flight"
    )
    notes: ClassVar = {
        "submit": "has no bulk submission",
        "delayed": "a job for a time is a schedule that fires once",
    }

    def __init__(self) -> None:
        self._scheduler: AsyncScheduler

    def variants(self) -> list[Variant]:
        """One or two processes."""
        return [
            Variant(label=f"{count} x {CONCURRENCY} jobs", processes=count, commands=[own_worker(self)] * count)
            for count in (1, 2)
        ]

    async def prepare(self) -> None:
        """Its tables and tasks."""
        await self.open()
        for name, function in TASKS.items():
            await self._scheduler.configure_task(name, func=function, max_running_jobs=None)

    async def open(self) -> None:
        """Connects."""
        self._scheduler = await _scheduler().__aenter__()

    async def submit(self, count: int) -> None:
        """One by one, some in flight."""
        await at_once((self._scheduler.add_job("noop") for _ in range(count)), IN_FLIGHT)

    async def submit_at(self, dues: Sequence[Due]) -> None:
        """As schedules."""
        await at_once(
            (
                self._scheduler.add_schedule(
                    "started", DateTrigger(datetime.fromtimestamp(due, UTC)), args=(index, due), id=f"at-{index}"
                )
                for index, due in dues
            ),
            IN_FLIGHT,
        )

    async def schedule(self, count: int) -> None:
        """Stored in the database."""
        await at_once(
            (
                self._scheduler.add_schedule("fired", CronTrigger(second="*"), args=(index,), id=f"every-{index}")
                for index in range(count)
            ),
            IN_FLIGHT,
        )

    async def work(self) -> None:
        """A scheduler that also runs jobs."""
        logging.basicConfig(level=logging.WARNING)
        async with _scheduler() as scheduler:
            for name, function in TASKS.items():
                await scheduler.configure_task(name, func=function, max_running_jobs=None)
            await scheduler.run_until_stopped()


TASKS: dict[str, Callable[..., Any]] = {"noop": noop, "started": started, "fired": fired}


def _scheduler() -> AsyncScheduler:
    engine = create_async_engine(
        setting(SERVER_URL).replace("postgresql://", "postgresql+asyncpg://"), pool_size=IN_FLIGHT, max_overflow=10
    )
    return AsyncScheduler(
        SQLAlchemyDataStore(engine),
        PsycopgEventBroker(setting(SERVER_URL)),
        max_concurrent_jobs=CONCURRENCY,
        task_defaults=TaskDefaults(max_running_jobs=None),
    )


if __name__ == "__main__":
    main(ApschedulerPeer())
