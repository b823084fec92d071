"""Idle: what it costs to wait for 100,000 runs that are not due."""

from __future__ import annotations

import asyncio

import msgspec

from bench.growth import PLANT
from bench.lab import Lab
from bench.progress import Progress

SETTLE_SECONDS = 30.0  # the server vacuums what starting left behind


class Idle(msgspec.Struct):
    """Per cent of one core, and transactions a minute."""

    upcoming: int
    seconds: float
    rota_cpu_percent: float
    postgres_cpu_percent: float
    transactions_per_minute: float
    memory_bytes: dict[str, int]


async def measure_idle(progress: Progress, *, upcoming: int, seconds: float) -> Idle:
    """Everything is up, nothing is due."""
    async with Lab(workers=2) as lab:
        await lab.database.execute(PLANT, 1, upcoming)
        await lab.database.execute("VACUUM ANALYZE rota.upcoming_runs")  # or the server's own vacuum would be measured
        await lab.database.execute("CHECKPOINT")
        progress.say(f"doing nothing for {seconds:g} s with {upcoming:,} upcoming runs")
        await asyncio.sleep(SETTLE_SECONDS)
        await lab.look()
        await asyncio.sleep(seconds)
        used = await lab.used()
        memory = lab.peak_memory()
    idle = Idle(
        upcoming,
        seconds,
        used.rota_cpu_seconds / used.seconds * 100,
        used.postgres_cpu_seconds / used.seconds * 100,
        used.transactions / used.seconds * 60,
        memory,
    )
    progress.figure(
        f"{idle.rota_cpu_percent:.1f} % of a core in Rota, {idle.postgres_cpu_percent:.1f} % in PostgreSQL, "
        f"{idle.transactions_per_minute:,.0f} transactions a minute"
    )
    return idle
