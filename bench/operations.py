"""Operations: how late other jobs start beside a backfill that has as much to do as it wants."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

import msgspec

from bench.lab import Lab
from bench.progress import Progress
from bench.punctuality import PER_SECOND, lags_of_stream
from rota.client import AsyncClient
from rota.ops.bench_load import Spread

DAYS = 60
LOOK_SECONDS = 0.05


class OperationLags(msgspec.Struct):
    """Start lags in turns, alone and beside a backfill; how much later runs started beside it (the median of the
    turns); and how many runs a second the backfill had beside them."""

    alone: list[Spread]
    beside: list[Spread]
    p50_ratio: float
    p99_ratio: float
    backfilled_per_second: float


async def measure_operations(progress: Progress, *, seconds: float, turns: int) -> OperationLags:
    """PER_SECOND jobs a second on two workers, alone and beside a backfill, in turns."""
    alone: list[Spread] = []
    beside: list[Spread] = []
    rates: list[float] = []
    async with Lab(workers=2) as lab, AsyncClient(lab.url, lab.token) as client:
        made = await client.submit("each minute", task="noop", cron="* * * * *")
        await lags_of_stream(lab, seconds / 2, name="warm")
        for turn in range(turns):
            progress.say(f"turn {turn + 1}: {PER_SECOND} jobs a second for {seconds:g} s, then beside a backfill")
            alone.append(await lags_of_stream(lab, seconds, name=f"alone {turn}"))
            async with _backfill(client, made.job_id, rates):
                beside.append(await lags_of_stream(lab, seconds, name=f"beside {turn}"))
            progress.figure(
                f"p50 {alone[-1].p50:.1f} → {beside[-1].p50:.1f} ms, p99 {alone[-1].p99:.1f} → {beside[-1].p99:.1f} "
                f"ms, beside {rates[-1]:,.0f} backfilled runs/s"
            )
    pairs = list(zip(alone, beside, strict=True))
    return OperationLags(
        alone,
        beside,
        median(busy.p50 / quiet.p50 for quiet, busy in pairs),
        median(busy.p99 / quiet.p99 for quiet, busy in pairs),
        median(rates),
    )


@asynccontextmanager
async def _backfill(client: AsyncClient, job_id: str, rates: list[float]) -> Any:
    """A backfill that goes on for as long as we measure, with the window it gets by itself."""
    started = datetime.now(UTC)
    operation = await client.backfill(job_id, start=started - timedelta(days=DAYS), existing="rerun", unknown="run")
    try:
        yield
        done = (await client.operation(operation.operation_id)).counts
        rates.append((done.made - done.running) / (datetime.now(UTC) - started).total_seconds())
    finally:
        await client.abort_operation(operation.operation_id)
        while (await client.operation(operation.operation_id)).end_time is None:  # noqa: ASYNC110 - another process's
            await asyncio.sleep(LOOK_SECONDS)
