"""Readers: how long jobs wait for their start while other sessions scan the hot table in open transactions.

Autovacuum is switched off for the hot table: what dies there must be removed without it. Beside the readers stands a
control, sessions that only use as much processor time: what they cost comes from the machine and not from dead rows.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec

from bench.lab import Lab
from bench.progress import Progress
from rota.ops.bench_load import Spread

PER_SECOND = 3000
BATCH = 30
READERS = 4
CONNECTIONS = 16
_SCAN = "SELECT count(*) FROM rota.live_runs"
_COMPUTE = "SELECT count(*) FROM generate_series(1, 200000)"
_DEAD = "SELECT pg_stat_get_dead_tuples('rota.live_runs'::regclass)"


class Beside(msgspec.Struct):
    """Jobs beside some sessions: the share of the rate that was kept, waits until the start, the most dead rows."""

    share_kept: float
    waits: Spread
    dead_rows: int


class Readers(msgspec.Struct):
    """The same load alone, beside readers, and beside sessions that compute."""

    quiet: Beside
    readers: Beside
    control: Beside


async def measure_readers(progress: Progress, *, seconds: float) -> Readers:
    """One after the other on two workers."""
    async with Lab(workers=2) as lab:
        await lab.database.execute("ALTER TABLE rota.live_runs SET (autovacuum_enabled = false)")
        found = []
        for name, text in (("quiet", None), ("readers", _SCAN), ("control", _COMPUTE)):
            progress.say(f"{PER_SECOND:,} jobs a second for {seconds:g} s, {name}")
            async with _sessions(lab, text):
                found.append(await _measure(lab, name, seconds))
            progress.figure(f"p99 {found[-1].waits.p99:,.0f} ms, {found[-1].dead_rows:,} dead rows at most")
    return Readers(*found)


@asynccontextmanager
async def _sessions(lab: Lab, text: str | None) -> Any:
    """Sessions that repeat a query in transactions of a second."""

    async def work() -> None:
        sql = await asyncpg.connect(lab.database_url("rota"))
        try:
            while True:
                async with sql.transaction(isolation="repeatable_read"):
                    until = time.monotonic() + 1
                    while time.monotonic() < until:
                        await sql.fetchval(text)
        finally:
            sql.terminate()

    tasks = [asyncio.create_task(work()) for _ in range(READERS if text else 0)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _measure(lab: Lab, name: str, seconds: float) -> Beside:
    """Batches over HTTP, each sent at its moment, answered or not the one before; waits are those of the records."""
    job = {"name": name, "scheduleType": "immediate", "task": "noop"}
    count = int(seconds * PER_SECOND / BATCH)
    dead = [0]
    async with lab.connect(CONNECTIONS) as connections, asyncio.TaskGroup() as group:
        body = connections.request("POST", "/v1/jobs/batch", msgspec.json.encode([job] * BATCH))
        watching = group.create_task(_watch(lab, dead))
        began = time.perf_counter()
        sending = []
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number * BATCH / PER_SECOND - time.perf_counter()))
            sending.append(group.create_task(connections.send(body)))
        await asyncio.gather(*sending)
        ended = await lab.drained()
        watching.cancel()
    rows = await lab.database.fetch(
        "SELECT extract(epoch FROM started_at - created_at)::float8 FROM rota.finished_runs WHERE name = $1", name
    )
    return Beside(min(1.0, seconds / (ended - began)), Spread.of([row[0] for row in rows]), max(dead))


async def _watch(lab: Lab, dead: list[int]) -> None:
    sql = await asyncpg.connect(lab.database_url("rota"))
    try:
        while True:
            dead.append(await sql.fetchval(_DEAD))
            await asyncio.sleep(0.5)
    finally:
        sql.terminate()
