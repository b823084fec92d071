"""Bloat: end to end while another session holds a transaction open, so that nothing dead can be cleaned up."""

from __future__ import annotations

import asyncpg
import msgspec

from bench.lab import Lab
from bench.progress import Progress
from bench.throughput import Sustained, sustain


class Bloat(msgspec.Struct):
    """The first and the last stretch, as jobs per second, and everything between."""

    seconds: float
    first_per_second: float
    last_per_second: float
    share_kept: float
    end_to_end: Sustained
    dead_rows: int


async def measure_bloat(progress: Progress, *, seconds: float) -> Bloat:
    """Throughput over time with a snapshot held from the beginning."""
    window = max(1.0, min(10.0, seconds / 6))
    async with Lab(workers=2) as lab:
        await sustain(lab, window, progress)
        holder = await asyncpg.connect(lab.database_url("rota"))
        try:
            await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM rota.workers")
            progress.say(f"submitting and running for {seconds:g} s while a transaction is held open")
            sustained = await sustain(lab, seconds, progress, window=window)
            dead = await lab.database.fetchval(
                "SELECT n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'rota' AND relname = 'live_runs'"
            )
        finally:
            await holder.close()
    first, last = _mean(sustained.windows[:3]), _mean(sustained.windows[-3:])
    return Bloat(seconds, first, last, last / first, sustained, int(dead))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
