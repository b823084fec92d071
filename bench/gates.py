"""Gates: what keys cost those that have one, and those that have none.

Runs with as many ordering keys as there are runs, submitted, admitted, claimed and run at once: so many a second come
through admission. A chain of runs with one key: how long from the end of one to the start of the
next. And plain runs beside as many keys with work waiting at each, and beside none, in turns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import islice, pairwise

import msgspec

from bench.lab import Lab
from bench.progress import Progress
from bench.throughput import sustain
from rota.ops.bench_load import Spread, Submitter, percentile

BATCH = 1000
AT_ONCE = 2
LOOK_SECONDS = 0.2
JOB = {"name": "keyed", "scheduleType": "immediate", "task": "noop"}
# Behind each of these stands another: the first ones are of a task that no worker knows, so they stay.
STUCK = {"name": "stuck", "scheduleType": "immediate", "task": "unknown"}


class Gates(msgspec.Struct):
    """The scenario's figures."""

    keys: int
    admitted_per_second: float
    next_of_key: Spread
    plain_per_second: float
    plain_beside_keys_per_second: float
    share: float


async def measure_gates(progress: Progress, *, keys: int, chain: int, seconds: float) -> Gates:
    """Through admission, along a chain, and past it."""
    async with Lab(workers=2) as lab:
        progress.say(f"{keys:,} runs with an ordering key each, submitted, admitted and run at once")
        ran = lab.counter.total
        began = time.perf_counter()
        await _submit(lab, ({**JOB, "orderingKey": f"key-{number}"} for number in range(keys)))
        ended = await lab.has_run(ran + keys)
        admitted = keys / (ended - began)
        progress.figure(f"{admitted:,.0f} runs/s")
        progress.say(f"a chain of {chain:,} runs with one key")
        gaps = await _chain(lab, chain)
        progress.figure(f"from one to the next p50 {gaps.p50:.1f} ms, p99 {gaps.p99:.1f}")
        await lab.drained()
    plain, beside = await _beside(progress, keys, seconds)
    return Gates(keys, admitted, gaps, plain, beside, beside / plain)


async def _chain(lab: Lab, count: int) -> Spread:
    """From the end of each run to the start of the next one of its key."""
    ran = lab.counter.total
    await _submit(lab, ({**JOB, "name": "chain", "orderingKey": "chain"} for _ in range(count)))
    await lab.has_run(ran + count)
    await lab.drained()
    rows = await lab.database.fetch(
        "SELECT started_at, finished_at FROM rota.finished_runs WHERE name = 'chain' ORDER BY started_at"
    )
    return Spread.of(
        [(after["started_at"] - before["finished_at"]).total_seconds() for before, after in pairwise(rows)]
    )


async def _beside(progress: Progress, keys: int, seconds: float) -> tuple[float, float]:
    """Plain runs beside nobody, and beside so many keys with one live and one waiting each."""
    async with Lab(workers=2) as empty, Lab(workers=2) as crowded:
        progress.say(f"{keys:,} keys, each with a run that waits behind another")
        stuck = ({**STUCK, "orderingKey": f"key-{number % keys}"} for number in range(2 * keys))
        await _submit(crowded, stuck)
        await _until_parked(crowded, keys)
        progress.say("plain runs beside them, and beside nobody")
        rates: dict[Lab, list[float]] = {empty: [], crowded: []}
        for turn in (empty, crowded, crowded, empty, empty, crowded):
            rates[turn].append((await sustain(turn, seconds, progress, window=seconds)).per_second)
        return percentile(sorted(rates[empty]), 0.5), percentile(sorted(rates[crowded]), 0.5)


async def _until_parked(lab: Lab, keys: int) -> None:
    parked = "SELECT count(*) FROM rota.held_runs WHERE gate = 'order'"
    deadline = time.perf_counter() + 600
    while int(await lab.database.fetchval(parked)) < keys:
        if time.perf_counter() > deadline:
            raise TimeoutError("not all runs came to wait at their gates")
        await asyncio.sleep(LOOK_SECONDS)


async def _submit(lab: Lab, jobs: Iterator[dict[str, str]]) -> None:
    def batches() -> Iterator[list[dict[str, str]]]:
        while batch := list(islice(jobs, BATCH)):
            yield batch

    async with lab.connect(AT_ONCE) as connections:
        await Submitter(connections, at_once=AT_ONCE).submit(batches())
