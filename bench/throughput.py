"""Throughput: bulk submit, drain, and both at once, over HTTP, with every run recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import msgspec

from bench.lab import Lab, Usage
from bench.limit import measure_limit
from bench.progress import Progress
from rota.ops.bench_load import BenchReceipt, Submitter

BATCH = 1000
AT_ONCE = 3
MOST_WAITING = 20_000
LOOK_SECONDS = 0.005
WINDOW_SECONDS = 10.0
JOB = {"name": "bench", "scheduleType": "immediate", "task": "noop"}


class Sustained(msgspec.Struct):
    """A stretch of submitting and running at once."""

    jobs: int
    per_second: float
    accepted_per_second: float
    refused: int
    windows: list[float]
    rota_cpu_ms_per_1000: float
    postgres_cpu_ms_per_1000: float
    wal_bytes_per_job: float
    transactions_per_1000: float


class Throughput(msgspec.Struct):
    """The scenario's figures; all rates are jobs per second."""

    submit_per_second: float
    drain_per_second: float
    drain_one_worker_per_second: float
    end_to_end: Sustained
    peak_memory_bytes: dict[str, int]
    limit_per_second: float
    share_of_limit: float


async def measure_throughput(progress: Progress, *, seconds: float, backlog: int) -> Throughput:
    """Submit and drain a backlog, then both at once for `seconds`, between two measurements of the raw limit."""
    async with Lab() as lab:
        limits = [await _limit(lab, seconds / 6, progress)]
        progress.say(f"submitting {backlog:,} jobs with no worker running")
        submitted = await submit(lab, count=backlog)
        one = await _drain(lab, 1, progress)
        await submit(lab, count=backlog)
        two = await _drain(lab, 2, progress)
        await lab.start_workers(2)
        progress.say(f"submitting and running at once for {seconds:g} s")
        sustained = await sustain(lab, seconds, progress)
        memory = lab.peak_memory()
        await lab.stop_workers()
        limits.append(await _limit(lab, seconds / 6, progress))
    limit = sum(limits) / len(limits)
    return Throughput(
        submitted.per_second, two, one, sustained, memory, limit, share_of_limit=sustained.per_second / limit
    )


async def submit(lab: Lab, *, count: int | None = None, seconds: float | None = None) -> BenchReceipt:
    """Submits no-op jobs in batches over HTTP: so many as fast as it goes, or for so long as fast as they are run."""
    ran = lab.counter.total
    sent = 0

    async def wait_for_workers() -> None:
        while seconds and sent - (lab.counter.total - ran) > MOST_WAITING:  # noqa: ASYNC110 - counted in another process
            await asyncio.sleep(LOOK_SECONDS)

    async with lab.connect(AT_ONCE) as connections:
        body = connections.request("POST", "/v1/jobs/batch", msgspec.json.encode([JOB] * BATCH))

        def requests() -> Iterator[bytes]:
            nonlocal sent
            ends = time.perf_counter() + (seconds or 3600)
            while time.perf_counter() < ends and (count is None or sent < count):
                sent += BATCH
                yield body

        submitter = Submitter(connections, at_once=AT_ONCE, before_each=wait_for_workers)
        return await submitter.send(requests())


async def sustain(lab: Lab, seconds: float, progress: Progress, *, window: float = WINDOW_SECONDS) -> Sustained:
    """Submits for so long while workers run; counted until the last has run, and all must then be recorded."""
    recorded, ran = await lab.finished(), lab.counter.total
    await lab.look()
    watching = asyncio.create_task(_watch(lab, window, progress))
    began = time.perf_counter()
    submitted = await submit(lab, seconds=seconds)
    watching.cancel()
    windows = (await asyncio.gather(watching, return_exceptions=True))[0]
    ended = await lab.has_run(ran + submitted.accepted)
    used = await lab.used()
    await lab.drained("noop")
    jobs = await lab.finished() - recorded
    if jobs != submitted.accepted:
        raise AssertionError(f"{submitted.accepted} jobs were accepted, {jobs} are recorded")
    return _sustained(jobs, ended - began, submitted, windows if isinstance(windows, list) else [], used)


def _sustained(jobs: int, seconds: float, submitted: BenchReceipt, windows: list[float], used: Usage) -> Sustained:
    return Sustained(
        jobs,
        jobs / seconds,
        submitted.per_second,
        submitted.refused,
        windows,
        rota_cpu_ms_per_1000=used.rota_cpu_seconds / jobs * 1e6,
        postgres_cpu_ms_per_1000=used.postgres_cpu_seconds / jobs * 1e6,
        wal_bytes_per_job=used.wal_bytes / jobs,
        transactions_per_1000=used.transactions / jobs * 1000,
    )


async def _watch(lab: Lab, window: float, progress: Progress) -> list[float]:
    """Runs executed per second in each window, until cancelled."""
    windows: list[float] = []
    before, then = lab.counter.total, time.perf_counter()
    try:
        while True:
            await asyncio.sleep(window)
            now, count = time.perf_counter(), lab.counter.total
            windows.append((count - before) / (now - then))
            progress.figure(f"{windows[-1]:,.0f} jobs/s")
            before, then = count, now
    except asyncio.CancelledError:
        return windows


async def _drain(lab: Lab, workers: int, progress: Progress) -> float:
    """Runs what waits; counted from the moment the workers have joined."""
    progress.say(f"draining with {workers} worker{'s' if workers > 1 else ''}")
    already = lab.counter.total
    waiting = int(await lab.database.fetchval("SELECT count(*) FROM rota.live_runs"))
    await lab.start_workers(workers)
    began, first = time.perf_counter(), lab.counter.total - already
    ended = await lab.drained()
    await lab.stop_workers()
    rate = (waiting - first) / (ended - began)
    progress.figure(f"{rate:,.0f} jobs/s")
    return rate


async def _limit(lab: Lab, seconds: float, progress: Progress) -> float:
    progress.say("the limit: the same row work as raw SQL, two processes")
    limit = await measure_limit(
        lab.database_url("postgres"), lab.database_url("bench_limit"), seconds=seconds, processes=2
    )
    progress.figure(f"{limit:,.0f} jobs/s")
    return limit
