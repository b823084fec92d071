"""Rota."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

import rota
from bench.peers import tallies
from bench.peers.peer import (
    Command,
    Due,
    Peer,
    Variant,
    at_once,
    batch_sizes,
    in_batches,
    main,
    module,
    program,
)

IN_FLIGHT = 4
TOKEN = "bench"  # noqa: S105 - of a server that lives for seconds on loopback
READY_SECONDS = 30
app = rota.App()


@app.task(name="noop")
async def noop() -> None:
    """The task that is counted."""
    tallies.count()


@app.task(name="started")
async def started(index: int, due: float) -> None:
    """The task that has a due time."""
    tallies.started(index, due)


@app.task(name="fired")
async def fired(index: int) -> None:
    """The task of a schedule."""
    tallies.fired(index)


class RotaPeer(Peer):
    """The parts that `rota up` starts: one process with API and scheduler, and workers."""

    title = "Rota"
    packages = ("rota", "asyncpg", "uvloop")
    server = "postgres"
    bulk = True
    keeps = "a history row"
    settings = (
        "all defaults (100 slots per worker); submit_many() of the SDK over HTTP with 1,000 calls each, "
        f"{IN_FLIGHT} in flight; schedules one by one, {IN_FLIGHT} in flight"
    )
    environment: ClassVar = {
        "ROTA_DATABASE_URL": "{server}",
        "ROTA_HOME": "{home}",
        "ROTA_PORT": "{port}",
        "ROTA_TOKEN": TOKEN,
        "ROTA_LOG_LEVEL": "warning",
    }

    def variants(self) -> list[Variant]:
        """One or two workers."""
        command = [program("rota"), "worker", "--app", f"{module(self)}:app"]
        return [Variant(label=f"{count} x 100 slots", processes=count, commands=[command] * count) for count in (1, 2)]

    def beside(self) -> list[Command]:
        """The server."""
        return [[program("rota"), "api", "--with-scheduler"]]

    async def prepare(self) -> None:
        """Its schema: `rota migrate`, as a process because it reads its own settings."""
        process = await asyncio.create_subprocess_exec(program("rota"), "migrate")
        if await process.wait():
            raise SystemExit("rota migrate failed")

    async def open(self) -> None:
        """Waits until the server answers."""
        async with rota.AsyncClient(patience=READY_SECONDS) as client:
            await client.workers()

    async def submit(self, count: int) -> None:
        """In batches, a few in flight."""
        await at_once((noop.submit_many(noop.call() for _ in range(size)) for size in batch_sizes(count)), IN_FLIGHT)

    async def submit_at(self, dues: Sequence[Due]) -> None:
        """The same, each with its time."""
        await at_once((_submit_at(batch) for batch in in_batches(dues)), IN_FLIGHT)

    async def schedule(self, count: int) -> None:
        """Cron expressions with seconds."""
        await at_once((fired.cron("* * * * * *").submit(index) for index in range(count)), IN_FLIGHT)


async def _submit_at(dues: Sequence[Due]) -> None:
    await started.submit_many(started.at(datetime.fromtimestamp(due, UTC)).call(index, due) for index, due in dues)


if __name__ == "__main__":
    main(RotaPeer())
