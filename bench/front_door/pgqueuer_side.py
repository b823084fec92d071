"""PGQueuer as its documentation shows it: a connection of asyncpg, JSON as payload."""

from __future__ import annotations

import itertools
import json

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.front_door.side import WIDTH, Arguments, Done, arguments, main, repeat
from bench.peers import tallies
from bench.peers.peer import BATCH, SERVER_URL, at_once, batch_sizes, setting
from bench.peers.peer_pgqueuer import IN_FLIGHT, PgqueuerPeer

POOL = 8
ENTRYPOINT = "noted"


class PgqueuerSide(PgqueuerPeer):
    """The same works."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count()
        self._connection: asyncpg.Connection
        self._alone: Queries  # on that connection
        self._pooled: Queries

    async def open(self) -> None:
        """A connection and a pool besides what the peer has."""
        await super().open()
        self._connection = await asyncpg.connect(setting(SERVER_URL))
        self._alone = Queries(AsyncpgDriver(self._connection))
        pool = await asyncpg.create_pool(setting(SERVER_URL), min_size=POOL, max_size=POOL)
        self._pooled = Queries(AsyncpgPoolDriver(pool))

    async def manager(self, _schedules: int) -> PgQueuer:
        """Runs the one task."""
        manager = PgQueuer(AsyncpgDriver(await asyncpg.connect(setting(SERVER_URL))))
        manager.entrypoint(ENTRYPOINT)(noted)
        return manager

    async def submit(self, count: int) -> None:
        """For drain and end to end: in batches over a pool, a few in flight."""
        await at_once((self._enqueue_many(self._queries, size) for size in batch_sizes(count)), IN_FLIGHT)

    async def work_one(self, seconds: float) -> Done:
        """One by one, on one connection."""
        return await self._one_by_one(self._alone, seconds)

    async def work_coroutines(self, seconds: float) -> Done:
        """Each one by one, over a pool: a connection can't be shared."""
        return await self._one_by_one(self._pooled, seconds, WIDTH)

    async def work_bulk(self, seconds: float) -> Done:
        """Lists, one after the other."""
        return await self._lists(self._alone, seconds)

    async def work_bulk_in_flight(self, seconds: float) -> Done:
        """Lists, a few in flight over a pool."""
        return await self._lists(self._queries, seconds, IN_FLIGHT)

    async def work_within(self, seconds: float) -> Done:
        """One by one, each in a transaction of the program's own."""

        async def one() -> int:
            async with self._connection.transaction():
                await self._alone.enqueue(ENTRYPOINT, encoded(arguments(next(self._numbers))))
            return 1

        return await repeat(one, seconds)

    async def work_within_bulk(self, seconds: float) -> Done:
        """Lists, each in a transaction of the program's own."""

        async def batch() -> int:
            async with self._connection.transaction():
                return await self._enqueue_many(self._alone, BATCH)

        return await repeat(batch, seconds)

    async def work_call(self, seconds: float) -> Done:
        """What a program does instead of a call: the arguments as JSON."""

        async def payloads() -> int:
            return len([encoded(arguments(number)) for number in range(BATCH)])

        return await repeat(payloads, seconds)

    async def _one_by_one(self, queries: Queries, seconds: float, width: int = 1) -> Done:
        async def one() -> int:
            await queries.enqueue(ENTRYPOINT, encoded(arguments(next(self._numbers))))
            return 1

        return await repeat(one, seconds, width)

    async def _lists(self, queries: Queries, seconds: float, width: int = 1) -> Done:
        async def batch() -> int:
            return await self._enqueue_many(queries, BATCH)

        return await repeat(batch, seconds, width)

    async def _enqueue_many(self, queries: Queries, count: int) -> int:
        payloads: list[bytes | None] = [encoded(arguments(next(self._numbers))) for _ in range(count)]
        await queries.enqueue([ENTRYPOINT] * count, payloads, [0] * count)
        return count


def encoded(given: Arguments) -> bytes:
    """A payload."""
    user_id, text, amount = given
    return json.dumps({"user_id": user_id, "text": text, "amount": amount}).encode()


async def noted(job: Job) -> None:
    """The entrypoint of every job: decoded and counted."""
    json.loads(job.payload or b"")
    tallies.count()


if __name__ == "__main__":
    main(PgqueuerSide())
