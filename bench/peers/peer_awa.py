"""awa on PostgreSQL."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import ClassVar

from awa import AsyncClient, Job

from bench.peers import tallies
from bench.peers.peer import (
    BATCH,
    SERVER_URL,
    Due,
    Peer,
    Variant,
    at_once,
    in_batches,
    main,
    own_worker,
    schedules_wanted,
    setting,
)

QUEUE = "bench"
CONCURRENCIES = (1000, 4000)
CONCURRENCY = "BENCH_AWA_WORKERS"
CONNECTIONS = 24
IN_FLIGHT = 20


@dataclass
class Noop:
    """The job that is counted."""


@dataclass
class Started:
    """The job that has a due time."""

    index: int
    due: float


@dataclass
class Fired:
    """The job of a schedule."""

    index: int


class AwaPeer(Peer):
    """Queue storage as a fresh installation gets it."""

    title = "awa"
    packages = ("awa-pg",)
    server = "postgres"
    bulk = True
    keeps = "the finished job's row for 24 hours"
    settings = (
        f"queue storage, {' or '.join(map(str, CONCURRENCIES))} workers on one queue (the faster), {CONNECTIONS} "
        "connections, promotion every 25 ms, polling every 50 ms, uvloop; enqueue_many_copy in batches of 1,000"
    )
    notes: ClassVar = {
        "burst": "of more than some 3,600 jobs due at once none is started: it moves 4,096 with one INSERT, which has "
        "more parameters than PostgreSQL takes; 3,000 work"
    }

    def __init__(self) -> None:
        self._client: AsyncClient

    def variants(self) -> list[Variant]:
        """One or two processes."""
        return [
            Variant(
                label=f"{count} x {workers} workers",
                processes=count,
                commands=[["env", f"{CONCURRENCY}={workers}", *own_worker(self)]] * count,
            )
            for count in (1, 2)
            for workers in CONCURRENCIES
        ]

    async def prepare(self) -> None:
        """Its schema, with its newer engine (queue storage), which COPY needs."""
        client = AsyncClient(_url())
        await client.migrate()
        await client.install_queue_storage()

    async def open(self) -> None:
        """Connects."""
        self._client = AsyncClient(_url(), max_connections=IN_FLIGHT)

    async def submit(self, count: int) -> None:
        """In batches."""
        for start in range(0, count, BATCH):
            await self._client.enqueue_many_copy([Noop()] * (min(count, start + BATCH) - start), queue=QUEUE)

    async def submit_at(self, dues: Sequence[Due]) -> None:
        """A batch has one time, so jobs of the same time go together and others one by one."""
        same = [list(group) for _, group in groupby(dues, key=lambda pair: pair[1])]
        if len(same) == len(dues):
            await at_once(
                (
                    self._client.insert(Started(index, due), queue=QUEUE, run_at=datetime.fromtimestamp(due, UTC))
                    for index, due in dues
                ),
                IN_FLIGHT,
            )
            return
        for group in same:
            for batch in in_batches(group):
                moment = datetime.fromtimestamp(batch[0][1], UTC)
                await self._client.enqueue_many_copy([Started(*pair) for pair in batch], queue=QUEUE, run_at=moment)

    async def work(self) -> None:
        """A worker with its three tasks."""
        client = AsyncClient(_url(), max_connections=CONNECTIONS)

        @client.task(Noop, queue=QUEUE)
        async def noop(_job: Job[Noop]) -> None:
            tallies.count()

        @client.task(Started, queue=QUEUE)
        async def started(job: Job[Started]) -> None:
            tallies.started(job.args.index, job.args.due)

        @client.task(Fired, queue=QUEUE)
        async def fired(job: Job[Fired]) -> None:
            tallies.fired(job.args.index)

        for number in range(schedules_wanted()):
            client.periodic(f"every-{number}", "* * * * * *", Fired, Fired(number), queue=QUEUE)
        workers = int(os.environ[CONCURRENCY])
        await client.start([{"name": QUEUE, "max_workers": workers}], promote_interval_ms=25, poll_interval_ms=50)
        await asyncio.Event().wait()


def _url() -> str:
    # Its driver wants a host name in the address even where the real host is a socket's folder.
    return setting(SERVER_URL).replace("@/", "@localhost/")


if __name__ == "__main__":
    main(AwaPeer())
