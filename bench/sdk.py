"""The SDK: what a program pays that submits with tasks, over HTTP and in a transaction of its own.

One run after the other, from its submission to its result; many in one go; many inside a transaction, in one call and
one by one; and runs of a transactional task, whose completion is part of its own transaction, beside plain ones.
"""

from __future__ import annotations

import time

import asyncpg
import msgspec

import rota
from bench.lab import Lab
from bench.progress import Progress
from bench.tasks import noop, touch
from rota.ops.bench_load import Spread


class Sdk(msgspec.Struct):
    """The scenario's figures."""

    round_trip: Spread
    submitted_per_second: float
    within_per_second: float
    within_one_by_one_per_second: float
    plain_per_second: float
    transactional_per_second: float
    result: Spread | None = None  # of the round trip, the part after the submission's answer


async def measure_sdk(progress: Progress, *, runs: int, many: int) -> Sdk:
    """Round trips, bulk, transactions."""
    async with Lab(workers=2) as lab:
        app = rota.App("bench", url=lab.url, token=lab.token)
        task = app.task(name="noop")(noop)
        charge = app.task(name="touch")(touch)
        try:
            progress.say(f"{runs:,} runs one after the other, from submission to result")
            round_trip, result = await _round_trips(task, runs)
            progress.figure(f"p50 {round_trip.p50:.1f} ms, p99 {round_trip.p99:.1f}; result() p50 {result.p50:.1f} ms")
            progress.say(f"{many:,} jobs with submit_many, over HTTP and in a transaction")
            submitted = await _submit_many(task, many)
            await lab.drained()
            within, one_by_one = await _within(lab, task, many, runs)
            await lab.drained()
            progress.figure(f"{submitted:,.0f}/s and {within:,.0f}/s; one by one {one_by_one:,.0f}/s")
            progress.say(f"{many:,} runs of a plain task, and of one whose completion is part of its transaction")
            plain = await _ran(lab, task, many)
            transactional = await _ran(lab, charge, many)
            progress.figure(f"{plain:,.0f}/s and {transactional:,.0f}/s")
        finally:
            await app.close()
    return Sdk(round_trip, submitted, within, one_by_one, plain, transactional, result)


async def _round_trips(task: rota.Task[[], None], count: int) -> tuple[Spread, Spread]:
    """Of whole round trips, and of the part after the answer to the submission."""
    whole, after = [], []
    for _ in range(count):
        began = time.perf_counter()
        run = await task.submit()
        submitted = time.perf_counter()
        await run.result(timeout=60)
        ended = time.perf_counter()
        whole.append(ended - began)
        after.append(ended - submitted)
    return Spread.of(whole), Spread.of(after)


async def _submit_many(task: rota.Task[[], None], count: int) -> float:
    began = time.perf_counter()
    await task.submit_many(task.call() for _ in range(count))
    return count / (time.perf_counter() - began)


async def _within(lab: Lab, task: rota.Task[[], None], many: int, one_by_one: int) -> tuple[float, float]:
    connection: asyncpg.Connection = lab.database
    async with connection.transaction():
        began = time.perf_counter()
        await task.within(connection).submit_many(task.call() for _ in range(many))
        together = many / (time.perf_counter() - began)
    async with connection.transaction():
        began = time.perf_counter()
        for _ in range(one_by_one):
            await task.within(connection).submit()
        return together, one_by_one / (time.perf_counter() - began)


async def _ran(lab: Lab, task: rota.Task[[], None], count: int) -> float:
    """From the first submission until all are recorded."""
    began = time.perf_counter()
    await task.submit_many(task.call() for _ in range(count))
    await lab.drained()
    return count / (time.perf_counter() - began)
