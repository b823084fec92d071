"""PGQueuer on PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job, Schedule
from pgqueuer.queries import Queries

from bench.peers import tallies
from bench.peers.peer import (
    SERVER_URL,
    Due,
    Peer,
    Variant,
    at_once,
    batch_sizes,
    in_batches,
    main,
    own_worker,
    schedules_wanted,
    setting,
)

DEQUEUES = (100, 500)
MANAGERS = 2
IN_FLIGHT = 4
DEQUEUE = "BENCH_PGQUEUER_BATCH"


class PgqueuerPeer(Peer):
    """Several managers in a process, each with its connection, as in the library's own benchmark."""

    title = "PGQueuer"
    packages = ("pgqueuer", "asyncpg")
    server = "postgres"
    bulk = True
    keeps = "log rows (one per change of state)"
    settings = (
        f"asyncpg, {MANAGERS} queue managers per process, batch size {' or '.join(map(str, DEQUEUES))} (the faster), "
        "durable tables, its autovacuum settings, uvloop; enqueue in batches of 1,000 over a pool, "
        f"{IN_FLIGHT} in flight"
    )
    notes: ClassVar = {
        "delayed": "its loop looks again after 100 ms at the earliest",
        "schedules": "schedules run inside the worker, which waits a second more than until the next one",
    }

    def __init__(self) -> None:
        self._queries: Queries

    def variants(self) -> list[Variant]:
        """One or two processes."""
        return [
            Variant(
                label=f"{count} x {MANAGERS} managers, batch {size}",
                processes=count,
                commands=[["env", f"{DEQUEUE}={size}", *own_worker(self)]] * count,
            )
            for count in (1, 2)
            for size in DEQUEUES
        ]

    async def prepare(self) -> None:
        """Its schema, with the autovacuum settings it recommends."""
        await self.open()
        await self._queries.install()
        await self._queries.optimize_autovacuum()

    async def open(self) -> None:
        """A pool, which its guide recommends for producers."""
        pool = await asyncpg.create_pool(setting(SERVER_URL), min_size=IN_FLIGHT, max_size=IN_FLIGHT)
        self._queries = Queries(AsyncpgPoolDriver(pool))

    async def submit(self, count: int) -> None:
        """In batches."""
        enqueue = self._queries.enqueue
        await at_once((enqueue(["noop"] * size, [None] * size, [0] * size) for size in batch_sizes(count)), IN_FLIGHT)

    async def submit_at(self, dues: Sequence[Due]) -> None:
        """In batches; the library takes delays, not times."""
        for batch in in_batches(dues):
            payloads: list[bytes | None] = [json.dumps(pair).encode() for pair in batch]
            now = time.time()
            delays: list[timedelta | None] = [timedelta(seconds=due - now) for _, due in batch]
            await self._queries.enqueue(["started"] * len(batch), payloads, [0] * len(batch), delays)

    async def work(self) -> None:
        """The managers; one of them has the schedules."""
        managers = [await self.manager(schedules_wanted() if number == 0 else 0) for number in range(MANAGERS)]
        await asyncio.gather(*(manager.run(batch_size=int(os.environ[DEQUEUE])) for manager in managers))

    async def manager(self, schedules: int) -> PgQueuer:
        """One, with a connection of its own and everything that it runs."""
        manager = PgQueuer(AsyncpgDriver(await asyncpg.connect(setting(SERVER_URL))))
        manager.entrypoint("noop")(_noop)
        manager.entrypoint("started")(_started)
        for number in range(schedules):
            manager.schedule(f"fired-{number}", "* * * * * *")(_each_second(number))
        return manager


async def _noop(_job: Job) -> None:
    tallies.count()


async def _started(job: Job) -> None:
    tallies.started(*json.loads(job.payload or b"[]"))


def _each_second(index: int) -> Any:
    async def fired(_schedule: Schedule) -> None:
        tallies.fired(index)

    return fired


if __name__ == "__main__":
    main(PgqueuerPeer())
